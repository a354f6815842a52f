"""What a person can ask of a message, as data: the button's word, the menu's words, for whom it is."""

from __future__ import annotations

from enum import Enum

from app.translation import tr
from engine.plain_data import dataclass


class MessageAction(str, Enum):
    """Something to be done with one message."""

    COPY = "copy"
    COPY_MARKDOWN = "copy_markdown"
    EDIT = "edit"
    REGENERATE = "regenerate"
    CONTINUE = "continue"
    FORK = "fork"
    REPRODUCE = "reproduce"
    PREVIOUS = "previous"
    NEXT = "next"
    DROP_TURNS = "drop_turns"
    LARGER_CONTEXT = "larger_context"


@dataclass(frozen=True)
class ActionWords:
    """How an action is shown.

    Attributes:
        button: its word in the row under a message; empty for one that only the menu has.
        menu: its words in the menu.
        name: for a screen reader, which reads it without the message before the eyes.
    """

    button: str
    menu: str
    name: str


WORDS = {
    MessageAction.COPY: ActionWords(tr("Copy"), tr("Copy"), tr("Copy the message")),
    MessageAction.COPY_MARKDOWN: ActionWords("", tr("Copy as Markdown"), tr("Copy the message as Markdown")),
    MessageAction.EDIT: ActionWords(tr("Edit"), tr("Edit"), tr("Edit the message")),
    MessageAction.REGENERATE: ActionWords(tr("Regenerate"), tr("Regenerate"), tr("Answer again")),
    MessageAction.CONTINUE: ActionWords(tr("Continue"), tr("Continue"), tr("Let the model go on with the answer")),
    MessageAction.FORK: ActionWords("", tr("New chat from here"), tr("Copy the chat up to here into a new one")),
    MessageAction.REPRODUCE: ActionWords(
        "", tr("Reproduce with the same seed"), tr("Answer again with the same seed")
    ),
}

OWN_ACTIONS = (MessageAction.COPY, MessageAction.EDIT, MessageAction.FORK)
ANSWER_ACTIONS = (
    MessageAction.COPY,
    MessageAction.COPY_MARKDOWN,
    MessageAction.EDIT,
    MessageAction.REGENERATE,
    MessageAction.CONTINUE,
    MessageAction.REPRODUCE,
    MessageAction.FORK,
)
