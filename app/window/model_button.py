"""The model as a button: which one it is and its facts, its load progress, and the choice of another."""

from __future__ import annotations

from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QIcon, QKeyEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QMenu, QPushButton, QSizePolicy, QStyle, QWidget

from app.chat.controller import ChatController
from app.chat.figures import size
from app.theme import Theme, pixmap
from app.translation import tr, trn
from app.widgets.label import plain_tooltip
from engine.protocol import ModelInfo

_MAX_PX = 520


class ModelButton(QPushButton):
    """Opens the picker; fills up while a model loads.

    Attributes:
        can_find: somebody listens to ``find_requested``.

    Signals:
        open_requested: choose a model file.
        find_requested: look for a model on the page of models.
    """

    open_requested = Signal()
    find_requested = Signal()

    def __init__(self, controller: ChatController, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._theme = theme
        self._name = ""
        self._detail = ""
        self._fraction: float | None = None
        self.can_find = False
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.clicked.connect(self.show_menu)
        controller.model_loading.connect(self._on_loading)
        controller.model_loaded.connect(self._on_loaded)
        controller.model_failed.connect(self._on_failed)
        controller.model_ejected.connect(self.refresh)
        controller.models_changed.connect(self._on_models_changed)
        theme.changed.connect(self.updateGeometry)
        self.refresh()

    def refresh(self) -> None:
        """Show what the controller says now."""
        info = self._controller.model_info
        self._fraction = None
        if info is not None:
            self._show(info.name, facts(info))
        elif self._controller.has_models:
            self._show(tr("Choose a model"), tr("none is loaded"))
        else:
            self._show(tr("No model yet"), "")

    def make_menu(self) -> QMenu:
        """The models on this machine, and what can be done with the one that is loaded or on its way."""
        theme, controller = self._theme, self._controller
        menu = QMenu(self)
        info = controller.model_info
        for entry in controller.models:
            is_loaded = info is not None and entry.path == info.path
            icon = theme.icon("check", "accent") if is_loaded else QIcon()
            action = menu.addAction(icon, _menu_text(f"{entry.name}\t{entry.problem or entry.detail}"))
            action.setEnabled(not entry.problem)
            if not is_loaded:
                action.triggered.connect(lambda _checked=False, path=entry.path: controller.load_model(str(path)))
        if controller.models:
            menu.addSeparator()
        menu.addAction(theme.icon("file"), tr("Open a model file…\tCtrl+O")).triggered.connect(self.open_requested)
        if self.can_find:
            menu.addAction(tr("Find a model\tCtrl+Shift+M")).triggered.connect(self.find_requested)
        if info is not None:
            menu.addAction(theme.icon("eject"), _menu_text(tr("Eject {name}", name=info.name))).triggered.connect(
                controller.eject_model
            )
        elif loading := controller.loading_name:
            words = _menu_text(tr("Stop loading {name}", name=loading))
            menu.addAction(theme.icon("eject"), words).triggered.connect(controller.eject_model)
        return menu

    def show_menu(self) -> None:
        """Let the person choose."""
        menu = self.make_menu()
        menu.setMinimumWidth(self.width())
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.mapToGlobal(self.rect().bottomLeft()))

    def sizeHint(self) -> QSize:
        px = self._theme.px
        width = px(13) + self._name_metrics().horizontalAdvance(self._name) + px(10 + 16 + 17)
        if self._detail:
            width += self._detail_metrics().horizontalAdvance(self._detail) + px(10)
        return QSize(min(width, px(_MAX_PX)), px(33))

    def minimumSizeHint(self) -> QSize:
        px = self._theme.px
        name = self._name_metrics().horizontalAdvance(self._name)
        return QSize(px(13 + 10 + 16 + 13) + min(name, px(150)), px(33))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in {Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self.show_menu()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, px = self._theme, self._theme.px
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        shape = QPainterPath()
        shape.addRoundedRect(box, px(8), px(8))
        painter.fillPath(shape, theme.colour("hover" if self.underMouse() else "card"))
        if self._fraction is not None:
            painter.save()
            painter.setClipPath(shape)
            height = max(2, px(3))
            painter.fillRect(QRectF(0, self.height() - height, self.width(), height), theme.colour("track"))
            filled = QRectF(0, self.height() - height, self.width() * self._fraction, height)
            painter.fillRect(filled, theme.colour("accent"))
            painter.restore()
        has_focus = self.hasFocus()
        painter.setPen(QPen(theme.colour("accent" if has_focus else "hairline"), 2 if has_focus else 1))
        painter.drawPath(shape)
        self._paint_text(painter)
        painter.end()

    def _paint_text(self, painter: QPainter) -> None:
        theme, px = self._theme, self._theme.px
        direction, whole = self.layoutDirection(), self.rect()
        leading = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        middle = int(QStyle.visualAlignment(direction, leading))
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)
        right = self.width() - px(13) - px(16)
        names = self._name_metrics()
        left = px(13)
        name = names.elidedText(self._name, Qt.TextElideMode.ElideRight, max(0, right - left - px(10)))
        painter.setFont(theme.font(14, weight=QFont.Weight.DemiBold))
        painter.setPen(theme.colour("text"))
        area = QRect(left, 0, right - left, self.height())
        painter.drawText(QStyle.visualRect(direction, whole, area), middle, name)
        left += names.horizontalAdvance(name) + px(10)
        room = right - left - px(6)
        if self._detail and room > px(40):
            painter.setFont(theme.font(12.5))
            painter.setPen(theme.colour("muted"))
            detail = self._detail_metrics().elidedText(self._detail, Qt.TextElideMode.ElideRight, room)
            area = QRect(left, 0, room, self.height())
            painter.drawText(QStyle.visualRect(direction, whole, area), middle, detail)
        side = px(14)
        arrow = pixmap("chevron-down", theme.palette.muted, side, self.devicePixelRatioF())
        place = QRect(self.width() - px(10) - side, (self.height() - side) // 2, side, side)
        painter.drawPixmap(QStyle.visualRect(direction, whole, place).topLeft(), arrow)

    def _name_metrics(self) -> QFontMetrics:
        return QFontMetrics(self._theme.font(14, weight=QFont.Weight.DemiBold))

    def _detail_metrics(self) -> QFontMetrics:
        return QFontMetrics(self._theme.font(12.5))

    def _show(self, name: str, detail: str) -> None:
        self._name, self._detail = name, detail
        self.setAccessibleName(tr("Model: {name}", name=name) + (f", {detail}" if detail else ""))
        self.setToolTip(plain_tooltip(f"{name} · {detail}" if detail else name))
        self.updateGeometry()
        self.update()

    def _on_loading(self, name: str, fraction: float, message: str) -> None:
        self._fraction = min(max(fraction, 0.0), 1.0)
        self._show(name, f"{message or tr('loading')} {self._fraction:.0%}".replace("%", " %"))

    def _on_loaded(self, _info: ModelInfo) -> None:
        self.refresh()

    def _on_failed(self, _reason: str) -> None:
        self.refresh()

    def _on_models_changed(self) -> None:
        if self._fraction is None:
            self.refresh()


def _menu_text(text: str) -> str:
    return text.replace("&", "&&")  # in a menu a single one marks the next letter


def facts(info: ModelInfo) -> str:
    """Type, size, device and threads: "Q4_1 · 98 MB · CPU, 2 threads"."""
    threads = trn("1 thread", "{count} threads", info.num_threads)
    return f"{info.tensor_type} · {size(info.file_bytes)} · {info.device}, {threads}"
