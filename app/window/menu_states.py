"""Which actions of the menus can be done now, so that no entry does nothing."""

from __future__ import annotations

from app.chat.chat_page import ChatPage
from app.chat.controller import ChatController
from app.translation import tr
from app.window.menus import Menus


def enable_actions(menus: Menus, controller: ChatController, *, is_known: bool) -> None:
    """Enable what can be done, by what is known without reading messages.

    ``is_known`` says whether the open chat is in the list: a new one is not before something is sent.
    """
    has_messages, is_generating = controller.has_messages, controller.is_generating
    menus.stop.setEnabled(is_generating)
    for action in (menus.regenerate, menus.continue_answer, menus.edit_last):
        action.setEnabled(has_messages and not is_generating)
    for action in (menus.copy_answer, menus.previous_version, menus.next_version, *menus.find):
        action.setEnabled(has_messages)
    for action in (menus.rename, menus.pin, menus.delete, menus.export):
        action.setEnabled(is_known)
    menus.export_all.setEnabled(bool(controller.conversations))
    is_loading = controller.model_info is None and bool(controller.loading_name)
    menus.eject.setText(tr("Stop loading the model") if is_loading else tr("Eject the model"))
    menus.eject.setEnabled(is_loading or controller.model_info is not None)


def enable_by_messages(menus: Menus, controller: ChatController, page: ChatPage) -> None:
    """Enable what can be done by what the open chat's messages are, while somebody looks at the actions."""
    is_idle = not controller.is_generating
    menus.previous_version.setEnabled(page.branch.has_version(-1))
    menus.next_version.setEnabled(page.branch.has_version(1))
    menus.copy_answer.setEnabled(bool(page.branch.last_answer()))
    menus.edit_last.setEnabled(is_idle and page.branch.has_question)
    for action in (menus.regenerate, menus.continue_answer):
        action.setEnabled(is_idle and page.branch.ends_with_answer)
