"""What is done with a draft while its person writes: its tokens are counted, and the engine reads it ahead."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.chat.answering import Answering
from app.chat.attachments import Attachments
from app.chat.collection import ConversationCollection
from app.engine_client import EngineClient
from app.model_session import ModelSession
from app.settings import Settings
from app.storage.records import clean_text
from app.throttle import Throttle
from engine.protocol import Message, Role

DELAY_MS = 150
MIN_READ_AHEAD = 400
"""Characters; a shorter draft is read faster than it is sent."""
MAX_COUNTED_AT_ONCE = 100_000
"""Characters; of a longer draft a sample is counted first, for all of it takes seconds."""
_SAMPLES, _SAMPLE_CHARACTERS = 5, 2000


class DraftReader(QObject):
    """Follows the drafts of conversations.

    Signals:
        cost_known(tokens, share of the context, seconds to read, is an estimate): of the last draft; 0 where it is
            not known. After an estimate comes the number itself.
    """

    cost_known = Signal(int, float, float, bool)

    def __init__(
        self,
        client: EngineClient,
        session: ModelSession,
        collection: ConversationCollection,
        answering: Answering,
        attachments: Attachments,
        settings: Settings,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client = client
        self._session = session
        self._collection = collection
        self._answering = answering
        self._attachments = attachments
        self._settings = settings
        self._conversation_id = ""
        self._text = ""
        self._is_reading = False
        self._is_new = False
        self._delay = Throttle(DELAY_MS, self._look, self)

    def follow(self, conversation_id: str, text: str) -> None:
        """The draft of a conversation is ``text`` now; looked at when typing pauses."""
        self._conversation_id, self._text = conversation_id, clean_text(text)
        self._delay.delay()

    def opened(self, conversation_id: str, draft: str) -> None:
        """A conversation is looked at, or a model is there for it: what the disk has of it comes back meanwhile."""
        self._is_new = conversation_id in self._collection and len(self._collection.tree(conversation_id)) > 0
        self.follow(conversation_id, draft)

    def close(self) -> None:
        """Look at nothing any more."""
        self._delay.cancel()

    def _look(self) -> None:
        if self._session.info is None or self._conversation_id not in self._collection:
            return
        draft = self._attachments.prompt_text(self._conversation_id, None) + self._text
        if len(draft) <= MAX_COUNTED_AT_ONCE:
            self._client.count_tokens(draft, self._tell)
        else:
            sample = _sample(draft)
            self._client.count_tokens(sample, lambda number: self._on_sampled(draft, number / len(sample)))
        self._read_ahead(draft)

    def _on_sampled(self, draft: str, tokens_per_character: float) -> None:
        self._tell(round(tokens_per_character * len(draft)), is_estimate=True)
        self._client.count_tokens(draft, self._tell)

    def _read_ahead(self, draft: str) -> None:
        """Let the engine read the draft after the conversation so far, while it has nothing else to do."""
        is_worth_it = len(draft) >= MIN_READ_AHEAD and bool(self._settings.value("reads_ahead"))
        is_busy = self._answering.is_busy(self._conversation_id)
        is_worth_it = is_worth_it and not is_busy
        tree = self._collection.tree(self._conversation_id)
        is_new, self._is_new = self._is_new, False
        if is_worth_it or (is_new and not is_busy):
            self._client.read_ahead(
                self._conversation_id,
                (*self._answering.prompt(tree, tree.record.active_leaf_id), Message(Role.USER, draft)),
                self._answering.context_policy(tree),
                self._answering.tools(tree),
                only_kept=not is_worth_it,
            )
        elif self._is_reading:
            self._client.read_ahead(self._conversation_id)
        self._is_reading = is_worth_it

    def _tell(self, num_tokens: int, *, is_estimate: bool = False) -> None:
        info = self._session.info
        if info is not None:
            rate = self._answering.reading_rate
            seconds = num_tokens / rate if rate else 0.0
            self.cost_known.emit(num_tokens, num_tokens / info.context_length, seconds, is_estimate)


def _sample(draft: str) -> str:
    """Pieces from all over a long ``draft``, beginning and end among them."""
    last = len(draft) - _SAMPLE_CHARACTERS
    starts = (last * index // (_SAMPLES - 1) for index in range(_SAMPLES))
    return "".join(draft[start : start + _SAMPLE_CHARACTERS] for start in starts)
