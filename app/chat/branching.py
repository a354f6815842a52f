"""What makes a conversation a tree: other answers, edited messages, continued answers, copies into a new chat.

Nothing is ever taken away: each of these adds messages beside the old ones, or goes on at an open end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from app.chat.answering import Answering
from app.chat.attachments import Attachments
from app.chat.collection import ConversationCollection
from app.chat.conversation import UNTITLED, Conversation, title_from
from app.chat.figures import seed_of
from app.chat.tool_calls import calls_of, result_stats
from app.storage.records import (
    AttachmentRecord,
    ConversationRecord,
    MessageRecord,
    MessageStatus,
    clean_text,
    new_id,
)
from engine.protocol import Role


class Branching:
    """Grows the trees of a collection; answers are written by ``answering``.

    Each method returns False when the message is unknown or nothing can be done with it.
    """

    def __init__(self, collection: ConversationCollection, answering: Answering, attachments: Attachments) -> None:
        self._collection = collection
        self._answering = answering
        self._attachments = attachments

    def ask(self, conversation_id: str, parent_id: str | None, text: str) -> MessageRecord:
        """Put the person's message, with the draft's attachments, under ``parent_id`` and have it answered."""
        attached = self._attachments.draft(conversation_id)
        question = self._new_question(conversation_id, parent_id, text, attached[0].name if attached else "")
        tree = self._collection.tree(conversation_id)
        tree.record = replace(tree.record, draft="")
        self._answering.answer(
            tree, question.id, [question], also=self._attachments.send(conversation_id, question.id)
        )
        return question

    def ask_again(self, conversation_id: str, message_id: str, text: str) -> MessageRecord:
        """Have another version of a message of the person answered; it has the same attachments."""
        self._answering.stop(conversation_id)
        tree = self._collection.tree(conversation_id)
        question = self._new_question(conversation_id, tree.message(message_id).parent_id, text, "")
        attached = self._attachments.of_message(conversation_id, message_id)
        also = self._attachments.copy(conversation_id, [(record, question.id) for record in attached])
        self._answering.answer(tree, question.id, [question], also=also)
        return question

    def _new_question(self, conversation_id: str, parent_id: str | None, text: str, title: str) -> MessageRecord:
        text = clean_text(text)
        tree = self._collection.tree(conversation_id)
        if tree.record.title == UNTITLED and not len(tree):
            tree.record = replace(tree.record, title=title_from(text if text.strip() else title))
        return tree.new_message(parent_id, Role.USER, text, created_at=time.time())

    def regenerate(self, conversation_id: str, message_id: str, seed: int | None = None) -> bool:
        """Write another answer beside ``message_id``; given a message of the person, an answer to it.

        With a ``seed`` the answer is drawn with it, whatever the settings say.
        """
        tree = self._collection.tree(conversation_id)
        if message_id not in tree:
            return False
        message = tree.message(message_id)
        question_id = message.parent_id if message.role is Role.ASSISTANT else message.id
        if question_id is None or question_id not in tree:
            return False
        self._answering.stop(conversation_id)
        self._answering.answer(tree, question_id, seed=seed)
        return True

    def reproduce(self, conversation_id: str, message_id: str) -> bool:
        """Write an answer again with the seed that it was drawn with."""
        tree = self._collection.tree(conversation_id)
        seed = seed_of(tree.message(message_id).stats) if message_id in tree else None
        return seed is not None and self.regenerate(conversation_id, message_id, seed)

    def edit(self, conversation_id: str, message_id: str, text: str) -> bool:
        """Put another version of a message beside it; what the person wrote is answered anew."""
        tree = self._collection.tree(conversation_id)
        if message_id not in tree:
            return False
        role = tree.message(message_id).role
        if role is Role.TOOL:
            return self.edit_result(conversation_id, message_id, text)
        if not text.strip():
            return False
        if role is Role.ASSISTANT:
            return self.edit_answer(conversation_id, message_id, text)
        self.ask_again(conversation_id, message_id, text)
        return True

    def give_results(self, conversation_id: str, message_id: str, results: Sequence[str]) -> bool:
        """Put what functions gave under the answer that called them, in its calls' order, and have it go on."""
        tree = self._collection.tree(conversation_id)
        calls = calls_of(tree.message(message_id)) if message_id in tree else ()
        if not calls or len(calls) != len(results):
            return False
        self._answering.stop(conversation_id)
        unsaved: list[MessageRecord] = []
        parent_id = message_id
        for call, result in zip(calls, results):
            message = tree.new_message(
                parent_id, Role.TOOL, clean_text(result), created_at=time.time(), stats=result_stats(call)
            )
            unsaved.append(message)
            parent_id = message.id
        self._answering.answer(tree, parent_id, unsaved)
        return True

    def edit_result(self, conversation_id: str, message_id: str, text: str) -> bool:
        """Put another version of a function's result beside it and have that gone on with.

        Results of later calls of the same answer stay under the new one.
        """
        tree = self._collection.tree(conversation_id)
        old = tree.message(message_id)
        self._answering.stop(conversation_id)
        branch = [view.record for view in tree.branch()]
        later = branch[branch.index(old) + 1 :] if old in branch else []
        unsaved: list[MessageRecord] = []
        parent_id = old.parent_id
        edited = replace(old, content=clean_text(text))
        for record in (edited, *takewhile(lambda one: one.role is Role.TOOL, later)):
            message = tree.new_message(
                parent_id, Role.TOOL, record.content, created_at=time.time(), stats=record.stats
            )
            unsaved.append(message)
            parent_id = message.id
        assert parent_id is not None, "at least one was made"
        self._answering.answer(tree, parent_id, unsaved)
        return True

    def edit_answer(self, conversation_id: str, message_id: str, text: str) -> bool:
        """Put a version of an answer, as the person wrote it, beside it."""
        tree = self._collection.tree(conversation_id)
        if message_id not in tree:
            return False
        self._answering.stop(conversation_id)
        self._collection.save(tree, [self._copy_beside(tree, message_id, clean_text(text))])
        return True

    def continue_answer(self, conversation_id: str, message_id: str) -> bool:
        """Let the model go on with an answer.

        Where messages follow it already, or it ends with a call, a copy beside it goes on, so that both stay true.
        """
        tree = self._collection.tree(conversation_id)
        if message_id not in tree or tree.message(message_id).role is not Role.ASSISTANT:
            return False
        self._answering.stop(conversation_id)
        message = tree.message(message_id)
        if tree.has_replies(message_id) or calls_of(message):
            self._answering.continue_answer(tree, self._copy_beside(tree, message_id, message.content))
        else:
            before = None if message.status is MessageStatus.STREAMING else message
            self._answering.continue_answer(tree, message, before)
        return True

    def branch_from(self, conversation_id: str, message_id: str, content: str) -> bool:
        """Put an answer that begins with ``content`` beside an answer and let the model go on with it."""
        tree = self._collection.tree(conversation_id)
        if message_id not in tree or tree.message(message_id).role is not Role.ASSISTANT:
            return False
        self._answering.stop(conversation_id)
        self._answering.continue_answer(tree, self._copy_beside(tree, message_id, content))
        return True

    def fork(self, conversation_id: str, message_id: str) -> ConversationRecord | None:
        """Copy the messages up to ``message_id`` into a conversation of their own, and return that."""
        tree = self._collection.tree(conversation_id)
        if message_id not in tree:
            return None
        now = time.time()
        source = tree.record
        record = replace(
            source, id=new_id(), title=_forked_title(source.title), created_at=now, updated_at=now, is_pinned=False,
            draft="", active_leaf_id=None,
        )  # fmt: skip
        copy = Conversation(record)
        parent_id: str | None = None
        attached: list[tuple[AttachmentRecord, str]] = []
        for message in tree.path_to(message_id):
            status = MessageStatus.STOPPED if message.status is MessageStatus.STREAMING else message.status
            copied = replace(message, id=new_id(), conversation_id=record.id, parent_id=parent_id, status=status)
            copy.add(copied)
            parent_id = copied.id
            attached += [(one, copied.id) for one in self._attachments.of_message(conversation_id, message.id)]
        self._collection.add(copy, self._attachments.copy(record.id, attached))
        return copy.record

    def select_sibling(self, conversation_id: str, message_id: str, step: int) -> bool:
        """Show the previous (-1) or next (1) alternative to a message."""
        tree = self._collection.tree(conversation_id)
        if message_id not in tree or not tree.select_sibling(message_id, step):
            return False
        self._collection.update(tree.record)
        return True

    def show_with(self, conversation_id: str, message_id: str) -> bool:
        """Show a branch that a message is in; False when it is shown already."""
        tree = self._collection.tree(conversation_id)
        if not tree.show_with(message_id):
            return False
        self._collection.update(tree.record)
        return True

    def _copy_beside(self, tree: Conversation, message_id: str, content: str) -> MessageRecord:
        message = tree.message(message_id)
        return tree.new_message(
            message.parent_id,
            Role.ASSISTANT,
            content,
            created_at=time.time(),
            model_name=message.model_name,
            reasoning=message.reasoning,
        )


def _forked_title(title: str) -> str:
    """ "Trip" becomes "Trip (2)", and that "Trip (3)"."""
    head, bracket, number = title.rpartition(" (")
    if bracket and number[:-1].isdecimal() and number.endswith(")") and len(number) < 10:
        return f"{head} ({int(number[:-1]) + 1})"
    return f"{title} (2)"
