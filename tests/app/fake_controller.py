"""A controller with the real one's face, filled by hand: what the views are tested and looked at with."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.attachments import Attachments
from app.chat.conversation import MessageView
from app.chat.folders import Folders
from app.chat.larger_context import LargerContext
from app.chat.presets import Presets
from app.chat.trash import Trash
from app.model_session import ModelEntry
from app.schema.library import SchemaLibrary
from app.settings import Settings
from app.storage.records import ConversationRecord, MessageRecord, MessageStatus, new_id
from engine.protocol import ModelInfo, Role

DAY = 86_400.0

MODEL = ModelInfo(
    path=Path("/models/SmolLM2-135M-Instruct.Q4_1.gguf"),
    name="SmolLM2 135M Instruct",
    architecture="llama",
    tensor_type="Q4_1",
    num_parameters=134_515_008,
    file_bytes=98_000_000,
    context_length=8192,
    trained_context_length=8192,
    vocab_size=49152,
    num_threads=2,
    device="CPU",
    kv_bytes=188_000_000,
    has_chat_template=True,
)

STATS = {
    "num_prompt_tokens": 1204,
    "num_reused_tokens": 1148,
    "num_completion_tokens": 86,
    "prompt_ms": 50.0,
    "first_token_ms": 60.0,
    "generation_ms": 276.0,
    "tokens_per_second": 312.0,
    "seed": 1,
    "finish_reason": "stop",
}

SORTING_ANSWER = """Each line starts with an ISO date, so plain text order is date order. \
Sort in reverse and keep the lines that have no date attached to the one above them:

```python
from pathlib import Path

lines = Path("app.log").read_text(encoding="utf-8").splitlines()
lines.sort(key=lambda line: line[:19], reverse=True)
print("\\n".join(lines))
```

If the log is larger than memory, use the system's **sort -r**, which spills to disk."""


class _NoStore:
    """Keeps nothing."""

    is_whole = False

    def read_folders(self) -> list[object]:
        return []

    read_trash = read_presets = read_folders

    def read_attachments(self, _conversation_id: str) -> list[object]:
        return []

    def read_attachment_files(self) -> set[str]:
        return set()

    def write(self, *_arguments: object) -> None:
        return


class FakeController(QObject):
    """Keeps everything in memory and answers nothing by itself; ``stream`` plays an answer."""

    conversations_changed = Signal()
    conversation_opened = Signal(str)
    message_added = Signal(str, object)
    message_changed = Signal(str, object)
    delta = Signal(str, str, str, str)
    reading_progress = Signal(str, int, int, int)
    generation_started = Signal(str, str)
    generation_finished = Signal(str, str)
    model_loading = Signal(str, float, str)
    model_loaded = Signal(object)
    model_failed = Signal(str)
    model_ejected = Signal()
    models_changed = Signal()
    context_used = Signal(int, int, int)
    notice = Signal(str)
    waiting = Signal(str)
    cost_known = Signal(int, float, float, bool)
    context_shifted = Signal(str)
    looked_closer = Signal(object)
    message_found = Signal(str, object)

    def __init__(self, *, model: ModelInfo | None = MODEL) -> None:
        super().__init__()
        self.deleted: list[list[str]] = []
        self.calls: list[tuple[object, ...]] = []
        self.model_info = model
        self.can_load_anyway = False
        self.models = [
            ModelEntry(MODEL.path, MODEL.name, "Q4_1 · 98 MB"),
            ModelEntry(Path("/models/gemma-3-270m.gguf"), "Gemma 3 270M", "Q4_K_M · 253 MB"),
            ModelEntry(
                Path("/models/llava.gguf"), "llava 1.6 projector", "F16 · 0.6 GB", "an image part, no chat model"
            ),
        ]
        self.generating_ids: set[str] = set()
        self._records: dict[str, ConversationRecord] = {}
        self._messages: dict[str, list[MessageView]] = {}
        self.folders = Folders(_NoStore(), Settings())  # type: ignore[arg-type]
        self.folders.changed.connect(self.conversations_changed)
        self.trash = Trash(_NoStore())  # type: ignore[arg-type]
        self._filter = ""
        self.excerpts: dict[str, str] = {}
        self.presets = Presets(_NoStore(), Settings())  # type: ignore[arg-type]
        self.schemas = SchemaLibrary(Path("/nowhere"))
        self.takes_messages = True
        self.context_start = ""
        self.attachments = Attachments(_NoStore(), Path("/nowhere"))  # type: ignore[arg-type]
        self.current_id = self._make("", in_list=False)

    # ------------------------------------------------------------------------------------------ the face

    @property
    def conversations(self) -> list[ConversationRecord]:
        shown = [record for record in self._records.values() if record.title]
        return [record for record in shown if self._filter in record.title.lower()]

    @property
    def current_conversation(self) -> ConversationRecord:
        return self._records[self.current_id]

    @property
    def has_messages(self) -> bool:
        return bool(self.current_messages)

    @property
    def current_messages(self) -> list[MessageView]:
        return list(self._messages[self.current_id])

    @property
    def loading_name(self) -> str:
        return ""

    @property
    def has_models(self) -> bool:
        return any(not entry.problem for entry in self.models)

    @property
    def is_generating(self) -> bool:
        return self.current_id in self.generating_ids

    @property
    def is_searching(self) -> bool:
        return bool(self._filter)

    @property
    def search_words(self) -> tuple[str, ...]:
        return tuple(self._filter.split())

    def excerpt(self, conversation_id: str) -> str:
        return self.excerpts.get(conversation_id, "")

    def new_conversation(self, folder_id: str | None = None) -> None:
        self.calls.append(("new_conversation", folder_id))
        self.current_id = self._make("", in_list=False)
        self.conversation_opened.emit(self.current_id)

    def open_conversation(self, conversation_id: str) -> None:
        self.calls.append(("open_conversation", conversation_id))
        self.current_id = conversation_id
        self.conversation_opened.emit(conversation_id)

    def open_found(self, conversation_id: str) -> None:
        self.calls.append(("open_found", conversation_id))
        self.open_conversation(conversation_id)

    def rename_conversation(self, conversation_id: str, title: str) -> None:
        self.calls.append(("rename_conversation", conversation_id, title))
        self._records[conversation_id] = replace(self._records[conversation_id], title=title)
        self.conversations_changed.emit()

    def delete_conversations(self, conversation_ids: list[str]) -> None:
        self.calls.append(("delete_conversations", conversation_ids))
        self.deleted.append(list(conversation_ids))
        for conversation_id in conversation_ids:
            self.trash.put(self._records.pop(conversation_id))
            if conversation_id == self.current_id:
                self.current_id = self._make("", in_list=False)
                self.conversation_opened.emit(self.current_id)
        self.conversations_changed.emit()

    def restore_conversations(self, conversation_ids: list[str]) -> None:
        self.calls.append(("restore_conversations", conversation_ids))
        self.deleted = [ids for ids in self.deleted if ids != conversation_ids]
        for conversation_id in conversation_ids:
            record = self.trash.take(conversation_id)
            assert record is not None
            self._records[conversation_id] = record
        self.conversations_changed.emit()

    def pin_conversations(self, conversation_ids: list[str], is_pinned: bool) -> None:
        self.calls.append(("pin_conversations", conversation_ids, is_pinned))
        self._change(conversation_ids, is_pinned=is_pinned)

    def move_conversations(self, conversation_ids: list[str], folder_id: str | None) -> None:
        self.calls.append(("move_conversations", conversation_ids, folder_id))
        self._change(conversation_ids, folder_id=folder_id)

    def _change(self, conversation_ids: list[str], **fields: object) -> None:
        for conversation_id in conversation_ids:
            self._records[conversation_id] = replace(self._records[conversation_id], **fields)
        self.conversations_changed.emit()

    def search(self, text: str) -> None:
        self.calls.append(("search", text))
        self._filter = text.lower()
        self.conversations_changed.emit()

    def send(self, text: str) -> bool:
        self.calls.append(("send", text))
        if self.takes_messages:
            self.add(Role.USER, text)
        return self.takes_messages

    def stop(self) -> None:
        self.calls.append(("stop",))

    def regenerate(self, message_id: str) -> None:
        self.calls.append(("regenerate", message_id))

    def drop_turns(self, message_id: str) -> None:
        self.calls.append(("drop_turns", message_id))

    def undo_deletion(self) -> str:
        if not self.deleted:
            return ""
        self.restore_conversations(self.deleted[-1])
        return "It is back."

    @property
    def can_undo_deletion(self) -> bool:
        return bool(self.deleted)

    def larger_context(self, message_id: str) -> LargerContext | None:
        return LargerContext(16_384, 400_000_000, 8_000_000_000, 2_000, 40_000)

    def enlarge_context(self, message_id: str, context_length: int) -> None:
        self.calls.append(("enlarge_context", message_id, context_length))

    def reproduce(self, message_id: str) -> None:
        self.calls.append(("reproduce", message_id))

    def continue_answer(self, message_id: str) -> None:
        self.calls.append(("continue_answer", message_id))

    def branch_from(self, message_id: str, content: str) -> None:
        self.calls.append(("branch_from", message_id, content))

    def look_closer(self, message_id: str, offset: int) -> None:
        self.calls.append(("look_closer", message_id, offset))

    def fork(self, message_id: str) -> None:
        self.calls.append(("fork", message_id))

    def edit_and_resend(self, message_id: str, text: str) -> None:
        self.calls.append(("edit_and_resend", message_id, text))

    def give_results(self, message_id: str, results: list[str]) -> None:
        self.calls.append(("give_results", message_id, results))

    def select_sibling(self, message_id: str, step: int) -> None:
        self.calls.append(("select_sibling", message_id, step))

    def set_options(self, options: dict[str, object]) -> None:
        self.calls.append(("set_options", options))
        self._records[self.current_id] = replace(self.current_conversation, options=dict(options))

    def set_option(self, conversation_id: str, key: str, value: object) -> None:
        record = self._records[conversation_id]
        options = {name: kept for name, kept in record.options.items() if name != key}
        self._records[conversation_id] = replace(
            record, options=options if value is None else {**options, key: value}
        )

    def save_draft(self, text: str) -> None:
        self.calls.append(("save_draft", text))
        self._records[self.current_id] = replace(self.current_conversation, draft=text)

    def load_model(self, path: str) -> None:
        self.calls.append(("load_model", path))

    def load_anyway(self) -> None:
        self.calls.append(("load_anyway",))

    def eject_model(self) -> None:
        self.calls.append(("eject_model",))
        self.model_info = None
        self.model_ejected.emit()

    def refresh_models(self) -> None:
        self.calls.append(("refresh_models",))

    def count_tokens(self, text: str) -> None:
        self.calls.append(("count_tokens", text))
        self.cost_known.emit(len(text.split()), 0.0, 0.0, False)

    # ------------------------------------------------------------------------------------------ by hand

    def add_conversation(self, title: str, age_s: float = 0.0, *, is_pinned: bool = False) -> str:
        conversation_id = self._make(title, age_s=age_s, is_pinned=is_pinned)
        self.conversations_changed.emit()
        return conversation_id

    def add(self, role: Role, content: str, *, siblings: tuple[int, int] = (0, 1), **fields: object) -> str:
        """Append a message to the open conversation; gives its id."""
        record = MessageRecord(
            id=new_id(), conversation_id=self.current_id, parent_id=None, role=role, content=content, **fields
        )
        view = MessageView(record, *siblings)
        self._messages[self.current_id].append(view)
        self.message_added.emit(self.current_id, view)
        return record.id

    def change(self, message_id: str, **fields: object) -> None:
        messages = self._messages[self.current_id]
        for index, view in enumerate(messages):
            if view.record.id == message_id:
                messages[index] = replace(view, record=replace(view.record, **fields))
                self.message_changed.emit(self.current_id, messages[index])

    def begin_answer(self) -> str:
        """An empty answer that is being written."""
        self.generating_ids.add(self.current_id)
        message_id = self.add(Role.ASSISTANT, "", status=MessageStatus.STREAMING, model_name=MODEL.name)
        self.generation_started.emit(self.current_id, message_id)
        return message_id

    def push(self, message_id: str, text: str, channel: str = "answer") -> None:
        messages = self._messages[self.current_id]
        record = messages[-1].record
        field = "reasoning" if channel == "reasoning" else "content"
        messages[-1] = replace(messages[-1], record=replace(record, **{field: getattr(record, field) + text}))
        self.delta.emit(self.current_id, message_id, channel, text)

    def end_answer(self, message_id: str, **fields: object) -> None:
        self.generating_ids.discard(self.current_id)
        self.change(message_id, **{"status": MessageStatus.COMPLETE, "stats": STATS, **fields})
        self.generation_finished.emit(self.current_id, message_id)

    def stream(self, text: str, interval_ms: int = 8) -> None:
        """Play an answer word by word on a timer."""
        message_id = self.begin_answer()
        words = [word + " " for word in text.split(" ")]
        timer = QTimer(self)

        def tick() -> None:
            if words:
                self.push(message_id, words.pop(0))
            else:
                timer.stop()
                self.end_answer(message_id)

        timer.timeout.connect(tick)
        timer.start(interval_ms)

    def fill(self) -> None:
        """The chats of the design's sketches."""
        self.add_conversation("House rules for the garden", 6 * DAY, is_pinned=True)
        sorting = self.add_conversation("Sorting a log by date")
        trip = self.add_conversation("Trip notes, Lisbon", 1200)
        self.add_conversation("Letter to the landlord", 3600)
        self.add_conversation("Recipe, scaled for 12", 2 * DAY)
        self.add_conversation("Regex for invoice numbers", 3 * DAY)
        self.add_conversation("What is a radix tree?", 4 * DAY)
        folder = self.folders.make("Work").id
        self._change([self.add_conversation("Minutes of the meeting", 5 * DAY)], folder_id=folder)
        self.add_conversation("A title that is much too long for the width of the sidebar", 20 * DAY)
        self.generating_ids.add(trip)
        self.open_conversation(sorting)
        self.add(Role.USER, "How do I sort the lines of a log by the date at the start of each line, newest first?")
        self.add(
            Role.ASSISTANT,
            SORTING_ANSWER,
            siblings=(1, 3),
            reasoning="The person has a log file.\n\nISO dates sort as text.",
            stats={**STATS, "reasoning_ms": 2000},
        )
        self.add(Role.USER, "And if two lines have the same second?")
        self.context_used.emit(1204, 1148, 8192)

    def _make(self, title: str, *, age_s: float = 0.0, is_pinned: bool = False, in_list: bool = True) -> str:
        moment = time.time() - age_s
        record = ConversationRecord(new_id(), title if in_list else "", moment, moment, is_pinned)
        self._records[record.id] = record
        self._messages[record.id] = []
        return record.id
