"""What menus and keys do with the branch that is shown: its last answer, and the versions of its messages."""

from __future__ import annotations

from typing import Literal

from app.chat.controller import ChatController
from app.chat.conversation import MessageView
from app.chat.transcript import Transcript
from engine.protocol import Role


class ShownBranch:
    """Acts on the branch of the open chat that ``transcript`` shows."""

    def __init__(self, controller: ChatController, transcript: Transcript) -> None:
        self._controller = controller
        self._transcript = transcript

    def regenerate_last(self) -> None:
        """Answer the last message again."""
        if self.ends_with_answer and not self._controller.is_generating:
            self._controller.regenerate(self._controller.current_messages[-1].record.id)

    def continue_last(self) -> None:
        """Let the model go on with the last answer."""
        if self.ends_with_answer and not self._controller.is_generating:
            self._controller.continue_answer(self._controller.current_messages[-1].record.id)

    @property
    def ends_with_answer(self) -> bool:
        """Whether the last message is the model's."""
        messages = self._controller.current_messages
        return bool(messages) and messages[-1].record.role is Role.ASSISTANT

    @property
    def has_question(self) -> bool:
        """Whether the person wrote one of the messages."""
        return any(view.record.role is Role.USER for view in self._controller.current_messages)

    def step_version(self, step: Literal[-1, 1]) -> None:
        """Show another version: of the message that has the focus, else of the last one that has one there."""
        chosen = self._with_version(step)
        if chosen is not None:
            self._controller.select_sibling(chosen.record.id, step)

    def has_version(self, step: Literal[-1, 1]) -> bool:
        """Whether there is another version to show."""
        return self._with_version(step) is not None

    def last_answer(self) -> str:
        """The text of the last answer, "" without one."""
        for view in reversed(self._controller.current_messages):
            if view.record.role is Role.ASSISTANT:
                return view.record.content
        return ""

    def _with_version(self, step: Literal[-1, 1]) -> MessageView | None:
        focused, branch = self._transcript.focused_id(), self._controller.current_messages
        views = [view for view in branch if view.record.id == focused and view.num_siblings > 1] or branch
        return next((view for view in reversed(views) if view.has_version(step)), None)
