"""The text of one answer: a column of prose, code cards and tables that grows while it streams."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from app.chat.block_views import ProseView
from app.chat.blocks import Block, BlockKind, BlockStream, as_prose
from app.chat.code_card import CodeCard
from app.chat.table_view import TableView
from app.chat.text_view import TextView
from app.chat.view_stock import NUM_AT_REST, VIEWS, View, ViewStock, stock_around
from app.theme import Theme
from app.widgets.growing_column import GrowingColumn

_MAX_BLOCKS_PER_VIEW = 60
"""A longer run of prose goes on in another document, so that laying it out stays cheap."""

_MAX_CARDS = 150
"""Code blocks and tables of one answer; a model that repeats itself writes thousands."""


class AnswerBody(GrowingColumn):
    """Shows Markdown that is pushed piece by piece. Finished blocks are never touched again.

    Attributes:
        has_caret: it shows where it grows; False where all of the text is known and only comes in pieces.

    Signals:
        notice(text): a code block could not be saved.
    """

    notice = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme.px(11), parent)
        self._theme = theme
        self._stream = BlockStream()
        self._views: list[View] = []
        self._first_open = 0  # index of the first view that may still change
        self._is_streaming = self._is_finished = False
        self._ground = "background"
        self.has_caret = True
        self._caret_view: ProseView | CodeCard | None = None  # the one that shows it
        self._stock: ViewStock | None = None  # of views that were made ahead, while this one grows

    def set_opaque(self, is_opaque: bool) -> None:
        """Whether the texts paint the transcript's ground behind them; else what is behind them shows through."""
        self._ground = "background" if is_opaque else ""
        for view in self._views:
            if not isinstance(view, CodeCard):
                view.set_ground(self._ground)

    def push(self, text: str) -> bool:
        """Add a piece of the answer; True where that may need another height."""
        if not self._is_streaming:
            self._is_streaming = True
            if self.has_caret:
                self._own_stock().fill(1)
        update = self._stream.push(text)
        block = update.open[0] if len(update.open) == 1 and not update.finished else None
        view = self._grow(block) if block is not None else None
        if view is None:
            self._show(update.finished, update.open)
        return self.remeasure(view) if view is not None else True

    def _own_stock(self) -> ViewStock:
        """Views that were made ahead, the transcript's among them."""
        if self._stock is None:
            self._stock = ViewStock(self._theme, self)
            if (stock := stock_around(self)) is not None:
                self._stock.take_all(stock)
        return self._stock

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.has_caret and not self._is_finished:
            self._own_stock()  # before the first words come

    def finish(self) -> None:
        """The answer ended; nothing moves but the caret."""
        self._is_streaming = False
        self._is_finished = True
        self._num_telling = 0
        if self._stock is not None:
            self._stock.clear()
            self._stock.deleteLater()
            self._stock = None
            if (stock := stock_around(self)) is not None:
                stock.fill(NUM_AT_REST)
        update = self._stream.finish()
        if update.finished:
            self._show(update.finished, ())
        self._place_caret()

    def let_go(self, num_views: int) -> bool:
        """Delete so many of the last views; True while there are more. Nothing is shown from here on."""
        for view in self._views[-num_views:]:
            self.remove(view)
            view.deleteLater()
        del self._views[-num_views:]
        return bool(self._views)

    @property
    def views(self) -> tuple[View, ...]:
        """The block views from top to bottom."""
        return tuple(self._views)

    @property
    def texts(self) -> list[TextView]:
        """The texts to select in, from top to bottom."""
        return [view.text_view if isinstance(view, CodeCard) else view for view in self._views]

    def _grow(self, block: Block) -> ProseView | CodeCard | None:
        """Where the last block only got longer, write what was added; None where it has to be written anew."""
        view = self._views[-1] if self._views else None
        if not block.added or not isinstance(view, VIEWS[block.kind]) or isinstance(view, TableView):
            return None
        view.add_text(block.added)
        return view

    def _show(self, finished: Sequence[Block], open_blocks: Sequence[Block]) -> None:
        """Lay the blocks over the views from the first open one on: a view that fits is used again."""
        self.forget(self._first_open)
        position = self._first_open
        first_open: int | None = None
        num_cards = sum(not isinstance(view, ProseView) for view in self._views[:position])
        blocks = [(block, True) for block in finished] + [(block, False) for block in open_blocks]
        for run in _runs(_few_cards(blocks, num_cards)):
            position = self._show_run(run, position)
            if first_open is None and not all(is_finished for _, is_finished in run):
                first_open = position - 1
        if position < len(self._views) and self._has_frozen(position):
            position = self._close_prose(position)
        for view in self._views[position:]:
            if view is self._caret_view:
                self._caret_view = None
            if isinstance(view, TableView):
                view.follow(None)
            self.remove(view)
            view.hide()
            view.deleteLater()
        del self._views[position:]
        if first_open is None:
            can_continue = bool(self._views) and isinstance(self._views[-1], ProseView)
            first_open = len(self._views) - 1 if can_continue else len(self._views)
        self._first_open = first_open
        self._num_telling = first_open if self._is_streaming else 0  # of many cards each would be asked again
        self._place_caret()
        self.updateGeometry()

    def _show_run(self, run: _Run, position: int) -> int:
        """Show a run at ``position``; gives the position after it."""
        kind = run[0][0].kind
        is_full = kind is BlockKind.PROSE and self._num_frozen(position) >= _MAX_BLOCKS_PER_VIEW
        if self._has_frozen(position) and (kind is not BlockKind.PROSE or is_full):
            position = self._close_prose(position)
        view = self._views[position] if position < len(self._views) else None
        if not isinstance(view, VIEWS[kind]):
            made = self._stock.take(kind) if self._stock is not None else None
            view = self._insert(made or VIEWS[kind](self._theme, self), position)
        if isinstance(view, ProseView):
            view.update_blocks([block for block, done in run if done], [block for block, done in run if not done])
        elif isinstance(view, TableView):
            self._show_table(view, run[0][0], position)
        else:
            view.set_block(run[0][0])
        return position + 1

    def _show_table(self, view: TableView, block: Block, position: int) -> None:
        """Show a table, or a part of one right below the part before it, with its columns and no other head."""
        before = self._views[position - 1] if block.continues and position else None
        if view.follow(before if isinstance(before, TableView) else None):
            self.join(position, is_joined=view.is_following)
            self.forget(max(0, position - 1))
        view.set_block(block)

    def _insert(self, view: View, position: int) -> View:
        if isinstance(view, CodeCard):
            view.notice.connect(self.notice)
        else:
            view.set_ground(self._ground)
        self._views.insert(position, view)
        self.insert(position, view)
        return view

    def _num_frozen(self, position: int) -> int:
        view = self._views[position] if position < len(self._views) else None
        return view.num_frozen_blocks if isinstance(view, ProseView) else 0

    def _has_frozen(self, position: int) -> bool:
        return self._num_frozen(position) > 0

    def _close_prose(self, position: int) -> int:
        """Take the open end off a view whose finished blocks stay."""
        view = self._views[position]
        assert isinstance(view, ProseView)
        view.update_blocks((), ())
        return position + 1

    def _place_caret(self) -> None:
        last = self._views[-1] if self._views and self.has_caret and self._is_streaming else None
        view = None if isinstance(last, TableView) else last
        if view is not self._caret_view:
            if self._caret_view is not None:
                self._caret_view.set_caret(False)
            if view is not None:
                view.set_caret(True)
            self._caret_view = view


_Run = list[tuple[Block, bool]]


def _few_cards(blocks: _Run, num_cards: int) -> _Run:
    """``blocks`` with those as prose for which there are too many cards already: each is a dozen widgets."""
    fewer: _Run = []
    for block, is_finished in blocks:
        if block.kind is not BlockKind.PROSE:
            num_cards += 1
        fewer.append((as_prose(block) if num_cards > _MAX_CARDS else block, is_finished))
    return fewer


def _runs(blocks: _Run) -> list[_Run]:
    """Neighbouring prose together, every card alone; with each block whether it is finished."""
    runs: list[_Run] = []
    for block, is_finished in blocks:
        if runs and block.kind is BlockKind.PROSE and runs[-1][0][0].kind is BlockKind.PROSE:
            runs[-1].append((block, is_finished))
        else:
            runs.append([(block, is_finished)])
    return runs
