"""Dialogs in which something is made or asked for, to be used or not; none is larger than its screen."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QPlainTextEdit, QVBoxLayout, QWidget

from app.theme import Theme
from app.translation import tr
from app.widgets.announce import announce
from app.widgets.buttons import LookButton
from app.widgets.label import Label

_MARGIN_PX = 48  # between a dialog and the edges of its screen, for its frame too
_ASK_WIDTH_PX = 440
_LINES_HEIGHT_PX = 320


def size_on_screen(dialog: QWidget, wanted: QSize) -> QSize:
    """``wanted``, or what the dialog's screen has room for."""
    parent = dialog.parentWidget()
    screen = (parent or dialog).screen()
    return wanted.boundedTo(screen.availableGeometry().size() - QSize(_MARGIN_PX, _MARGIN_PX))


class UseDialog(QDialog):
    """Holds what ``content`` is given, above Cancel and Use.

    Attributes:
        content: the layout for it.
        use: takes what was made; the dialog says when it can be.
        buttons: the row at the foot, with room at its left.
    """

    def __init__(
        self,
        title: str,
        width_px: int,
        height_px: int,
        theme: Theme,
        parent: QWidget | None = None,
        *,
        action: str = "",
    ) -> None:
        """The size is in pixels of the design; a height of 0 is the content's. ``action`` stands for "Use"."""
        super().__init__(parent)
        self.setWindowTitle(title)
        self._is_ordered = False
        px = theme.px
        self.use = LookButton(theme, action or tr("Use"), "primary")
        self.use.setDefault(True)
        self.use.clicked.connect(self.accept)
        cancel = LookButton(theme, tr("Cancel"))
        cancel.setAutoDefault(False)  # else it would look like the thing to do while there is nothing to use
        cancel.clicked.connect(self.reject)
        self.buttons = QHBoxLayout()
        self.buttons.setSpacing(px(8))
        self.buttons.addStretch(1)
        self.buttons.addWidget(cancel)
        self.buttons.addWidget(self.use)
        self.content = QVBoxLayout()
        self.content.setSpacing(px(12))
        column = QVBoxLayout(self)
        column.setContentsMargins(px(16), px(16), px(16), px(16))
        column.setSpacing(px(12))
        column.addLayout(self.content, 1)
        column.addLayout(self.buttons)
        self.resize(size_on_screen(self, QSize(px(width_px), px(height_px))))

    def showEvent(self, event: QShowEvent) -> None:
        """The keyboard begins with the content and comes to the buttons at its end."""
        if not self._is_ordered:
            self._is_ordered = True
            self._order_focus()
        super().showEvent(event)

    def _order_focus(self) -> None:
        items = [self.buttons.itemAt(index) for index in range(self.buttons.count())]
        buttons = [widget for item in items if item is not None and (widget := item.widget()) is not None]
        order = [widget for widget in self._focus_chain() if widget not in buttons and widget.focusPolicy()]
        for button in buttons:
            if order:
                QWidget.setTabOrder(order[-1], button)
            order.append(button)
        if self.focusWidget() is None and (first := next(filter(_takes_focus, order), None)) is not None:
            first.setFocus(Qt.FocusReason.OtherFocusReason)

    def _focus_chain(self) -> list[QWidget]:
        """All widgets in the order in which Tab comes to them."""
        chain: list[QWidget] = []
        widget = self.nextInFocusChain()
        while widget is not None and widget is not self:
            chain.append(widget)
            widget = widget.nextInFocusChain()
        return chain


def _takes_focus(widget: QWidget) -> bool:
    return widget.isEnabled() and not widget.isHidden() and bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)


class AskDialog(UseDialog):
    """Asks for a name, a secret or a few lines.

    Attributes:
        field: where it is typed.
    """

    def __init__(
        self,
        theme: Theme,
        title: str,
        words: str,
        parent: QWidget | None = None,
        *,
        action: str = "",
        text: str = "",
        is_secret: bool = False,
        has_lines: bool = False,
        may_be_empty: bool = False,
        check: Callable[[str], str] | None = None,
    ) -> None:
        """``words`` stand above the field, which holds ``text`` at first. What is secret is shown as dots.

        ``check`` gives a sentence about what cannot be used: it is shown, and what was typed stays to be corrected.
        """
        super().__init__(title, _ASK_WIDTH_PX, _LINES_HEIGHT_PX if has_lines else 0, theme, parent, action=action)
        self._may_be_empty = may_be_empty
        self._check = check
        self._fault = Label("", "caution")
        self._fault.setWordWrap(True)
        self._fault.hide()
        label = Label(words, "help")
        label.setWordWrap(True)
        self.field: QLineEdit | QPlainTextEdit
        if has_lines:
            self.field = QPlainTextEdit(text)
            self.field.setProperty("look", "field")
            self.field.setTabChangesFocus(True)
        else:
            self.field = QLineEdit(text)
            self.field.setFixedHeight(theme.px(36))
            self.field.selectAll()
            if is_secret:
                self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.setAccessibleName(words)
        label.setBuddy(self.field)
        self.content.setSpacing(theme.px(8))
        self.content.addWidget(label)
        self.content.addWidget(self.field, 1)
        self.content.addWidget(self._fault)
        self.field.textChanged.connect(self._refresh)
        self._refresh()
        self.field.setFocus()

    @property
    def text(self) -> str:
        """What was typed."""
        return self.field.text() if isinstance(self.field, QLineEdit) else self.field.toPlainText()

    def ask(self) -> str | None:
        """What the person typed; None where they cancelled."""
        is_taken = self.exec() == QDialog.DialogCode.Accepted
        self.deleteLater()
        return self.text if is_taken else None

    def accept(self) -> None:
        fault = self._check(self.text) if self._check is not None else ""
        self._fault.setText(fault)
        self._fault.setVisible(bool(fault))
        if fault:
            announce(self, fault)
            self.field.setFocus()
        else:
            super().accept()

    def _refresh(self) -> None:
        self.use.setEnabled(self._may_be_empty or bool(self.text.strip()))
