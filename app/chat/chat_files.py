"""Chats as files: JSON that can be read in again, Markdown and plain text of the branch that is shown. Pure data.

The JSON's form is stated in ``resources/chat-export.schema.json``; all versions of all messages are in it, and the
texts that were attached.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from app.chat.conversation import UNTITLED, Conversation, title_from
from app.chat.options import accepted
from app.storage.reading import clean_table, moment
from app.storage.records import (
    AttachmentRecord,
    ConversationRecord,
    MessageRecord,
    MessageStatus,
    clean_text,
    new_id,
)
from app.translation import tr
from engine.plain_data import dataclass
from engine.protocol import Role

FORMAT_KEY = "fireside_chats"
FORMAT = 1
_Kind = TypeVar("_Kind", Role, MessageStatus)
_NAMES = {Role.USER: tr("You"), Role.ASSISTANT: tr("Answer"), Role.SYSTEM: tr("System"), Role.TOOL: tr("Tool")}


class ChatFileError(Exception):
    """A file holds no chats that can be read; the message is one sentence for the person."""


@dataclass(frozen=True)
class ChatContent:
    """A conversation with everything that belongs to it.

    Attributes:
        texts: the attached texts by message id, as pairs of name and text.
    """

    conversation: Conversation
    texts: dict[str, tuple[tuple[str, str], ...]]


def to_json(chats: Iterable[ChatContent], exported_at_s: float) -> str:
    """The chats as JSON."""
    content = {
        FORMAT_KEY: FORMAT,
        "exported_at": _time(exported_at_s),
        "chats": [_chat(chat) for chat in chats],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_markdown(chat: ChatContent) -> str:
    """The branch that is shown, as Markdown."""
    parts = [f"# {chat.conversation.record.title}"]
    for view in chat.conversation.branch():
        record = view.record
        name = f"{_NAMES[record.role]} ({record.model_name})" if record.model_name else _NAMES[record.role]
        parts.append(f"## {name}")
        for attached, text in chat.texts.get(record.id, ()):
            fence = _fence(text)
            parts.append(f"{attached}:\n\n{fence}\n{text.rstrip()}\n{fence}")
        if record.content.strip():
            parts.append(record.content.rstrip())
    return "\n\n".join(parts) + "\n"


def to_text(chat: ChatContent) -> str:
    """The branch that is shown, as plain text."""
    parts = [chat.conversation.record.title]
    for view in chat.conversation.branch():
        attached = "".join(f"[{name}]\n{text.rstrip()}\n\n" for name, text in chat.texts.get(view.record.id, ()))
        parts.append(f"{_NAMES[view.record.role]}:\n{attached}{view.record.content.rstrip()}")
    return "\n\n".join(parts) + "\n"


def from_json(data: bytes, name: str) -> list[ChatContent]:
    """The chats in a file called ``name``, with ids of their own; raises ChatFileError, or InputError."""
    from engine.json_text import parse_json_file  # not before there is a file to read

    try:
        content = parse_json_file(data, name)
    except (ValueError, RecursionError) as error:
        raise ChatFileError(tr("{name} is no JSON file, so there are no chats in it.", name=name)) from error
    if not isinstance(content, dict) or FORMAT_KEY not in content:
        raise ChatFileError(tr("{name} holds no chats of Fireside: “{key}” is missing.", name=name, key=FORMAT_KEY))
    version = content[FORMAT_KEY]
    if type(version) is not int or version < FORMAT:
        raise ChatFileError(tr("{name} is damaged: “{key}” is no format that there is.", name=name, key=FORMAT_KEY))
    if version > FORMAT:
        raise ChatFileError(tr("{name} was written by a newer Fireside; update to read it.", name=name))
    chats = content.get("chats")
    if not isinstance(chats, list):
        raise ChatFileError(tr("{name} is damaged: “chats” is no list.", name=name))
    return [_read_chat(chat, f"{name}, chats[{index}]") for index, chat in enumerate(chats)]


def gather(
    conversation: Conversation,
    attachments: Callable[[str], Sequence[AttachmentRecord]],
    text_of: Callable[[AttachmentRecord], str],
) -> ChatContent:
    """A conversation with the texts that are attached to its messages."""
    texts = {
        message.id: tuple((record.name, text_of(record)) for record in attachments(message.id))
        for message in conversation.messages()
    }
    return ChatContent(conversation, {id_: found for id_, found in texts.items() if found})


def _chat(chat: ChatContent) -> dict[str, Any]:
    record = chat.conversation.record
    return {
        "title": record.title,
        "created_at": _time(record.created_at),
        "updated_at": _time(record.updated_at),
        "is_pinned": record.is_pinned,
        "options": accepted(record.options),
        "shown": record.active_leaf_id,
        "messages": [_message(message, chat.texts.get(message.id, ())) for message in chat.conversation.messages()],
    }


def _message(record: MessageRecord, texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    status = MessageStatus.INTERRUPTED if record.status is MessageStatus.STREAMING else record.status
    found: dict[str, Any] = {
        "id": record.id,
        "parent": record.parent_id,
        "role": record.role.value,
        "content": record.content,
        "created_at": _time(record.created_at),
        "status": status.value,
    }
    optional = {
        "reasoning": record.reasoning,
        "model": record.model_name,
        "error": record.error,
        "statistics": clean_table(record.stats or {}),
        "attachments": [{"name": name, "text": text} for name, text in texts],
    }
    return found | {key: value for key, value in optional.items() if value}


def _read_chat(chat: object, where: str) -> ChatContent:
    if not isinstance(chat, dict) or not isinstance(chat.get("messages"), list):
        raise ChatFileError(tr("{where} is damaged: it has no messages.", where=where))
    now = datetime.now(UTC).timestamp()
    created_at = _seconds(chat.get("created_at"), now)
    options = chat.get("options")
    record = ConversationRecord(
        new_id(),
        title_from(clean_text(str(chat.get("title") or UNTITLED))),
        created_at,
        _seconds(chat.get("updated_at"), created_at),
        is_pinned=chat.get("is_pinned") is True,
        options=dict(accepted(options)) if isinstance(options, dict) else {},
    )
    conversation = Conversation(record)
    ids: dict[str, str] = {}
    texts: dict[str, tuple[tuple[str, str], ...]] = {}
    for index, message in enumerate(chat["messages"]):
        read = _read_message(message, record.id, ids, f"{where}.messages[{index}]")
        conversation.add(read)
        ids[str(message.get("id"))] = read.id
        texts[read.id] = _read_texts(message.get("attachments"))
    conversation.show(ids.get(str(chat.get("shown")), ""))
    return ChatContent(conversation, {id_: found for id_, found in texts.items() if found})


def _read_message(message: object, conversation_id: str, ids: dict[str, str], where: str) -> MessageRecord:
    if not isinstance(message, dict) or not isinstance(message.get("content"), str):
        raise ChatFileError(tr("{where} is damaged: it has no content.", where=where))
    parent = message.get("parent")
    if parent is not None and str(parent) not in ids:
        raise ChatFileError(tr("{where} is damaged: its parent does not come before it.", where=where))
    role = _one_of(Role, message.get("role"), "role", where)
    status = _one_of(MessageStatus, message.get("status", MessageStatus.COMPLETE.value), "status", where)
    statistics = message.get("statistics")
    return MessageRecord(
        new_id(),
        conversation_id,
        None if parent is None else ids[str(parent)],
        role,
        clean_text(message["content"]),
        clean_text(str(message.get("reasoning") or "")),
        _seconds(message.get("created_at"), 0.0),
        MessageStatus.INTERRUPTED if status is MessageStatus.STREAMING else status,
        clean_text(str(message.get("error") or "")),
        clean_table(statistics) if isinstance(statistics, dict) else None,
        clean_text(str(message.get("model") or "")),
    )


def _one_of(kind: type[_Kind], value: object, key: str, where: str) -> _Kind:
    try:
        return kind(value)
    except ValueError as error:
        words = ", ".join(f"“{one.value}”" for one in kind)
        raise ChatFileError(
            tr("{where} is damaged: “{key}” must be one of {words}.", where=where, key=key, words=words)
        ) from error


def _read_texts(attachments: object) -> tuple[tuple[str, str], ...]:
    found = attachments if isinstance(attachments, list) else []
    return tuple(
        (clean_text(str(one.get("name") or tr("Attachment"))), clean_text(one["text"]))
        for one in found
        if isinstance(one, dict) and isinstance(one.get("text"), str)
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _seconds(value: object, default: float) -> float:
    try:
        return moment(datetime.fromisoformat(str(value)).timestamp(), default)
    except (ValueError, OverflowError, OSError):
        return default


def _fence(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return fence
