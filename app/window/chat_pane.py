"""The chat's page in the window: the bar, what was found at the start, the chat, and its options beside it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QApplication, QHBoxLayout, QVBoxLayout, QWidget

from app.chat.chat_page import ChatPage
from app.chat.controller import ChatController
from app.settings import Settings
from app.theme import Theme
from app.widgets.notice_bar import NoticeBar
from app.window.bar import Bar

if TYPE_CHECKING:
    from app.chat.options_panel import OptionsPanel

_LEAST_CHAT_PX = 260


class ChatPane(QWidget):
    """Everything right of the sidebar while chatting.

    Attributes:
        bar: the model and the context.
        banner: below it, what was found at the start, until it is dismissed.
        page: transcript and composer.

    Signals:
        options_toggled: the panel's own close button was pressed.
    """

    options_toggled = Signal()

    def __init__(
        self, controller: ChatController, settings: Settings, theme: Theme, *, can_find_models: bool = False
    ) -> None:
        super().__init__()
        self._controller = controller
        self._settings = settings
        self._theme = theme
        self.bar = Bar(controller, theme)
        self.banner = NoticeBar(theme)
        self.banner.setProperty("look", "banner")
        self.page = ChatPage(controller, theme, can_find_models=can_find_models)
        self.bar.model_button.can_find = can_find_models
        self.bar.model_button.find_requested.connect(self.page.find_model_requested)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.bar)
        column.addWidget(self.banner)
        self._beside = QHBoxLayout()
        self._beside.setSpacing(0)
        self._beside.addWidget(self.page, 1)
        column.addLayout(self._beside, 1)

    @cached_property
    def options_panel(self) -> OptionsPanel:
        """The chat's own options; made when they are first shown."""
        from app.chat.options_panel import OptionsPanel  # not before the window is there

        panel = OptionsPanel(self._controller, self._settings, self._theme)
        panel.closed.connect(self.options_toggled)
        panel.notice.connect(self.page.show_notice)
        panel.undo_offered.connect(self.page.offer_undo)
        self._beside.addWidget(panel)
        return panel

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_width()

    def _share_width(self) -> None:
        """Options beside which the chat has no room stand in its place until they are closed."""
        covers = False
        if self.shows_options:
            least = max(self._theme.px(_LEAST_CHAT_PX), self.page.minimumSizeHint().width())
            covers = self.width() < self.options_panel.wanted_width + least
            self.options_panel.set_alone(covers)
        if covers == self.page.isVisibleTo(self):
            self.page.setVisible(not covers)

    def drop_hidden(self) -> None:
        """The look is about to change: options that are not shown are made anew when they are."""
        if "options_panel" in self.__dict__ and self.options_panel.isHidden():
            panel = self.__dict__.pop("options_panel")
            self._beside.removeWidget(panel)
            panel.deleteLater()
            QApplication.sendPostedEvents(panel, QEvent.Type.DeferredDelete)

    @property
    def shows_options(self) -> bool:
        """The options are beside the chat."""
        return "options_panel" in self.__dict__ and not self.options_panel.isHidden()

    def show_options(self, is_visible: bool) -> None:
        """Show the options or put them away; a keyboard that was in them goes to the composer."""
        if is_visible == self.shows_options:
            return
        focus = QApplication.focusWidget()
        had_focus = focus is not None and self.options_panel.isAncestorOf(focus)
        self.options_panel.setVisible(is_visible)
        self._share_width()
        if had_focus and not is_visible:
            self.page.focus_composer()
