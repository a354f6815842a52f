"""The table of results: sorted by any column, edited in place, asked about again row by row, copied."""

from __future__ import annotations

from PySide6.QtCore import QItemSelectionModel, QPoint, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QApplication, QFrame, QHeaderView, QMenu, QTableView, QWidget

from app.extraction.table_model import ResultsModel, SortedResults
from app.extraction.workspace import ExtractionWorkspace
from app.theme import Theme
from app.translation import tr, trn

_INPUT_PX = 110  # at least
_WIDEST_PX = 220  # of the others
_FITTED_ROWS = 3


class ResultsTable(QTableView):
    """Shows a workspace's rows and their answers.

    Attributes:
        results: the rows in the order of the input.
        sorted: the rows in the order that is shown.
    """

    def __init__(self, workspace: ExtractionWorkspace, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._theme = theme
        self.results = ResultsModel(workspace, theme)
        self.sorted = SortedResults(self.results)
        self.setObjectName("resultsTable")
        self.setAccessibleName(tr("Results"))
        self.setModel(self.sorted)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setSortingEnabled(True)
        self.sortByColumn(0, Qt.SortOrder.AscendingOrder)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked | QAbstractItemView.EditTrigger.EditKeyPressed
        )
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._show_row_menu)
        self._num_fitted = 0
        workspace.opened.connect(self._on_opened)
        workspace.row_changed.connect(self._on_row)
        theme.changed.connect(self._apply_metrics)
        self._apply_metrics()

    def make_menu(self, rows: list[int]) -> QMenu:
        """What can be done with rows of the table."""
        menu = QMenu(self)
        journal = self._workspace.journal
        known = [row for row in rows if journal is not None and row in journal.results]
        if known:
            menu.addAction(trn("Ask again", "Ask about {count} rows again", len(known))).triggered.connect(
                lambda: self._workspace.retry(known)
            )
        if journal is not None and any(result.error for result in journal.results.values()):
            failed = [row for row, result in journal.results.items() if result.error]
            menu.addAction(tr("Ask about all failed rows again")).triggered.connect(
                lambda: self._workspace.retry(failed)
            )
        if rows:
            menu.addAction(tr("Copy")).triggered.connect(self.copy)
        return menu

    def copy(self) -> None:
        """Put the chosen rows on the clipboard, as a spreadsheet takes them."""
        rows = sorted({index.row() for index in self.selectionModel().selectedIndexes()})
        lines = []
        for row in rows:
            cells = [self.sorted.index(row, column).data() or "" for column in range(self.sorted.columnCount())]
            lines.append("\t".join(" ".join(str(cell).split()) for cell in cells))
        QApplication.clipboard().setText("\n".join(lines))

    def _chosen_rows(self) -> list[int]:
        indexes = self.selectionModel().selectedRows(0)
        return sorted(self.sorted.mapToSource(index).row() for index in indexes)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        else:
            super().keyPressEvent(event)

    def _show_row_menu(self, place: QPoint) -> None:
        index = self.indexAt(place)
        if index.isValid() and not self.selectionModel().isSelected(index):
            flags = QItemSelectionModel.SelectionFlag
            self.selectionModel().select(index, flags.ClearAndSelect | flags.Rows)
        menu = self.make_menu(self._chosen_rows())
        menu.aboutToHide.connect(menu.deleteLater)
        if menu.actions():
            menu.popup(self.viewport().mapToGlobal(place))

    def fit_columns(self) -> None:
        """Give each column the room that its name and the answers in view need; the input has the rest."""
        px = self._theme.px
        header = self.horizontalHeader()
        for column in range(self.results.columnCount()):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Interactive)
            name = self.results.headerData(column, Qt.Orientation.Horizontal) or ""
            needed = max(
                self.fontMetrics().horizontalAdvance(name) + px(26), self.sizeHintForColumn(column) + px(8)
            )
            self.setColumnWidth(column, px(52) if column == 0 else min(max(needed, px(72)), px(_WIDEST_PX)))
        self._share_room()

    def _on_opened(self) -> None:
        journal = self._workspace.journal
        self._num_fitted = len(journal.results) if journal is not None else 0

    def _on_row(self, _row: int) -> None:
        """The first answers show how wide the columns have to be; after them none moves by itself."""
        journal = self._workspace.journal
        if self._num_fitted < _FITTED_ROWS and journal is not None and len(journal.results) > self._num_fitted:
            self._num_fitted = len(journal.results)
            self.fit_columns()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_room()

    def _share_room(self) -> None:
        """Let the column of the input have the room that the others leave."""
        if self.results.columnCount() > 1:
            others = self.horizontalHeader().length() - self.columnWidth(1)
            self.setColumnWidth(1, max(self._theme.px(_INPUT_PX), self.viewport().width() - others))

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self.verticalHeader().setDefaultSectionSize(px(36))
        self.horizontalHeader().setFixedHeight(px(36))
