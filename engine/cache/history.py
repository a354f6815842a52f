"""What was read for each conversation, and so why a request had to read what it read.

Remembers token ids only: the ends of the conversation's branches that were computed. Whether their blocks are still
in the KV cache or on the disk is others' affair.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engine.protocol import RereadReason

MAX_CONVERSATIONS = 256
MAX_BRANCHES = 8  # of one conversation
NUM_FIRST = 16  # tokens that a text must have in common with another place to be the same text
MAX_PLACES = 16  # of those that are looked at; a text that repeats itself may so seem to have moved in part

TokenIds = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class _Branch:
    """Attributes:
    token_ids: (num_tokens,) int32.
    num_dropped: messages that had left the context when it was read.
    """

    token_ids: TokenIds
    num_dropped: int

    @property
    def size(self) -> int:
        return self.token_ids.size


@dataclass
class _Conversation:
    """Attributes:
    branches: the newest first; none begins another.
    engine: number of the engine that read them.
    """

    engine: int
    branches: list[_Branch] = field(default_factory=list)


class History:
    """The branches of the conversations used last."""

    def __init__(self) -> None:
        self._conversations: OrderedDict[str, _Conversation] = OrderedDict()
        self._engine = 0

    def start_engine(self) -> None:
        """Note that the KV cache is empty: a model was loaded, or its engine started over."""
        self._engine += 1

    def remember(self, conversation_id: str, token_ids: Sequence[int], num_dropped: int = 0) -> None:
        """Note that ``token_ids`` were computed for a conversation, without its ``num_dropped`` oldest messages."""
        new = np.asarray(token_ids, dtype=np.int32)
        known = self._conversations.get(conversation_id)
        if known is None or known.engine != self._engine:
            known = self._conversations[conversation_id] = _Conversation(self._engine)
        self._conversations.move_to_end(conversation_id)
        others = [branch for branch in known.branches if num_common(branch.token_ids, new) < branch.size]
        if all(num_common(branch.token_ids, new) < new.size for branch in others):
            others.insert(0, _Branch(new, num_dropped))
        known.branches = others[:MAX_BRANCHES]
        while len(self._conversations) > MAX_CONVERSATIONS:
            self._conversations.popitem(last=False)

    def forget(self, conversation_id: str) -> None:
        """Drop a conversation; unknown ones are ignored."""
        self._conversations.pop(conversation_id, None)

    def forget_where(self, is_meant: Callable[[str], bool]) -> None:
        """Drop the conversations whose ids are meant."""
        for conversation_id in list(filter(is_meant, self._conversations)):
            self.forget(conversation_id)

    def branches(self, conversation_id: str) -> list[TokenIds]:
        """What this engine computed for a conversation, the newest first."""
        known = self._conversations.get(conversation_id)
        is_current = known is not None and known.engine == self._engine
        return [branch.token_ids for branch in known.branches] if known is not None and is_current else []

    def explain(
        self, conversation_id: str, token_ids: Sequence[int], num_reused_tokens: int, num_dropped: int = 0
    ) -> tuple[RereadReason, int]:
        """Why a prompt of which ``num_reused_tokens`` were in the KV cache was read from there on.

        ``num_dropped`` messages of the conversation have left the context. Returns the reason, and how many tokens
        had been read before and are read again.
        """
        wanted = np.asarray(token_ids, dtype=np.int32)
        known = self._conversations.get(conversation_id)
        if known is None:
            return RereadReason.FIRST_TIME, 0
        common = [num_common(branch.token_ids, wanted) for branch in known.branches]
        shared = max(common, default=0)
        # A prompt's last token may be computed again for its logits; that is no loss worth a reason.
        num_lost = min(shared, wanted.size - 1) - num_reused_tokens
        if num_lost > 0:
            is_current = known.engine == self._engine
            return RereadReason.EVICTED if is_current else RereadReason.RELOADED, num_lost
        is_all_here = num_reused_tokens >= wanted.size - 1  # maybe from the disk, which knows more branches
        if is_all_here or any(shared == branch.size for branch in known.branches) or shared == wanted.size:
            return RereadReason.NOTHING, 0
        nearest = known.branches[common.index(shared)]
        if num_dropped > nearest.num_dropped:
            return RereadReason.CONTEXT_SHIFTED, _num_moved(
                known.branches, wanted[max(shared, num_reused_tokens) :]
            )
        return RereadReason.CHANGED, 0


def _num_moved(branches: Sequence[_Branch], rest: TokenIds) -> int:
    """How many of the first tokens of ``rest`` were read at another place, behind what has left the context."""
    longest = 0
    first = rest[:NUM_FIRST]
    for branch in branches:
        if 0 < first.size <= branch.size:
            windows = np.lib.stride_tricks.sliding_window_view(branch.token_ids, first.size)
            places = np.flatnonzero((windows == first).all(axis=1))[-MAX_PLACES:]
            longest = max(longest, *(num_common(branch.token_ids[place:], rest) for place in places), 0)
    return longest


def num_common(a: TokenIds, b: TokenIds) -> int:
    """Length of the longest common beginning."""
    length = min(a.size, b.size)
    different = np.flatnonzero(a[:length] != b[:length])
    return int(different[0]) if different.size else length
