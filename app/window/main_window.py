"""The main window: layout and wiring of sidebar, bar, pages and menus. All work is done elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QCloseEvent, QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QHBoxLayout,
    QMainWindow,
    QWidget,
)

from app.chat.controller import ChatController
from app.kept_chats import KeptChats
from app.settings import Settings
from app.theme import Theme, apply_theme
from app.translation import tr
from app.widgets.announce import announce
from app.widgets.file_dialogs import choose_file
from app.window.attention import Attention
from app.window.chat_actions import ChatActions
from app.window.chat_pane import ChatPane
from app.window.menu_states import enable_actions, enable_by_messages
from app.window.menus import Menus, WindowActions, build_menus, shortcuts_of
from app.window.pages import CHAT, MODELS, SETTINGS, TRASH, PageEntry, Pages
from app.window.placement import placement_of, restore_placement
from app.window.sidebar import Sidebar

if TYPE_CHECKING:
    from app.window.command_palette import CommandPalette

RESTART_STATUS = 75
"""What the event loop ends with when the app is to be started again."""
_NARROW_PX = 760
_LEAST_WIDTH_PX, _LEAST_WIDTH, _LEAST_HEIGHT = 320, 420, 360


class MainWindow(QMainWindow):
    """Fireside's window.

    Attributes:
        pane: the chat's page: what is below, and the chat's options.
        chat_page: transcript and composer.
        sidebar: the chats.
        chats: what is done with those that are chosen there.
        bar: the model and the context.
        banner: below it, what was found at the start, until it is dismissed.
        pages: the chat, the settings, and the pages of other features.
        attention: the tray, and the word when a long job ends unwatched.
    """

    def __init__(
        self,
        controller: ChatController,
        settings: Settings,
        theme: Theme | None = None,
        features: Sequence[PageEntry] = (),
        kept: KeptChats | None = None,
    ) -> None:
        """``features`` are pages beside the chat; the sidebar's foot and the menu View lead to them.

        What is ``kept`` of read chats is shown among the settings.
        """
        super().__init__()
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self._controller = controller
        self._settings = settings
        self._kept = kept
        self._theme = theme or apply_theme(application, settings)
        self._was_narrow = False
        self._is_leaving = False
        self.setWindowTitle("Fireside")
        can_find_models = any(entry.name == MODELS for entry in features)
        self.pane = ChatPane(controller, settings, self._theme, can_find_models=can_find_models)
        self.bar, self.banner, self.chat_page = self.pane.bar, self.pane.banner, self.pane.page
        self.pages = Pages(
            (
                PageEntry(CHAT, "", lambda: self.pane),
                *features,
                PageEntry(TRASH, tr("Trash"), self._make_trash, is_kept=False),
                PageEntry(SETTINGS, tr("Settings"), self._make_preferences, "Ctrl+,", is_kept=False),
            )
        )
        self.sidebar = Sidebar(controller, self._theme, self.pages.entries)
        self.chats = ChatActions(self, controller, self.sidebar, self.chat_page, lambda: self._set_sidebar(True))
        self.attention = Attention(self, settings)
        self._lay_out()
        self._menus: Menus = build_menus(self, self._theme, settings, self._actions(), self.pages.entries)
        self._wire()
        self._set_sidebar(bool(settings.value("is_sidebar_visible")))
        self._set_options_panel(bool(settings.value("is_options_panel_visible")))
        self._limit_size()
        default = QSize(self._theme.px(1280), self._theme.px(820))
        restore_placement(self, str(settings.value("window_geometry")), default)
        self._refresh()
        self.chat_page.focus_composer()

    # ------------------------------------------------------------------------------------------ layout

    def _make_trash(self) -> QWidget:
        from app.chat.trash_page import TrashPage  # here and below: not before the window is there

        return TrashPage(self._controller, self._theme)

    def _make_preferences(self) -> QWidget:
        from app.preferences.preferences_page import PreferencesPage

        has_models_page = any(entry.name == MODELS for entry in self.pages.entries)
        page = PreferencesPage(self._settings, self._theme, has_models_page=has_models_page, kept=self._kept)
        page.restart_requested.connect(self._restart)
        page.models_requested.connect(lambda: self.show_page(MODELS))
        return page

    def _lay_out(self) -> None:
        self.pages.show_page(CHAT)
        central = QWidget()
        row = QHBoxLayout(central)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.sidebar)
        row.addWidget(self.pages, 1)
        self.setCentralWidget(central)
        QWidget.setTabOrder(self.sidebar, self.bar)
        QWidget.setTabOrder(self.bar, self.chat_page)

    def _wire(self) -> None:
        controller = self._controller
        self._theme.about_to_change.connect(self.pages.drop_hidden)
        self._theme.about_to_change.connect(self.pane.drop_hidden)
        self._theme.changed.connect(self._limit_size)
        self._theme.changed.connect(self._fit_width)
        self._theme.changed.connect(self._offer_zooms)
        self.sidebar.page_requested.connect(self.show_page)
        self.pages.shown.connect(self.sidebar.mark_page)
        self.pages.left.connect(self._show_chat)
        self.sidebar.chat_requested.connect(self._show_chat)
        self.sidebar.list.rename_left.connect(self.chat_page.focus_composer)
        self.sidebar.list.selectionModel().selectionChanged.connect(self._name_actions)
        self.sidebar.delete_requested.connect(self.chats.delete)
        self.sidebar.list.export_requested.connect(self.chats.export)
        self.bar.sidebar_button.clicked.connect(self._toggle_sidebar)
        self.bar.model_button.open_requested.connect(self._open_model)
        self.bar.options_button.clicked.connect(self._toggle_options)
        self.pane.options_toggled.connect(self._toggle_options)
        self.chat_page.open_model_requested.connect(self._open_model)
        self.chat_page.find_model_requested.connect(lambda: self.show_page(MODELS))
        self._settings.notice.connect(self.chat_page.show_notice)
        self.attention.show_requested.connect(self.come_forward)
        self.attention.quit_requested.connect(self._quit)
        controller.generation_started.connect(lambda _id, message_id: self.attention.job_began(message_id))
        controller.generation_finished.connect(self._on_answer_ended)
        controller.model_loading.connect(lambda *_progress: self.attention.job_began("model"))
        controller.model_loaded.connect(
            lambda info: self.attention.job_ended("model", info.name, tr("The model is loaded."))
        )
        controller.model_failed.connect(
            lambda reason: self.attention.job_ended("model", tr("The model could not be loaded"), reason)
        )
        for signal in (
            controller.conversations_changed,
            controller.conversation_opened,
            controller.message_added,
            controller.generation_started,
            controller.generation_finished,
            controller.model_loaded,
            controller.model_ejected,
        ):
            signal.connect(self._refresh)

    def _actions(self) -> WindowActions:
        controller, page = self._controller, self.chat_page
        return WindowActions(
            look=self._refresh,
            look_closely=self._look_closely,
            new_chat=self.sidebar.new_chat,
            open_model=self._open_model,
            show_page=self.show_page,
            find=lambda: self._find(page.finding.open),
            find_next=lambda: self._find(lambda: page.finding.step(1)),
            find_previous=lambda: self._find(lambda: page.finding.step(-1)),
            search=self._search,
            commands=self.show_commands,
            quit=self._quit,
            export_chats=lambda: self.chats.export(self.chats.chosen_ids),
            export_all=lambda: self.chats.export([record.id for record in controller.conversations]),
            import_chats=self.chats.import_all,
            toggle_sidebar=self._toggle_sidebar,
            toggle_options=self._toggle_options,
            toggle_full_screen=self._toggle_full_screen,
            write=self._write,
            attach=page.composer.choose_files,
            stop=controller.stop,
            regenerate=page.branch.regenerate_last,
            continue_answer=page.branch.continue_last,
            previous_version=lambda: page.branch.step_version(-1),
            next_version=lambda: page.branch.step_version(1),
            edit_last=lambda: self._show_chat(keep_focus=page.transcript.edit_last()),
            copy_answer=lambda: QGuiApplication.clipboard().setText(page.branch.last_answer()),
            rename=self.chats.rename,
            toggle_pin=self.chats.toggle_pin,
            delete=lambda: self.chats.delete(self.chats.chosen_ids),
            undo=self.chats.undo_deletion,
            can_undo=lambda: controller.can_undo_deletion,
            new_folder=self.chats.make_folder,
            choose_model=self._choose_model,
            eject=controller.eject_model,
            shortcuts=self._show_shortcuts,
            about=self._show_about,
        )

    # ------------------------------------------------------------------------------------------ actions

    def show_page(self, name: str) -> None:
        """Show a page by its name; raises KeyError for an unknown one."""
        self.pages.show_page(name)

    def _show_chat(self, *, keep_focus: bool = False) -> None:
        self.pages.show_page(CHAT)
        if not keep_focus:
            self.chat_page.focus_composer()

    def come_forward(self) -> None:
        """Show the window before all others."""
        self.show()
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.raise_()
        self.activateWindow()

    def show_commands(self) -> CommandPalette:
        """Open the command palette."""
        from app.window.command_palette import CommandPalette
        from app.window.commands import palette_commands

        self._look_closely()
        commands = palette_commands(
            self.menuBar(), self._controller, self.sidebar.open_chat, lambda title: self._show_setting(title)
        )
        self._refresh()
        palette = CommandPalette(self._theme, commands, self)
        palette.open_at(self._theme.px(84))
        return palette

    def _show_setting(self, title: str) -> None:
        self.show_page(SETTINGS)
        self.pages.page(SETTINGS).search.setText(title)  # type: ignore[attr-defined]

    def _show_shortcuts(self) -> None:
        from app.window.dialogs import show_shortcuts

        show_shortcuts(self, self._theme, shortcuts_of(self))

    def _show_about(self) -> None:
        from app.window.dialogs import show_about

        show_about(self, self._theme)

    def _quit(self, status: int = 0) -> None:
        self._is_leaving = True
        self.close()
        QApplication.exit(status)

    def _restart(self) -> None:
        self._quit(RESTART_STATUS)

    def _write(self) -> None:
        self._show_chat()

    def _find(self, find: Callable[[], None]) -> None:
        """Find in the chat, where the person sees it."""
        self._show_chat(keep_focus=True)
        if self.chat_page.isHidden():  # the options stand in its place
            self._set_options_panel(False)
        find()

    def _search(self) -> None:
        self._set_sidebar(True)
        self.sidebar.focus_search()

    def _open_model(self) -> None:
        path = choose_file(self, tr("Open a model file"), tr("Models (*.gguf);;All files (*)"))
        if path is not None:
            self._controller.load_model(str(path))

    def _choose_model(self) -> None:
        self._show_chat(keep_focus=True)
        self.bar.model_button.show_menu()

    def _toggle_sidebar(self) -> None:
        self._set_sidebar(self.sidebar.isHidden())
        self._settings.set("is_sidebar_visible", not self.sidebar.isHidden())

    def _toggle_options(self) -> None:
        self._show_chat(keep_focus=True)
        self._set_options_panel(not self.pane.shows_options)
        self._settings.set("is_options_panel_visible", self.pane.shows_options)

    def _toggle_full_screen(self) -> None:
        self.setWindowState(self.windowState() ^ Qt.WindowState.WindowFullScreen)

    # ------------------------------------------------------------------------------------------ state

    def _on_answer_ended(self, conversation_id: str, message_id: str) -> None:
        record = self.chats.record(conversation_id)
        title = record.title if record is not None else tr("New chat")
        self.attention.job_ended(message_id, title, tr("The answer is complete."))
        if conversation_id == self._controller.current_id:
            announce(self.chat_page, tr("The answer is complete."))
        else:
            announce(self.chat_page, tr("The answer in “{title}” is complete.", title=title))

    def _set_sidebar(self, is_visible: bool) -> None:
        self.sidebar.setVisible(is_visible)
        self.bar.sidebar_button.setVisible(not is_visible)
        self._menus.sidebar.setChecked(is_visible)

    def _set_options_panel(self, is_visible: bool) -> None:
        self.pane.show_options(is_visible)
        self._menus.options.setChecked(is_visible)

    def _refresh(self, *_arguments: object) -> None:
        """Enable what can be done now, so that no entry does nothing."""
        record = self.chats.record(self._controller.current_id)
        enable_actions(self._menus, self._controller, is_known=record is not None)
        self._name_actions()
        self._offer_zooms()
        self.setWindowTitle(
            tr("{title} – Fireside", title=record.title) if record is not None and record.title else "Fireside"
        )

    def _look_closely(self) -> None:
        """Enable the actions that take reading the messages."""
        enable_by_messages(self._menus, self._controller, self.chat_page)

    def _offer_zooms(self) -> None:
        self._menus.zooming.enable(self._theme.zoom)

    def _name_actions(self, *_arguments: object) -> None:
        """Say how many chats an action of the menu is about."""
        ids = self.chats.chosen_ids
        record = self.chats.record(ids[0])
        self._menus.name_chats(len(ids), are_pinned=record is not None and record.is_pinned)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Undo):
            self.chats.undo_deletion()  # no text field had something to undo, else it would have kept the key
        elif event.key() == Qt.Key.Key_Escape:
            if self.pages.current_name != CHAT:
                self._show_chat()
            elif self._controller.is_generating:
                self._controller.stop()
            else:
                self.chat_page.focus_composer()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_width()

    def _limit_size(self) -> None:
        """No narrower than its parts can be at this size of the text, on a screen that has the room."""
        screen = self.screen() or QGuiApplication.primaryScreen()
        wanted = min(self._theme.px(_LEAST_WIDTH_PX), screen.availableGeometry().width())
        self.setMinimumSize(max(_LEAST_WIDTH, wanted), _LEAST_HEIGHT)

    def _fit_width(self) -> None:
        """A window too narrow for its text size gives its room to the text; a wide one gets its sidebar back."""
        is_narrow = self.width() < self._theme.px(_NARROW_PX)
        if is_narrow != self._was_narrow:
            self._was_narrow = is_narrow
            self._set_sidebar(not is_narrow and bool(self._settings.value("is_sidebar_visible")))
            self._set_options_panel(not is_narrow and bool(self._settings.value("is_options_panel_visible")))

    def focusNextPrevChild(self, is_forward: bool) -> bool:
        self.chat_page.transcript.order_for_keyboard()
        return super().focusNextPrevChild(is_forward)

    def closeEvent(self, event: QCloseEvent) -> None:
        self._settings.set("window_geometry", placement_of(self))
        if (focus := self.focusWidget()) is not None:
            focus.clearFocus()  # a field takes over what is typed when it is left
        if self.attention.keeps_running and not self._is_leaving:
            event.ignore()
            self.hide()
        else:
            super().closeEvent(event)
