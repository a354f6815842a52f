"""A conversation as a tree of messages, of which one branch is shown.

Editing and regenerating add siblings; nothing is ever taken out. Knows neither Qt nor SQLite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from app.chat.tool_calls import is_told, messages_of
from app.storage.records import AttachmentRecord, ConversationRecord, MessageRecord, MessageStatus, new_id, one_line
from engine.plain_data import dataclass
from engine.protocol import Channel, Message, Role

MAX_TITLE_CHARACTERS = 60
UNTITLED = "New chat"  # kept with the conversation, so it is the same in every language


@dataclass(frozen=True)
class MessageView:
    """A message together with its place among the alternatives to it (index from 0), and what is attached to it."""

    record: MessageRecord
    sibling_index: int
    num_siblings: int
    attachments: tuple[AttachmentRecord, ...] = ()

    def has_version(self, step: int) -> bool:
        """Whether there is an alternative ``step`` places further on."""
        return 0 <= self.sibling_index + step < self.num_siblings

    def with_piece(self, channel: str, text: str) -> MessageView:
        """The same with a streamed piece; of a call nothing is there before it is whole."""
        record = self.record
        if channel == Channel.REASONING.value:
            record = replace(record, reasoning=record.reasoning + text)
        elif channel != Channel.TOOL_CALL.value:
            record = replace(record, content=record.content + text)
        return replace(self, record=record)


class Conversation:
    """The messages of one conversation and the branch that is shown.

    Attributes:
        record: the conversation's own fields; ``record.active_leaf_id`` ends the branch.
    """

    def __init__(self, record: ConversationRecord, messages: Iterable[MessageRecord] = ()) -> None:
        self.record = record
        self._messages: dict[str, MessageRecord] = {}
        self._children: dict[str | None, list[str]] = {None: []}
        self._branch: list[MessageView] = []  # as it was asked for last, up to ``_branch_leaf_id``
        self._branch_leaf_id: str | None = None
        for message in messages:
            self._messages[message.id] = message
        for message in self._messages.values():
            self._children.setdefault(self._parent(message), []).append(message.id)
        self._adopt_unreachable()
        if record.active_leaf_id not in self._messages:
            self.record = replace(record, active_leaf_id=next(reversed(self._messages), None))

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._messages

    def __len__(self) -> int:
        return len(self._messages)

    def message(self, message_id: str) -> MessageRecord:
        """The message with this id; raises KeyError for a foreign one."""
        return self._messages[message_id]

    def messages(self) -> list[MessageRecord]:
        """All messages, parents before children."""
        return list(self._messages.values())

    def add(self, message: MessageRecord) -> None:
        """Append ``message`` under its parent and show the branch that ends with it."""
        if message.parent_id is not None and message.parent_id not in self._messages:
            raise KeyError(message.parent_id)
        self._messages[message.id] = message
        self._children.setdefault(message.parent_id, []).append(message.id)
        self._branch_leaf_id = None
        self.record = replace(self.record, active_leaf_id=message.id)

    def update(self, message: MessageRecord) -> None:
        """Replace the stored fields of a message that is in the tree already."""
        if message.id not in self._messages:
            raise KeyError(message.id)
        self._messages[message.id] = message
        if self._branch and self._branch[-1].record.id == message.id:  # it grows: most updates are of the last one
            self._branch[-1] = replace(self._branch[-1], record=message)
        else:
            self._branch_leaf_id = None

    def view(self, message_id: str) -> MessageView:
        """The message with its place among its siblings."""
        siblings = self._children[self._parent(self._messages[message_id])]
        return MessageView(self._messages[message_id], siblings.index(message_id), len(siblings))

    def branch(self) -> list[MessageView]:
        """The messages that are shown, first to last."""
        leaf_id = self.record.active_leaf_id
        if leaf_id is None:
            return []
        if leaf_id != self._branch_leaf_id:
            self._branch = [self.view(message.id) for message in self.path_to(leaf_id)]
            self._branch_leaf_id = leaf_id
        return list(self._branch)

    def path_to(self, message_id: str) -> list[MessageRecord]:
        """The messages from the first one to ``message_id``, both included."""
        path: list[MessageRecord] = []
        current: str | None = message_id
        while current is not None:
            path.append(self._messages[current])
            current = self._parent(self._messages[current])
        path.reverse()
        return path

    def show(self, message_id: str) -> None:
        """Show the branch that ends with this message; an unknown one changes nothing."""
        if message_id in self._messages:
            self.record = replace(self.record, active_leaf_id=message_id)

    def show_with(self, message_id: str) -> bool:
        """Show a branch that ``message_id`` is in, with what was written last below it; False when it is shown."""
        if any(view.record.id == message_id for view in self.branch()):
            return False
        self.record = replace(self.record, active_leaf_id=self._last_below(message_id))
        return True

    def has_replies(self, message_id: str) -> bool:
        """Whether messages follow this one."""
        return bool(self._children.get(message_id))

    def select_sibling(self, message_id: str, step: int) -> bool:
        """Show the previous or next alternative to a message and what was written last below it."""
        siblings = self._children[self._parent(self._messages[message_id])]
        index = siblings.index(message_id) + step
        if not 0 <= index < len(siblings):
            return False
        self.record = replace(self.record, active_leaf_id=self._last_below(siblings[index]))
        return True

    def _last_below(self, message_id: str) -> str:
        """The end of the branch that goes on from a message with what was written last."""
        while children := self._children.get(message_id):
            message_id = children[-1]
        return message_id

    def prompt_for(
        self,
        message_id: str | None,
        system_prompt: str = "",
        attached: Callable[[str], str] = lambda message_id: "",
    ) -> tuple[Message, ...]:
        """The messages the engine answers to when ``message_id`` ends the prompt; empty answers are left out.

        ``attached`` gives what stands before a message's own words.
        """
        system = (Message(Role.SYSTEM, system_prompt),) if system_prompt.strip() else ()
        records = self.prompt_records(message_id)
        return system + messages_of(records, [attached(record.id) + record.content for record in records])

    def prompt_records(self, message_id: str | None) -> list[MessageRecord]:
        """The messages that are in the prompt which ends with ``message_id``, without the system prompt."""
        path = self.path_to(message_id) if message_id is not None else []
        followers = [*path[1:], None]
        return [record for record, follower in zip(path, followers) if is_told(record, follower)]

    def new_message(
        self,
        parent_id: str | None,
        role: Role,
        content: str,
        *,
        created_at: float,
        status: MessageStatus = MessageStatus.COMPLETE,
        model_name: str = "",
        reasoning: str = "",
        stats: dict[str, Any] | None = None,
    ) -> MessageRecord:
        """Make a message, add it and return it."""
        message = MessageRecord(
            new_id(),
            self.record.id,
            parent_id,
            role,
            content,
            reasoning,
            created_at=created_at,
            status=status,
            stats=stats,
            model_name=model_name,
        )
        self.add(message)
        return message

    def _parent(self, message: MessageRecord) -> str | None:
        return message.parent_id if message.parent_id in self._messages else None

    def _adopt_unreachable(self) -> None:
        """Hang messages whose parents form a ring (a damaged store) at the root, so that all stay reachable."""
        reached: set[str] = set()
        stack = list(self._children[None])
        while True:
            while stack:
                current = stack.pop()
                reached.add(current)
                stack.extend(child for child in self._children.get(current, ()) if child not in reached)
            lost = next((id_ for id_ in self._messages if id_ not in reached), None)
            if lost is None:
                return
            message = self._messages[lost]
            self._children[message.parent_id].remove(lost)
            self._messages[lost] = replace(message, parent_id=None)
            self._children[None].append(lost)
            stack.append(lost)


def title_from(text: str) -> str:
    """One line for the list: the text's beginning without control characters, cut between words."""
    head = one_line(text[: 20 * MAX_TITLE_CHARACTERS])
    if len(head) <= MAX_TITLE_CHARACTERS:
        return head or UNTITLED
    cut = head[: MAX_TITLE_CHARACTERS - 1]
    at_word = cut.rfind(" ")
    return (cut[:at_word] if at_word > MAX_TITLE_CHARACTERS // 2 else cut).rstrip() + "…"
