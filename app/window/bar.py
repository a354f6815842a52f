"""The bar over the chat: the model, and how much of the context is used."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.chat.controller import ChatController
from app.chat.figures import count
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import IconButton, LookButton
from app.widgets.label import Label, plain_tooltip
from app.widgets.meter import Meter
from app.window.model_button import ModelButton
from engine.protocol import ModelInfo

HEIGHT_PX = 48


class Bar(QWidget):
    """48 px: a way to the sidebar when it is hidden, the model button, the context meter.

    It paints its ground itself: so nothing below is drawn when the numbers change, while an answer streams.
    """

    def __init__(self, controller: ChatController, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self._controller = controller
        self._theme = theme
        self._numbers = (0, 0, 0)
        self._total = -1  # that the words have room for
        self._preset = ""
        self.sidebar_button = IconButton(theme, "sidebar", tr("Show the sidebar (Ctrl+B)"))
        self.model_button = ModelButton(controller, theme)
        self.options_button = LookButton(theme, "", "", "sliders", "muted")
        self._label = Label("", "muted")
        self._label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._meter = Meter(theme, tr("Context used"))
        self._row = QHBoxLayout(self)
        self._row.addWidget(self.sidebar_button)
        self._row.addWidget(self.model_button)
        self._row.addWidget(self.options_button)
        self._row.addStretch(1)
        self._row.addWidget(self._label)
        self._row.addWidget(self._meter)
        controller.context_used.connect(self._on_context)
        controller.model_loaded.connect(self._on_model)
        controller.model_ejected.connect(self._on_ejected)
        for signal in (
            controller.conversation_opened, controller.conversations_changed, controller.presets.changed
        ):  # fmt: skip
            signal.connect(self._show_preset)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self._show_preset()
        info = controller.model_info
        self._on_context(0, 0, info.context_length if info else 0)

    @property
    def context_text(self) -> str:
        """The numbers as they are shown."""
        return self._label.text()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.colour("background"))  # fillRect asks for the 169 gradients of Qt as an enum
        painter.drawRect(event.rect())
        painter.setBrush(self._theme.colour("hairline"))
        painter.drawRect(0, self.height() - 1, self.width(), 1)
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _on_context(self, used: int, reused: int, total: int) -> None:
        self._numbers = (used, reused, total)
        self._meter.set_shares(reused / total if total else 0, used / total if total else 0)
        explanation = tr(
            "{used} of {total} tokens of the context are used: {reused} reused, {fresh} fresh, {free} free.",
            used=count(used),
            total=count(total),
            reused=count(reused),
            fresh=count(max(0, used - reused)),
            free=count(max(0, total - used)),
        )
        for widget in (self._label, self._meter):
            widget.setToolTip(explanation)
            widget.setAccessibleDescription(explanation)
        if total != self._total:
            self._total = total
            self._fit()
        else:
            self._show_numbers()

    def _on_model(self, info: ModelInfo) -> None:
        used, reused, _ = self._numbers
        self._on_context(used, reused, info.context_length)

    def _on_ejected(self) -> None:
        self._on_context(0, 0, 0)

    def _show_preset(self, *_ids: str) -> None:
        """The name of the preset that the open chat has taken over."""
        preset = self._controller.presets.shown_name(self._controller.current_conversation.options)
        if preset != self._preset:
            self._preset = preset
            self._fit()

    def _fit(self) -> None:
        """Leave out what has no room: first the word, then the bar."""
        px = self._theme.px
        total = self._total
        shown = QFontMetrics(self.font()).elidedText(self._preset, Qt.TextElideMode.ElideRight, px(140))
        self.options_button.setText(shown if self.width() >= px(700) else "")
        name = tr("Options of this chat (Ctrl+Shift+O): preset {preset}", preset=self._preset or tr("none"))
        self.options_button.setAccessibleName(name)
        self.options_button.setToolTip(plain_tooltip(name))
        self._label.ensurePolished()
        widest = self._label.fontMetrics().horizontalAdvance(self._words(total))
        # Of one size while the numbers change: or the whole window would be laid out anew for each.
        self._label.setFixedSize(widest, self._label.sizeHint().height())
        self._show_numbers()
        self._label.setVisible(total > 0)
        self._meter.setVisible(total > 0 and self.width() >= px(520))

    def _show_numbers(self) -> None:
        self._label.setText(self._words(self._numbers[0]))

    def _words(self, used: int) -> str:
        is_wide = self.width() >= self._theme.px(600)
        text = tr("Context {used} of {total}") if is_wide else tr("{used} of {total}")
        return text.format(used=count(used), total=count(self._total))

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self.setFixedHeight(px(HEIGHT_PX))
        self.options_button.setFixedHeight(px(33))
        self._row.setContentsMargins(px(16), 0, px(16), 1)
        self._row.setSpacing(px(10))
        self._fit()
