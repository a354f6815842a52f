"""Views of answers that are made before they are wanted.

A card of code with its looks takes as long as a whole picture of a streamed answer, and an engine that uses all
cores feels each picture. So some views wait for the next answer, made while nothing else is to be done. An answer
takes them before its first word: Qt dresses a widget anew that gets another parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QWidget

from app.chat.block_views import ProseView
from app.chat.blocks import BlockKind
from app.chat.code_card import CodeCard
from app.chat.table_view import TableView
from app.theme import Theme

if TYPE_CHECKING:
    from collections.abc import Mapping

View = ProseView | CodeCard | TableView
VIEWS: Mapping[BlockKind, type[ProseView] | type[CodeCard] | type[TableView]] = {
    BlockKind.PROSE: ProseView,
    BlockKind.CODE: CodeCard,
    BlockKind.TABLE: TableView,
}
NUM_AT_REST = 2
"""Of each kind in stock when an answer begins: the most that many answers need."""

_KINDS = (BlockKind.CODE, BlockKind.PROSE)
_BETWEEN_MS = 20  # behind a picture, and far from the next one


class ViewStock(QObject):
    """Hidden views in the look of now: a transcript's, for the next answer, or those of the answer that grows."""

    def __init__(self, theme: Theme, home: QWidget) -> None:
        """``home`` is the parent of all views; they are made while what it stands in is to be seen."""
        super().__init__(home)
        self._theme = theme
        self._home = home
        self._views: dict[BlockKind, list[View]] = {kind: [] for kind in _KINDS}
        self._num_wanted = 0
        self._turns = QTimer(self)
        self._turns.setSingleShot(True)
        self._turns.setInterval(_BETWEEN_MS)
        self._turns.timeout.connect(self._make_one)

    def take(self, kind: BlockKind) -> View | None:
        """A view of that kind, which is the caller's now; None where none is left."""
        views = self._views.get(kind)
        if not views:
            return None
        self._begin()
        return views.pop()

    def take_all(self, other: ViewStock) -> None:
        """Take over what another stock has."""
        for kind, views in other._views.items():
            for view in views:
                view.setParent(self._home)
            self._views[kind] += views
            views.clear()
        other._turns.stop()

    def fill(self, num_wanted: int) -> None:
        """Have at least so many of each kind, made one by one in turns of the event loop, from now on."""
        self._num_wanted = num_wanted
        self._begin()

    def clear(self) -> None:
        """Delete all of them, and make none until ``fill``."""
        self._turns.stop()
        for views in self._views.values():
            for view in views:
                view.deleteLater()
            views.clear()

    @property
    def counts(self) -> dict[BlockKind, int]:
        """How many there are of each kind."""
        return {kind: len(views) for kind, views in self._views.items()}

    def _begin(self) -> None:
        if not self._turns.isActive():
            self._turns.start()

    def _make_one(self) -> None:
        holder = self._home.parentWidget()
        kind = next((kind for kind in _KINDS if len(self._views[kind]) < self._num_wanted), None)
        if kind is None or holder is None or not holder.isVisible():
            return
        view = VIEWS[kind](self._theme, self._home)
        for part in (view, *view.findChildren(QWidget)):
            part.ensurePolished()
        self._views[kind].append(view)
        self._turns.start()


def stock_around(widget: QWidget) -> ViewStock | None:
    """The stock of the transcript that ``widget`` stands in, if any."""
    parent = widget.parentWidget()
    while parent is not None:
        found = getattr(parent, "view_stock", None)
        if isinstance(found, ViewStock):
            return found
        parent = parent.parentWidget()
    return None
