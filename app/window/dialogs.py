"""Two small dialogs: the keyboard shortcuts, and what this program is."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QDialog, QFrame, QGridLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.theme import Theme
from app.theme.icons import ICONS
from app.translation import tr
from app.widgets.buttons import LookButton
from app.widgets.label import Label, WrappingLabel
from app.widgets.use_dialog import size_on_screen

ShortcutGroup = tuple[str, Sequence[tuple[str, str]]]
"""A heading, and below it pairs of keys and what they do."""

_WRITING: ShortcutGroup = (
    tr("Writing"),
    (
        (tr("Enter"), tr("Send the message")),
        (tr("Shift+Enter"), tr("Break the line")),
        (tr("Esc"), tr("Stop the answer, leave a field or a page")),
    ),
)


def show_shortcuts(parent: QWidget, theme: Theme, groups: Sequence[ShortcutGroup]) -> QDialog:
    """All shortcuts below the names of their menus, in two columns where the screen has room; Escape closes it."""
    dialog, column = _dialog(parent, theme, tr("Keyboard shortcuts"))
    scroll = QScrollArea()
    scroll.setAccessibleName(tr("Keyboard shortcuts"))
    scroll.setProperty("look", "plain")
    scroll.setFrameShape(QFrame.Shape.NoFrame)
    scroll.setWidgetResizable(True)
    scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    column.insertWidget(1, scroll, 1)
    margins = column.contentsMargins()
    around = QSize(
        margins.left() + margins.right() + theme.px(12), dialog.sizeHint().height() - scroll.sizeHint().height()
    )
    groups = (_WRITING, *groups)
    sheet = _sheet(theme, groups, 2)
    wanted = sheet.sizeHint() + around
    if size_on_screen(dialog, wanted).width() < wanted.width():
        wanted = _sheet(theme, groups, 1).sizeHint() + around
        sheet = _sheet(theme, groups, 1, wraps=True)
    scroll.setWidget(sheet)
    dialog.resize(size_on_screen(dialog, wanted))
    dialog.open()
    return dialog


def show_about(parent: QWidget, theme: Theme) -> QDialog:
    """What this program is, in three lines."""
    dialog, column = _dialog(parent, theme, tr("About Fireside"), head="Fireside")
    px = theme.px
    picture = Label()
    picture.setPixmap(QIcon(str(ICONS / "fireside.svg")).pixmap(QSize(px(56), px(56)), parent.devicePixelRatio()))
    picture.setAccessibleName("Fireside")
    text = Label(
        tr(
            "Version {version}\n\nChats with language models that run on this machine, with an engine of its own. "
            "Nothing you write leaves it.\n\nLicensed under Apache-2.0.",
            version=_version(),
        )
    )
    text.setWordWrap(True)
    text.setMinimumWidth(size_on_screen(dialog, QSize(px(560), 0)).width() - px(140))
    row = QHBoxLayout()
    row.setSpacing(px(18))
    row.addWidget(picture, 0, Qt.AlignmentFlag.AlignTop)
    row.addWidget(text, 1)
    column.insertLayout(1, row)
    dialog.open()
    return dialog


def _sheet(theme: Theme, groups: Sequence[ShortcutGroup], num_columns: int, *, wraps: bool = False) -> QWidget:
    """The groups one below the other, in columns about as long as each other."""
    sheet = QWidget()
    columns = QHBoxLayout(sheet)
    columns.setContentsMargins(0, 0, theme.px(12), 0)
    columns.setSpacing(theme.px(48))
    num_rows = sum(len(rows) + 2 for _, rows in groups)
    begun = 0
    column = _group_column(theme, columns)
    for heading, rows in groups:
        middle = begun + (len(rows) + 2) / 2
        if columns.count() < num_columns and middle > num_rows / num_columns:
            column = _group_column(theme, columns)
        column.insertWidget(column.count() - 1, _group(theme, heading, rows, wraps=wraps))
        begun += len(rows) + 2
    return sheet


def _group_column(theme: Theme, columns: QHBoxLayout) -> QVBoxLayout:
    column = QVBoxLayout()
    column.setSpacing(theme.px(18))
    column.addStretch(1)
    columns.addLayout(column, 1)
    return column


def _group(theme: Theme, heading: str, rows: Sequence[tuple[str, str]], *, wraps: bool) -> QWidget:
    group = QWidget()
    grid = QGridLayout(group)
    grid.setContentsMargins(0, 0, 0, 0)
    grid.setHorizontalSpacing(theme.px(28))
    grid.setVerticalSpacing(theme.px(6))
    grid.setColumnStretch(0, 1)
    grid.addWidget(Label(heading, "heading"), 0, 0, 1, 2)
    for row, (keys, name) in enumerate(rows, start=1):
        grid.addWidget(WrappingLabel(name) if wraps else Label(name), row, 0)
        grid.addWidget(Label(keys, "muted"), row, 1, Qt.AlignmentFlag.AlignRight)
    return group


def _dialog(parent: QWidget, theme: Theme, title: str, *, head: str = "") -> tuple[QDialog, QVBoxLayout]:
    """A dialog with a heading and Close; what belongs between them is inserted at 1 in its layout."""
    dialog = QDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(title)
    column = QVBoxLayout(dialog)
    column.setContentsMargins(theme.px(24), theme.px(20), theme.px(24), theme.px(16))
    column.setSpacing(theme.px(14))
    close = LookButton(theme, tr("Close"))
    close.setDefault(True)
    close.clicked.connect(dialog.reject)
    column.addWidget(Label(head or title, "section"))
    column.addWidget(close, 0, Qt.AlignmentFlag.AlignRight)
    return dialog, column


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("fireside")
    except PackageNotFoundError:
        return tr("from a checkout")
