"""What the store keeps, as plain data: conversations and their messages.

Knows nothing of SQLite, Qt or the tree that messages form; the rest of the app shares these types.
"""

from __future__ import annotations

import os
import re
from dataclasses import field
from enum import Enum
from typing import Any

from engine.plain_data import dataclass
from engine.protocol import Role

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\s]+")
_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


class MessageStatus(str, Enum):
    """How far a message came."""

    COMPLETE = "complete"
    STREAMING = "streaming"  # being written now; found at a start it means INTERRUPTED
    STOPPED = "stopped"  # the person stopped it
    INTERRUPTED = "interrupted"  # the program ended before the answer did
    FAILED = "failed"  # ``error`` says why


@dataclass(frozen=True)
class ConversationRecord:
    """One conversation without its messages.

    Attributes:
        id: never changes.
        title: one line, from the first message until the person renames it.
        created_at: seconds since the epoch.
        updated_at: seconds since the epoch, of the last message.
        is_pinned: kept at the top of the list.
        model_path: the model that answered last.
        draft: what stands in the composer, not sent yet.
        active_leaf_id: the last message of the branch that is shown; None while nothing was sent.
        folder_id: the folder it lies in; None outside of all.
        options: what differs from the defaults in this conversation: sampling, system prompt, policies.
    """

    id: str
    title: str
    created_at: float
    updated_at: float
    is_pinned: bool = False
    model_path: str | None = None
    draft: str = ""
    active_leaf_id: str | None = None
    folder_id: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrashRecord:
    """A conversation in the trash.

    Attributes:
        deleted_at: seconds since the epoch.
    """

    conversation: ConversationRecord
    deleted_at: float


@dataclass(frozen=True)
class MessageRecord:
    """One message; ``parent_id`` makes the messages of a conversation a tree.

    Attributes:
        parent_id: the message it answers or follows; None for a first message.
        created_at: seconds since the epoch.
        error: one sentence, with the status FAILED.
        stats: the fields of ``engine.protocol.RequestStats`` and ``finish_reason``; None without figures. Of a
            function's result, whose it is.
        model_name: of the model that wrote it; empty for the person's messages.
    """

    id: str
    conversation_id: str
    parent_id: str | None
    role: Role
    content: str
    reasoning: str = ""
    created_at: float = 0.0
    status: MessageStatus = MessageStatus.COMPLETE
    error: str = ""
    stats: dict[str, Any] | None = None
    model_name: str = ""


@dataclass(frozen=True)
class FolderRecord:
    """A folder of conversations."""

    id: str
    name: str
    created_at: float


@dataclass(frozen=True)
class PresetRecord:
    """A named set of options that conversations may take over.

    Attributes:
        options: as in ``ConversationRecord``.
    """

    id: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AttachmentRecord:
    """A text that was attached to a message, or to a draft.

    Attributes:
        message_id: None while it belongs to the conversation's draft.
        position: its place among the attachments of the same message, from 0.
        name: as the person knows it.
        file_name: below the attachments folder, of the extracted text (UTF-8).
        num_characters: of that text.
    """

    id: str
    conversation_id: str
    message_id: str | None
    position: int
    name: str
    file_name: str
    num_characters: int


def new_id() -> str:
    """A fresh id for a record or a request."""
    return os.urandom(16).hex()  # as many random bits as a UUID; its module takes 3 ms to import


def one_line(text: str) -> str:
    """A name in one line, without characters that would turn around what is written beside it."""
    return _CONTROLS.sub(" ", clean_text(text)).strip()


def clean_text(text: str) -> str:
    """``text`` with lone surrogates, which no file can hold, replaced; every other character is kept."""
    return _LONE_SURROGATES.sub("\ufffd", text)
