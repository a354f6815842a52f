"""What the command palette offers: the menus' actions that can be done now, chats, models and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar

from app.chat.controller import ChatController
from app.settings_table import SETTINGS
from app.translation import tr
from app.window.command_palette import PaletteCommand


def menu_commands(menu: QMenu | QMenuBar, path: str = "") -> Iterator[PaletteCommand]:
    """The actions of a menu and its submenus that are enabled; those that act on a text field are left out."""
    for action in menu.actions():
        name = action.text().split("\t")[0].replace("&", "")
        inner = action.menu()
        if isinstance(inner, QMenu):
            yield from menu_commands(inner, "" if isinstance(menu, QMenuBar) else f"{name}: ")
        elif name and action.isEnabled() and not action.data():
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            yield PaletteCommand(path + name, keys, action.trigger)


def palette_commands(
    menu_bar: QMenuBar,
    controller: ChatController,
    open_chat: Callable[[str], object],
    show_setting: Callable[[str], object],
) -> list[PaletteCommand]:
    """Everything, in the order in which it is listed before anything is typed."""
    commands: dict[str, PaletteCommand] = {}
    for command in menu_commands(menu_bar):
        commands.setdefault(command.title, command)
    chats = [PaletteCommand(one.title, tr("chat"), partial(open_chat, one.id)) for one in controller.conversations]
    models = [
        PaletteCommand(
            entry.name,
            tr("load the model · {detail}", detail=entry.detail),
            partial(controller.load_model, str(entry.path)),
        )
        for entry in controller.models
        if not entry.problem
    ]
    settings = [
        PaletteCommand(setting.title, tr("setting"), partial(show_setting, setting.title))
        for setting in SETTINGS
        if setting.title
    ]
    return [*commands.values(), *chats, *models, *settings]
