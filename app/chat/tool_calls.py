"""Calls of functions in a conversation: what an answer called, what came back, and how the model is told of both.

A call is kept with the figures of the answer that wrote it. What a function gave is a message of its own, under the
answer; who runs the function is the person's affair.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from app.chat.blocks import displayable
from app.storage.records import MessageRecord
from app.translation import tr
from engine.protocol import Message, Role, ToolCall

CALLS = "tool_calls"  # in the figures of an answer
RESULT = "tool_result"  # in those of a function's result


def calls_of(record: MessageRecord) -> tuple[ToolCall, ...]:
    """The calls that an answer ends with; what is none is left out."""
    listed = (record.stats or {}).get(CALLS)
    found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return tuple(
        ToolCall(str(one.get("name") or "?"), str(one.get("arguments") or "{}"), str(one.get("call_id") or ""))
        for one in found
    )


def call_title(call: ToolCall) -> str:
    """What stands above a call's arguments."""
    return tr("Calls {name}", name=shown_name(call.name))


def result_title(name: str) -> str:
    """What stands above the result of a function; "" is one whose name is not known."""
    return tr("Result of {name}", name=shown_name(name or "?"))


def shown_name(name: str) -> str:
    """A function's name as it can be shown."""
    return displayable(name)[:80]


def shown_arguments(call: ToolCall) -> str:
    """A call's arguments as they are shown: a value a line where they are JSON."""
    try:
        return json.dumps(json.loads(call.arguments), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return call.arguments


def result_stats(call: ToolCall) -> dict[str, object]:
    """What is kept with a result, so that it is known whose it is."""
    return {RESULT: {"name": call.name, "call_id": call.call_id}}


def called_name(record: MessageRecord) -> str:
    """The function that a result is of; "" where that is not known."""
    return _kept(record, "name")


def messages_of(records: Sequence[MessageRecord], contents: Sequence[str]) -> tuple[Message, ...]:
    """The messages as the model is told of them.

    Calls that nobody gave a result for are left out once the conversation has gone on: templates refuse them.
    """
    messages: list[Message] = []
    for number, (record, content) in enumerate(zip(records, contents, strict=True)):
        follower = records[number + 1] if number + 1 < len(records) else None
        calls = calls_of(record) if follower is not None and follower.role is Role.TOOL else ()
        if record.role is Role.TOOL:
            messages.append(Message(Role.TOOL, content, name=called_name(record), call_id=_kept(record, "call_id")))
        else:
            messages.append(Message(record.role, content, record.reasoning, calls))
    return tuple(messages)


def is_told(record: MessageRecord, follower: MessageRecord | None) -> bool:
    """Whether the model is told of a message at all; an answer of nothing says nothing."""
    if record.role is not Role.ASSISTANT or record.content.strip():
        return True
    return bool(calls_of(record)) and follower is not None and follower.role is Role.TOOL


def _kept(record: MessageRecord, key: str) -> str:
    kept = (record.stats or {}).get(RESULT)
    return str(kept.get(key) or "") if isinstance(kept, dict) else ""
