"""The menu bar: every action with its shortcut, shown where the action is. Wiring only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenu

from app.settings import Settings
from app.theme import Theme
from app.theme.theme import MAX_ZOOM, MIN_ZOOM
from app.translation import tr, trn
from app.window.edit_menu import add_edits
from app.window.pages import SETTINGS, PageEntry
from engine.plain_data import dataclass


@dataclass(frozen=True)
class WindowActions:
    """What the menus can ask of the window.

    ``look_closely`` enables the actions of the chat by what its messages are, while they are seen; ``look`` by what
    is known without them.
    """

    look: Callable[[], None]
    look_closely: Callable[[], None]
    new_chat: Callable[[], None]
    open_model: Callable[[], None]
    export_chats: Callable[[], None]
    export_all: Callable[[], None]
    import_chats: Callable[[], None]
    show_page: Callable[[str], None]
    find: Callable[[], None]
    find_next: Callable[[], None]
    find_previous: Callable[[], None]
    search: Callable[[], None]
    commands: Callable[[], object]
    quit: Callable[[], None]
    toggle_sidebar: Callable[[], None]
    toggle_options: Callable[[], None]
    toggle_full_screen: Callable[[], None]
    write: Callable[[], None]
    attach: Callable[[], None]
    stop: Callable[[], None]
    regenerate: Callable[[], None]
    continue_answer: Callable[[], None]
    previous_version: Callable[[], None]
    next_version: Callable[[], None]
    edit_last: Callable[[], None]
    copy_answer: Callable[[], None]
    rename: Callable[[], None]
    toggle_pin: Callable[[], None]
    delete: Callable[[], None]
    undo: Callable[[], object]
    can_undo: Callable[[], bool]
    new_folder: Callable[[], None]
    choose_model: Callable[[], None]
    eject: Callable[[], None]
    shortcuts: Callable[[], object]
    about: Callable[[], object]


@dataclass
class Zooming:
    """The actions that change the size of the text."""

    larger: QAction
    smaller: QAction
    designed: QAction

    def enable(self, zoom: float) -> None:
        """Offer what changes ``zoom``."""
        self.larger.setEnabled(zoom < MAX_ZOOM)
        self.smaller.setEnabled(zoom > MIN_ZOOM)
        self.designed.setEnabled(zoom != 1)


@dataclass
class Menus:
    """The actions whose state changes with what is shown."""

    stop: QAction
    regenerate: QAction
    continue_answer: QAction
    edit_last: QAction
    copy_answer: QAction
    previous_version: QAction
    next_version: QAction
    export_all: QAction
    rename: QAction
    pin: QAction
    delete: QAction
    eject: QAction
    export: QAction
    find: tuple[QAction, ...]
    sidebar: QAction
    options: QAction
    zooming: Zooming

    def name_chats(self, num_chats: int, *, are_pinned: bool) -> None:
        """Say how many chats the actions are about."""
        pin = trn("Pin the chat", "Pin {count} chats", num_chats)
        unpin = trn("Unpin the chat", "Unpin {count} chats", num_chats)
        self.pin.setText(unpin if are_pinned else pin)
        self.delete.setText(trn("Delete the chat", "Delete {count} chats", num_chats))
        self.export.setText(trn("Export the chat…", "Export {count} chats…", num_chats))


def build_menus(
    window: QMainWindow, theme: Theme, settings: Settings, actions: WindowActions, pages: Sequence[PageEntry]
) -> Menus:
    """Fill the window's menu bar."""
    bar = window.menuBar()
    bar.setAccessibleName(tr("Menu"))
    file_menu = bar.addMenu(tr("&File"))
    standard = QKeySequence.StandardKey
    _add(file_menu, tr("New chat"), standard.New, actions.new_chat)
    _add(file_menu, tr("New folder"), "Ctrl+Shift+N", actions.new_folder)
    _add(file_menu, tr("Open a model file…"), standard.Open, actions.open_model)
    file_menu.addSeparator()
    export = _add(file_menu, tr("Export the chat…"), "Ctrl+Shift+E", actions.export_chats)
    export_all = _add(file_menu, tr("Export all chats…"), "", actions.export_all)
    _add(file_menu, tr("Import chats…"), "", actions.import_chats)
    file_menu.addSeparator()
    preferences = _add(file_menu, tr("Settings"), "Ctrl+,", lambda: actions.show_page(SETTINGS))
    preferences.setMenuRole(QAction.MenuRole.PreferencesRole)
    _add(file_menu, tr("Close the window"), "Ctrl+W", window.close)
    leave = _add(file_menu, tr("Quit"), "Ctrl+Q", actions.quit)
    leave.setMenuRole(QAction.MenuRole.QuitRole)
    find = _build_edit_menu(bar.addMenu(tr("&Edit")), actions)
    sidebar, options, zooming = _build_view_menu(bar.addMenu(tr("&View")), theme, settings, actions, pages)

    chat = bar.addMenu(tr("&Chat"))
    chat.aboutToShow.connect(actions.look_closely)
    chat.aboutToHide.connect(actions.look)
    _add(chat, tr("Write a message"), "Ctrl+L", actions.write)
    _add(chat, tr("Attach files…"), "Ctrl+Shift+A", actions.attach)
    stop = _add(chat, tr("Stop the answer"), "Ctrl+.", actions.stop)
    regenerate = _add(chat, tr("Regenerate the answer"), "Ctrl+R", actions.regenerate)
    continue_answer = _add(chat, tr("Continue the answer"), "Ctrl+Shift+R", actions.continue_answer)
    previous_version = _add(chat, tr("Previous version"), "Alt+Left", actions.previous_version)
    next_version = _add(chat, tr("Next version"), "Alt+Right", actions.next_version)
    edit_last = _add(chat, tr("Edit the last message"), "Ctrl+Up", actions.edit_last)
    copy_answer = _add(chat, tr("Copy the last answer"), "Ctrl+Shift+C", actions.copy_answer)
    chat.addSeparator()
    rename = _add(chat, tr("Rename the chat"), "F2", actions.rename)
    pin = _add(chat, tr("Pin the chat"), "Ctrl+Shift+P", actions.toggle_pin)
    delete = _add(chat, tr("Delete the chat"), "Ctrl+Shift+Backspace", actions.delete)

    model = bar.addMenu(tr("&Model"))
    model.aboutToShow.connect(actions.look)
    _add(model, tr("Choose a model"), "Ctrl+M", actions.choose_model)
    _add(model, tr("Open a model file…"), "", actions.open_model)
    eject = _add(model, tr("Eject the model"), "", actions.eject)

    help_menu = bar.addMenu(tr("&Help"))
    shortcuts = _add(help_menu, tr("Keyboard shortcuts"), "Ctrl+/", actions.shortcuts)
    shortcuts.setShortcuts([QKeySequence("Ctrl+/"), QKeySequence("F1")])
    about = _add(help_menu, tr("About Fireside"), "", actions.about)
    about.setMenuRole(QAction.MenuRole.AboutRole)
    return Menus(
        stop,
        regenerate,
        continue_answer,
        edit_last,
        copy_answer,
        previous_version,
        next_version,
        export_all,
        rename,
        pin,
        delete,
        eject,
        export,
        find,
        sidebar,
        options,
        zooming,
    )


def shortcuts_of(window: QMainWindow) -> list[tuple[str, list[tuple[str, str]]]]:
    """For each menu its title, with all of its shortcuts as pairs of keys and what they do."""
    groups = []
    for entry in window.menuBar().actions():
        menu = entry.menu()
        if isinstance(menu, QMenu):
            shown = [_keys_of(action) for action in menu.actions()]
            groups.append((entry.text().replace("&", ""), [(keys, name) for keys, name in shown if keys]))
    return [(title, rows) for title, rows in groups if rows]


def _keys_of(action: QAction) -> tuple[str, str]:
    """An action's keys, "" for none, and its name."""
    name, _, shown = action.text().replace("&", "").partition("\t")
    return shown or action.shortcut().toString(QKeySequence.SequenceFormat.NativeText), name


def _build_edit_menu(menu: QMenu, actions: WindowActions) -> tuple[QAction, ...]:
    """Fill the menu; gives the actions that find in a chat."""
    standard = QKeySequence.StandardKey
    add_edits(menu, actions.undo, actions.can_undo)
    menu.addSeparator()
    find = (
        _add(menu, tr("Find in chat"), standard.Find, actions.find),
        _add(menu, tr("Find next"), standard.FindNext, actions.find_next),
        _add(menu, tr("Find previous"), standard.FindPrevious, actions.find_previous),
    )
    _add(menu, tr("Search all chats"), "Ctrl+Shift+F", actions.search)
    _add(menu, tr("Commands"), "Ctrl+K", actions.commands)
    return find


def _build_view_menu(
    menu: QMenu, theme: Theme, settings: Settings, actions: WindowActions, pages: Sequence[PageEntry]
) -> tuple[QAction, QAction, Zooming]:
    sidebar = _add(menu, tr("Sidebar"), "Ctrl+B", actions.toggle_sidebar)
    sidebar.setCheckable(True)
    options = _add(menu, tr("Options of the chat"), "Ctrl+Shift+O", actions.toggle_options)
    options.setCheckable(True)
    for entry in pages:
        if entry.title and entry.name != SETTINGS:
            _add(menu, entry.title, entry.keys, partial(actions.show_page, entry.name))
    menu.addSeparator()
    standard = QKeySequence.StandardKey
    zoom_in = _add(menu, tr("Larger text"), standard.ZoomIn, theme.zoom_in)
    zoom_in.setShortcuts([*zoom_in.shortcuts(), QKeySequence("Ctrl+=")])
    zoom_out = _add(menu, tr("Smaller text"), standard.ZoomOut, theme.zoom_out)
    designed = _add(menu, tr("Text as designed"), "Ctrl+0", theme.zoom_reset)
    menu.addSeparator()
    looks = menu.addMenu(tr("Theme"))
    group = QActionGroup(looks)
    by_value: dict[str, QAction] = {}
    for value, word in (("system", tr("As the system")), ("light", tr("Light")), ("dark", tr("Dark"))):
        action = looks.addAction(word)
        action.setCheckable(True)
        action.triggered.connect(lambda _checked=False, value=value: settings.set("theme", value))
        group.addAction(action)
        by_value[value] = action

    def show_choice() -> None:
        by_value[settings.value("theme")].setChecked(True)

    show_choice()
    looks.aboutToShow.connect(show_choice)
    menu.addSeparator()
    full_screen = _add(menu, tr("Full screen"), standard.FullScreen, actions.toggle_full_screen)
    if full_screen.shortcut().isEmpty():  # some desktops name no key for it
        full_screen.setShortcut(QKeySequence("F11"))
    return sidebar, options, Zooming(zoom_in, zoom_out, designed)


def _add(menu: QMenu, text: str, keys: str | QKeySequence.StandardKey, run: Callable[[], object]) -> QAction:
    action = menu.addAction(text)
    if isinstance(keys, QKeySequence.StandardKey):
        action.setShortcuts(keys)
    elif keys:
        action.setShortcut(QKeySequence(keys))
    action.triggered.connect(lambda _checked=False: run())
    return action
