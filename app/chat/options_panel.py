"""The panel beside the chat: the preset it takes over, and its own system prompt, sampling and limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QMenu,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.chat.controller import ChatController
from app.chat.options import OPTIONS, OptionValues
from app.chat.presets import PRESET_KEY, PresetError
from app.chat.tools_dialog import ToolsDialog, summary
from app.engine_words import told
from app.settings import Settings
from app.storage.records import PresetRecord
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import IconButton, WideMenuButton
from app.widgets.file_dialogs import choose_file, choose_target
from app.widgets.label import Label
from app.widgets.setting_row import SettingRow
from app.widgets.spacing import spaced
from app.widgets.use_dialog import AskDialog
from engine.errors import InputError

WIDTH_PX = 368
_NO_LIMIT = 16_777_215  # of a widget's width, as Qt counts it


class OptionsPanel(QFrame):
    """What the open chat has for itself.

    Signals:
        closed: the person wants the panel away.
        notice(text): a preset file could not be used.
        undo_offered(text, undo): something is gone, and calling ``undo`` brings it back.
    """

    closed = Signal()
    notice = Signal(str)
    undo_offered = Signal(str, object)

    def __init__(
        self, controller: ChatController, settings: Settings, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("optionsPanel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._controller = controller
        self._theme = theme
        self._is_alone = False
        self._shown_id = ""
        self.values = OptionValues(settings, self)
        self._preset_button = WideMenuButton(theme)
        self._preset_button.clicked.connect(self._show_menu)
        close = IconButton(theme, "close", tr("Close the chat's options"))
        close.clicked.connect(self.closed)
        self._head = QHBoxLayout()
        self._head.addWidget(Label(tr("This chat"), "section"))
        self._head.addStretch(1)
        self._head.addWidget(close)
        self._body = QWidget()
        self._rows = QVBoxLayout(self._body)
        self._rows.addLayout(self._choice(tr("Preset"), self._preset_button))
        self.rows = [SettingRow(setting, self.values, theme, is_narrow=True) for setting in OPTIONS]
        for row in self.rows:
            self._rows.addWidget(row)
        self._tools_button = WideMenuButton(theme)
        self._tools_button.clicked.connect(self.edit_tools)
        self._rows.addLayout(self._choice(tr("Functions"), self._tools_button))
        self._rows.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setAccessibleName(tr("Options of this chat"))
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(self._body)
        self._column = QVBoxLayout(self)
        self._column.addLayout(self._head)
        self._column.addWidget(self._scroll, 1)
        self.values.edited.connect(self._on_edited)
        controller.conversation_opened.connect(self.refresh)
        controller.conversations_changed.connect(self._on_changed)
        controller.presets.changed.connect(self.refresh)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self.refresh()

    def set_alone(self, is_alone: bool) -> None:
        """Whether the panel stands in the place of the chat, as wide as that; Escape closes it then."""
        self._is_alone = is_alone
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._is_alone and event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)

    @property
    def wanted_width(self) -> int:
        """Its width beside the chat."""
        return self._theme.px(WIDTH_PX)

    def _fit(self) -> None:
        width = self.wanted_width
        self.setMinimumWidth(0 if self._is_alone else width)
        self.setMaximumWidth(_NO_LIMIT if self._is_alone else width)

    def _choice(self, title: str, button: WideMenuButton) -> QVBoxLayout:
        column = spaced(self._theme, QVBoxLayout(), spacing=8)
        column.addWidget(Label(title, "strong"))
        column.addWidget(button)
        return column

    def refresh(self, *_arguments: object) -> None:
        """Show the options of the conversation that is open."""
        current = self._controller.current_conversation
        options = current.options
        if current.id != self._shown_id:
            for row in self.rows:
                row.field.flush()  # what is typed belongs to the chat that was shown
            self._shown_id = current.id
        self.values.show(options)
        name = self._controller.presets.shown_name(options) or tr("None")
        self._preset_button.set_whole_text(name)
        self._preset_button.setAccessibleName(tr("Preset: {name}", name=name))
        try:
            tools = summary(str(options.get("tools") or ""))
        except InputError as error:
            tools = told(error)
        self._tools_button.set_whole_text(tools)
        self._tools_button.setAccessibleName(tr("Functions: {names}", names=tools))

    def _on_edited(self, key: str, value: object) -> None:
        self._controller.set_option(self._shown_id, key, value)
        if self._shown_id == self._controller.current_id:
            self.refresh()

    def _on_changed(self) -> None:
        """The schema picker and an answer at the context's end set options, too."""
        current = self._controller.current_conversation
        if current.id == self._shown_id and current.options != self.values.options:
            self.refresh()

    def edit_tools(self) -> ToolsDialog:
        """Open the list of functions that the model may call."""
        options = self._controller.current_conversation.options
        dialog = ToolsDialog(str(options.get("tools") or ""), self._theme, self)
        dialog.finished.connect(dialog.deleteLater)
        conversation_id = self._controller.current_id
        dialog.accepted.connect(lambda: self._take_tools(conversation_id, dialog.text))
        dialog.open()
        return dialog

    def _take_tools(self, conversation_id: str, text: str) -> None:
        if conversation_id != self._controller.current_id:
            return  # the person opened another chat meanwhile
        options = dict(self._controller.current_conversation.options)
        options.pop("tools", None)
        self._controller.set_options(options | ({"tools": text} if text else {}))
        self.refresh()

    def make_menu(self) -> QMenu:
        """The presets, and what can be done with them."""
        presets = self._controller.presets
        options = self._controller.current_conversation.options
        current = presets.get(options.get(PRESET_KEY))
        menu = QMenu(self)
        self._add(menu, tr("None"), lambda: self._take(""), is_chosen=current is None)
        for record in presets.records:
            name = record.name + (tr(" (for new chats)") if record.id == presets.default_id else "")
            is_chosen = current is not None and record.id == current.id
            self._add(menu, name, partial(self._take, record.id), is_chosen=is_chosen)
        menu.addSeparator()
        self._add(menu, tr("Save as a new preset…"), self._save_new)
        if current is not None:
            name = current.name
            if presets.is_modified(options):
                self._add(
                    menu, tr("Save the changes to “{name}”", name=name), lambda: presets.update(current.id, options)
                )
            is_default = presets.default_id == current.id
            self._add(
                menu,
                tr("Not for new chats any more") if is_default else tr("Use “{name}” for new chats", name=name),
                lambda: presets.set_default("" if is_default else current.id),
            )
            self._add(menu, tr("Rename “{name}”…", name=name), lambda: self._rename(current.id, name))
            self._add(menu, tr("Delete “{name}”", name=name), lambda: self._delete(current))
            self._add(menu, tr("Share “{name}” as a file…", name=name), lambda: self._write_file(current.id, name))
        self._add(menu, tr("Import a preset…"), self._read_file)
        return menu

    def _add(self, menu: QMenu, text: str, run: Callable[[], object], *, is_chosen: bool | None = None) -> None:
        action = menu.addAction(text.replace("&", "&&"))
        if is_chosen is not None:
            action.setCheckable(True)
            action.setChecked(is_chosen)
        action.triggered.connect(lambda _checked=False: run())

    def _show_menu(self) -> None:
        menu = self.make_menu()
        menu.setMinimumWidth(self._preset_button.width())
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._preset_button.mapToGlobal(self._preset_button.rect().bottomLeft()))

    def _take(self, preset_id: str) -> None:
        self._controller.set_options(self._controller.presets.options_of(preset_id))
        self.refresh()

    def _save_new(self) -> None:
        words = tr("Name of the preset")
        name = AskDialog(self._theme, tr("Save as a preset"), words, self, action=tr("Save")).ask()
        if name is not None:
            record = self._controller.presets.add(name, self._controller.current_conversation.options)
            self._take(record.id)

    def _rename(self, preset_id: str, name: str) -> None:
        title, words, act = tr("Rename the preset"), tr("Name of the preset"), tr("Rename")
        new_name = AskDialog(self._theme, title, words, self, action=act, text=name).ask()
        if new_name is not None:
            self._controller.presets.rename(preset_id, new_name)

    def _delete(self, record: PresetRecord) -> None:
        presets = self._controller.presets
        presets.delete(record.id)
        words = tr("The preset “{name}” is deleted.", name=record.name)
        self.undo_offered.emit(words, lambda: presets.restore(record))

    def _write_file(self, preset_id: str, name: str) -> None:
        path = choose_target(self, tr("Share the preset"), f"{name}.json", tr("Presets (*.json)"))
        if path is not None:
            try:
                self._controller.presets.write_file(preset_id, path)
            except PresetError as error:
                self.notice.emit(str(error))

    def _read_file(self) -> None:
        path = choose_file(self, tr("Import a preset"), tr("Presets (*.json);;All files (*)"))
        if path is not None:
            try:
                self._take(self._controller.presets.read_file(path).id)
            except PresetError as error:
                self.notice.emit(str(error))

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._fit()
        self._head.setContentsMargins(px(16), px(10), px(10), px(8))
        self._rows.setContentsMargins(px(16), px(6), px(16), px(16))
        self._rows.setSpacing(px(14))
        self._column.setContentsMargins(1, 0, 0, 0)  # the hairline at the panel's edge
        self._column.setSpacing(0)
        self._preset_button.setFixedHeight(px(38))
        self._tools_button.setFixedHeight(px(38))
