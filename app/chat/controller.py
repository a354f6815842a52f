"""The chat's controller: what a person can do, one method each, and signals for what came of it.

The only thing the chat views talk to. Knows no widget; the work is done by the collection (conversations and their
store), the answering (generations) and the model session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from app.chat.chat_state import ChatState
from app.chat.figures import figure
from app.chat.generation import OVERFLOW_TOKENS
from app.chat.larger_context import LargerContext, larger_context
from app.storage.records import MessageStatus, clean_text
from app.translation import tr
from engine.protocol import ContextPolicy

if TYPE_CHECKING:
    from app.chat.closer_look import CloserLook


class ChatController(ChatState):
    """All a chat view may ask for, one method each; what comes of it is said by the signals of ``ChatState``."""

    # ------------------------------------------------------------------------------------ conversations

    def new_conversation(self, folder_id: str | None = None) -> None:
        """Open the conversation in which nothing was sent yet, in a folder or outside of all."""
        folder_id = folder_id if folder_id in self.folders else None  # it may have been deleted meanwhile
        record = self._collection.blank()
        if record.folder_id != folder_id:
            self._collection.update(replace(record, folder_id=folder_id))
        self._open(record.id)

    def open_conversation(self, conversation_id: str) -> None:
        if conversation_id in self._collection:
            self._open(conversation_id)
        else:
            self.notice.emit(tr("This chat does not exist any more."))

    def open_found(self, conversation_id: str) -> None:
        """Open a conversation at the message that was found in it, in whichever branch that is."""
        message_id = self._collection.found_message(conversation_id) if conversation_id in self._collection else ""
        is_moved = bool(message_id) and self._branching.show_with(conversation_id, message_id)
        if is_moved or conversation_id != self._current_id:
            self.open_conversation(conversation_id)
        if message_id:
            self.message_found.emit(message_id, self.search_words)

    def rename_conversation(self, conversation_id: str, title: str) -> None:
        """Give a conversation another title; an empty one is ignored."""
        self._collection.rename(conversation_id, title)

    def delete_conversations(self, conversation_ids: Sequence[str]) -> None:
        """Put conversations into the trash; ``restore_conversations`` takes them out again."""
        deleted_ids = [id_ for id_ in conversation_ids if id_ in self._collection]
        for conversation_id in deleted_ids:
            self._answering.stop(conversation_id)
        if self._current_id in deleted_ids:  # whoever hears of the deletion must find another one open
            remaining = [record.id for record in self._collection.visible() if record.id not in deleted_ids]
            other_id = remaining[0] if remaining else self._collection.blank().id
            if other_id in deleted_ids:
                return
            self._open(other_id)
        self._collection.delete(deleted_ids)
        self._deletions.note(deleted_ids)

    def restore_conversations(self, conversation_ids: Sequence[str]) -> None:
        """Take conversations out of the trash and open the first of them."""
        if restored := self._collection.restore(conversation_ids):
            self._open(restored[0])

    def undo_deletion(self) -> str:
        """Take the last deletion of chats or of a folder back; a sentence about it, "" when there is none."""
        if (undone := self._deletions.undo()) is None:
            return ""
        sentence, conversation_id = undone
        if conversation_id:
            self._open(conversation_id)
        return sentence

    def pin_conversations(self, conversation_ids: Sequence[str], is_pinned: bool) -> None:
        self._collection.change(conversation_ids, is_pinned=is_pinned)

    def move_conversations(self, conversation_ids: Sequence[str], folder_id: str | None) -> None:
        """Put conversations into a folder, or with None outside of all."""
        if folder_id is None or folder_id in self.folders:
            self._collection.change(conversation_ids, folder_id=folder_id)

    def search(self, text: str) -> None:
        """Keep the ``conversations`` with these words in titles or messages; ``conversations_changed`` follows."""
        self._collection.search(text)

    def set_option(self, conversation_id: str, key: str, value: object) -> None:
        """Let a conversation have an option of its own beside its others; with None that of the settings."""
        if conversation_id in self._collection:
            record = self._collection.record(conversation_id)
            options = {name: kept for name, kept in record.options.items() if name != key}
            self._collection.update(replace(record, options=options if value is None else {**options, key: value}))

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Let the open conversation have these options of its own."""
        record = self._collection.record(self._current_id)
        if record.options != options:
            self._collection.update(replace(record, options=dict(options)))
        if options.get("schema"):
            self._client.prepare_forms()

    def save_draft(self, text: str) -> None:
        self._collection.set_draft(self._current_id, clean_text(text))

    # ------------------------------------------------------------------------------------ messages

    def send(self, text: str) -> bool:
        """Send a message in the open conversation; False when it was not taken (keep the text then)."""
        has_content = text.strip() or self.attachments.draft(self._current_id)
        if not has_content or self._answering.is_busy(self._current_id):
            return False
        if self.attachments.is_reading(self._current_id):
            self.notice.emit(tr("What you attached is still being read: send again when it is there."))
            return False
        self._answering.sync(self._current_id)
        leaf_id = self._collection.tree(self._current_id).record.active_leaf_id
        self._branching.ask(self._current_id, leaf_id, text)
        return True

    def stop(self) -> None:
        """Stop the answer of the open conversation; what was written stays."""
        self._answering.stop(self._current_id)

    def regenerate(self, message_id: str) -> None:
        """Write another answer beside ``message_id``; given a message of the person, an answer to it."""
        if self._branching.regenerate(self._current_id, message_id):
            self.conversation_opened.emit(self._current_id)
        else:
            self.notice.emit(tr("There is no message that this answer could be written anew for."))

    def drop_turns(self, message_id: str) -> None:
        """Answer again, or go on, without the oldest turns, and let the chat go on like that when it is full."""
        tree = self._collection.tree(self._current_id)
        if message_id not in tree:
            return
        self.set_options({**tree.record.options, "context_policy": ContextPolicy.KEEP_RECENT.value})
        self._take_up(message_id)

    def larger_context(self, message_id: str) -> LargerContext | None:
        """What a larger context costs in which an answer that met the end goes on; None where there is none."""
        info = self._session.info
        tree = self._collection.tree(self._current_id)
        if info is None or message_id not in tree:
            return None
        import psutil  # not before the window is there

        stats = tree.message(message_id).stats or {}
        num_wanted = int(figure(stats, OVERFLOW_TOKENS))
        free_bytes = psutil.virtual_memory().available
        return larger_context(info, free_bytes, num_wanted, self._session.load_s, self._answering.reading_rate)

    def enlarge_context(self, message_id: str, context_length: int) -> None:
        """Load the model again with a context of so many tokens, and let the answer go on in it."""
        tree = self._collection.tree(self._current_id)
        if (info := self._session.info) is None or message_id not in tree:
            return
        self._settings.set("context_length", context_length)
        self._session.load(info.path)
        self._take_up(message_id)

    def _take_up(self, message_id: str) -> None:
        """After the context's end: an answer that could not begin is written anew, another one goes on."""
        if self._collection.tree(self._current_id).message(message_id).status is MessageStatus.FAILED:
            self.regenerate(message_id)
        else:
            self.continue_answer(message_id)

    def reproduce(self, message_id: str) -> None:
        """Write an answer again with the seed that it was drawn with."""
        if self._branching.reproduce(self._current_id, message_id):
            self.conversation_opened.emit(self._current_id)
        else:
            self.notice.emit(tr("The seed of this answer is not known, so it cannot be drawn again."))

    def continue_answer(self, message_id: str) -> None:
        """Let the model go on with an answer where it ends."""
        if self._branching.continue_answer(self._current_id, message_id):
            self.conversation_opened.emit(self._current_id)

    def branch_from(self, message_id: str, content: str) -> None:
        """Write a version of an answer that begins with ``content``."""
        if self._branching.branch_from(self._current_id, message_id, content):
            self.conversation_opened.emit(self._current_id)

    def look_closer(self, message_id: str, offset: int) -> None:
        """Ask the model for the alternatives at a place of an answer; ``looked_closer`` follows."""
        tree = self._collection.tree(self._current_id)

        def on_look(look: CloserLook) -> None:
            if tree.record.id == self._current_id:  # else the person is elsewhere by now
                self.looked_closer.emit(look)

        self._answering.look_closer(tree, message_id, offset, on_look)

    def fork(self, message_id: str) -> None:
        """Copy the chat up to a message into a new one, and open that."""
        self._answering.sync(self._current_id)
        if (record := self._branching.fork(self._current_id, message_id)) is not None:
            self._open(record.id)

    def edit_and_resend(self, message_id: str, text: str) -> None:
        """Put an edited version beside a message and answer it; the original stays.

        An edited answer is not answered: it stands as the person wrote it.
        """
        if self._branching.edit(self._current_id, message_id, text):
            self.conversation_opened.emit(self._current_id)

    def give_results(self, message_id: str, results: Sequence[str]) -> None:
        """Give what the functions gave that an answer called, in their order, and let the model go on."""
        if self._branching.give_results(self._current_id, message_id, results):
            self.conversation_opened.emit(self._current_id)

    def select_sibling(self, message_id: str, step: Literal[-1, 1]) -> None:
        """Show the previous or next alternative; ``conversation_opened`` follows for the same id."""
        if self._branching.select_sibling(self._current_id, message_id, step):
            self.conversation_opened.emit(self._current_id)
            self._context_use.report()

    def count_tokens(self, text: str) -> None:
        """Count the tokens of the draft ``text`` and its attachments; ``cost_known`` follows when typing pauses."""
        self._drafts.follow(self._current_id, text)

    # ------------------------------------------------------------------------------------ models

    def load_model(self, path: str) -> None:
        self._session.load(Path(path))

    def load_anyway(self) -> None:
        """Load the model for which there is too little memory; the machine swaps then."""
        if self._session.too_large_path is not None:
            self._session.load(self._session.too_large_path, takes_more=True)

    def eject_model(self) -> None:
        self._session.eject()

    def refresh_models(self) -> None:
        """Look through the models folder again; ``models_changed`` follows when it differs."""
        self._find_models()

    # ------------------------------------------------------------------------------------ start and end

    def start(
        self, opening_notices: Sequence[str] = (), model: Path | None = None, *, loads_by_itself: bool = True
    ) -> None:
        """Once the views are connected: show the open conversation, load the model, say what was found.

        With ``loads_by_itself`` False no model but ``model`` is loaded.
        """
        self.conversations_changed.emit()
        self._open(self._current_id)
        for text in opening_notices:
            self.notice.emit(text)
        self._session.start(model, loads_by_itself=loads_by_itself)
        self._find_models()
        self.trash.purge_old()

    def close(self) -> None:
        """Close running answers where they are and hand all that is not stored yet to the store."""
        self._drafts.close()
        self._answering.close()
        self._collection.close()
        self.attachments.close()
        self.exchange.close()
