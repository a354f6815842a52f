"""State checkpoints: what recurrent and convolutional layers hold after a prefix, kept on the prefix's nodes.

Keys and values of a prefix lie in blocks and any shorter prefix is a part of them; a recurrent state has no such
parts. A sequence of such a model can therefore only start where a checkpoint was taken. The bytes of a state are
the backend's and opaque here. The tree says which node ends a prefix; this module bounds how many are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

DEFAULT_MAX_BYTES = 256 << 20


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state after a prefix.

    Attributes:
        num_tokens: length of the prefix, at least 1.
        state: (num_bytes,) uint8 as the backend gave it; nobody writes to it.
    """

    num_tokens: int
    state: npt.NDArray[np.uint8]


class Holder(Protocol):
    """What checkpoints hang on: a node of the tree."""

    checkpoints: tuple[Checkpoint, ...]


class Checkpoints:
    """All checkpoints of a tree, at most ``max_bytes`` together; the least recently used give way.

    Attributes:
        num_bytes: of all that are kept.
    """

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._holders: OrderedDict[Checkpoint, Holder] = OrderedDict()
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, holder: Holder, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint on ``holder``, unless it has one of that length or it is larger than everything."""
        if checkpoint.state.nbytes > self._max_bytes:
            return
        known = next((each for each in holder.checkpoints if each.num_tokens == checkpoint.num_tokens), None)
        if known is not None:
            self._holders.move_to_end(known)
            return
        while self.num_bytes + checkpoint.state.nbytes > self._max_bytes:
            oldest, place = self._holders.popitem(last=False)
            place.checkpoints = tuple(each for each in place.checkpoints if each is not oldest)
            self.num_bytes -= oldest.state.nbytes
        holder.checkpoints = (*holder.checkpoints, checkpoint)
        self._holders[checkpoint] = holder
        self.num_bytes += checkpoint.state.nbytes

    def mark_used(self, checkpoint: Checkpoint) -> None:
        """Keep ``checkpoint`` longer than those that were not used since."""
        self._holders.move_to_end(checkpoint)

    def move(self, source: Holder, target: Holder) -> None:
        """Give the checkpoints of ``source`` to ``target``, which holds the same tokens and more."""
        for checkpoint in source.checkpoints:
            self._holders[checkpoint] = target
        target.checkpoints += source.checkpoints
        source.checkpoints = ()

    def drop(self, holder: Holder) -> None:
        """Forget the checkpoints of a node that leaves the tree."""
        for checkpoint in holder.checkpoints:
            del self._holders[checkpoint]
            self.num_bytes -= checkpoint.state.nbytes
        holder.checkpoints = ()

    def check_integrity(self, holders: Iterable[Holder]) -> None:
        """Raise AssertionError unless exactly the checkpoints of ``holders`` are counted, and are within bounds."""
        found = {checkpoint: holder for holder in holders for checkpoint in holder.checkpoints}
        assert found == dict(self._holders), "checkpoints hang on other nodes than noted"
        num_bytes = sum(checkpoint.state.nbytes for checkpoint in found)
        assert num_bytes == self.num_bytes <= self._max_bytes, f"{num_bytes} bytes of checkpoints, {self.num_bytes}"
