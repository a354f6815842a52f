"""The growing table: a row for each input, a column for each field, certainty last. Cells are edited in place."""

from __future__ import annotations

import copy
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QSortFilterProxyModel, Qt
from PySide6.QtGui import QBrush, QFont

from app.engine_words import told
from app.extraction.workspace import ExtractionWorkspace
from app.theme import Theme
from app.translation import tr
from engine.extraction.answers import parse_answer
from engine.extraction.columns import Column, as_cell, columns_of, value_at
from engine.extraction.journal import RowResult

DOUBTFUL = 0.3
"""A row whose least certain value is doubted more than this is marked."""
_Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class ResultsModel(QAbstractTableModel):
    """The results of a workspace."""

    def __init__(self, workspace: ExtractionWorkspace, theme: Theme) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._theme = theme
        self._columns: list[Column] = []
        workspace.opened.connect(self.reload)
        workspace.source_changed.connect(self.reload)
        workspace.row_changed.connect(self._on_row)
        self.reload()

    def reload(self) -> None:
        """Show another journal, or the rows of an input that waits for its start."""
        self.beginResetModel()
        journal = self._workspace.journal
        self._columns = columns_of(journal.task.schema) if journal is not None else []
        self.endResetModel()

    @property
    def columns(self) -> list[str]:
        """The names of the fields' columns."""
        return [column.name for column in self._columns]

    def rowCount(self, parent: _Index = _ROOT) -> int:
        source = self._workspace.source
        return 0 if parent.isValid() or source is None else len(source.rows)

    def columnCount(self, parent: _Index = _ROOT) -> int:
        has_results = self._workspace.journal is not None
        return 0 if parent.isValid() else 2 + (len(self._columns) + 1 if has_results else 0)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if self._holds_numbers(section) else _LEFT
        if orientation is not Qt.Orientation.Horizontal or role != Qt.ItemDataRole.DisplayRole:
            return None
        names = ["#", tr("input"), *self.columns, tr("certainty")]
        return names[section] if section < len(names) else None

    def flags(self, index: _Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        is_field = 2 <= index.column() < 2 + len(self._columns)
        can_edit = is_field and self._result(index.row()) is not None
        return flags | Qt.ItemFlag.ItemIsEditable if can_edit else flags

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = index.row(), index.column()
        result = self._result(row)
        if role in {Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole}:
            return self._text(row, column, result)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._explanation(row, column, result)
        if role == Qt.ItemDataRole.ForegroundRole:
            return self._colour(column, result)
        if role == Qt.ItemDataRole.FontRole and result is not None and result.is_edited and column >= 2:
            font = QFont(self._theme.font())
            font.setItalic(True)
            return font
        if role == Qt.ItemDataRole.TextAlignmentRole and self._is_number(result, column):
            return _RIGHT
        return None

    def setData(self, index: _Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        result = self._result(index.row())
        if role != Qt.ItemDataRole.EditRole or result is None:
            return False
        column = self._columns[index.column() - 2]
        if str(value) == _shown(self._value(result, column)):
            return False
        self._workspace.edit(index.row(), with_value(result.value, column, str(value)))
        return True

    def _result(self, row: int) -> RowResult | None:
        journal = self._workspace.journal
        return journal.results.get(row) if journal is not None else None

    def _text(self, row: int, column: int, result: RowResult | None) -> str:
        source = self._workspace.source
        assert source is not None
        if column == 0:
            return str(row + 1)
        if column == 1:
            journal = self._workspace.journal
            shown = source.rows[row].text(journal.task.columns if journal is not None else ())
            return " ".join(shown[:300].split())
        if result is None:
            is_first = column == 2
            return "…" if is_first and self._workspace.is_asked(row) else ""
        if column == 2 + len(self._columns):
            return (
                ""
                if result.error or not result.has_certainty
                else f"{1 - result.doubt:.0%}".replace("%", " %") + _mark(result)
            )
        if result.error:
            return told(result.error) if column == 2 else ""
        return _shown(self._value(result, self._columns[column - 2]))

    @staticmethod
    def _value(result: RowResult, column: Column) -> Any:
        """What a row has in a column; None where it failed."""
        return None if result.error else value_at(result.value, column)

    def sort_key(self, row: int, column: int) -> tuple[int, float, str]:
        """Rows without a result come last; then by number, others by their text."""
        result = self._result(row)
        if column == 0:
            return 0, row, ""
        if column == 1:
            return 0, 0.0, self._text(row, column, result).casefold()
        if result is None:
            return 3, row, ""
        if column == 2 + len(self._columns):
            return 0 if result.has_certainty else 1, -1.0 if result.error else 1.0 - result.doubt, ""
        value = self._value(result, self._columns[column - 2])
        if isinstance(value, int | float) and not isinstance(value, bool):
            return 0, value, ""
        return (2, row, "") if value is None else (1, 0.0, _shown(value).casefold())

    def _explanation(self, row: int, column: int, result: RowResult | None) -> str | None:
        source = self._workspace.source
        if column == 1 and source is not None:
            return source.rows[row].text()[:2000]
        if result is None:
            return None
        if result.error:
            return told(result.error)
        if column == 2 + len(self._columns) and result.certainty:
            judged = result.judged
            lines = [
                f"{path.removeprefix('/')}: {share * 100:.0f} %"
                if path in judged
                else tr("{name}: a long text, which is not judged", name=path.removeprefix("/"))
                for path, share in result.certainty.items()
            ]
            return "\n".join(lines[:30])
        return None

    def _colour(self, column: int, result: RowResult | None) -> QBrush | None:
        if column < 2 or result is None:
            return QBrush(self._theme.colour("muted"))
        if result.error:
            return QBrush(self._theme.colour("caution"))
        if column == 2 + len(self._columns):
            return QBrush(self._theme.colour("caution" if result.doubt > DOUBTFUL else "good"))
        share = result.judged.get(self._columns[column - 2].pointer)
        is_doubted = share is not None and 1.0 - share > DOUBTFUL and not result.is_edited
        return QBrush(self._theme.colour("caution")) if is_doubted else None

    def _is_number(self, result: RowResult | None, column: int) -> bool:
        if result is None or result.error or not 2 <= column < 2 + len(self._columns):
            return False
        value = self._value(result, self._columns[column - 2])
        return isinstance(value, int | float) and not isinstance(value, bool)

    def _holds_numbers(self, column: int) -> bool:
        """Whether the first answer has a number in a column, so that its name stands above numbers."""
        journal = self._workspace.journal
        results = journal.results.values() if journal is not None else ()
        first = next((result for result in results if not result.error), None)
        return first is not None and column >= 2 and self._is_number(first, column)

    def _on_row(self, row: int) -> None:
        if row < self.rowCount():
            self.dataChanged.emit(self.index(row, 0), self.index(row, self.columnCount() - 1))
            if self._journal_size() == 1:
                self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, self.columnCount() - 1)

    def _journal_size(self) -> int:
        journal = self._workspace.journal
        return len(journal.results) if journal is not None else 0


class SortedResults(QSortFilterProxyModel):
    """The table in the order that the person wants, or only the doubtful rows."""

    def __init__(self, model: ResultsModel) -> None:
        super().__init__(model)
        self.setSourceModel(model)
        self._results = model
        self._keys: dict[int, tuple[int, float, str]] = {}
        self.setDynamicSortFilter(False)  # a table that sorts itself while it grows cannot be read

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        if column == 0 and order is Qt.SortOrder.AscendingOrder:
            super().sort(-1)  # as they come: nothing is compared, however many there are
            return
        self._keys = {row: self._results.sort_key(row, column) for row in range(self._results.rowCount())}
        super().sort(column, order)
        self._keys = {}

    def lessThan(self, left: _Index, right: _Index) -> bool:
        return self._key(left) < self._key(right)

    def _key(self, index: _Index) -> tuple[int, float, str]:
        return self._keys.get(index.row()) or self._results.sort_key(index.row(), index.column())


def with_value(value: Any, column: Column, text: str) -> Any:
    """An answer with another value in a column; the type is the one it had, where the text allows it."""
    if not column.path:
        return _typed(text, value)
    made: dict[str, Any] = copy.deepcopy(value) if isinstance(value, dict) else {}
    place = made
    for key in column.path[:-1]:
        inner = place.get(key)
        place[key] = inner if isinstance(inner, dict) else {}
        place = place[key]
    place[column.path[-1]] = _typed(text, place.get(column.path[-1]))
    return made


def _typed(text: str, before: Any) -> Any:
    if isinstance(before, str) or before is None:
        return text
    if isinstance(before, list) and all(isinstance(item, str) for item in before) and not text.startswith("["):
        return [part.strip() for part in text.split(";") if part.strip()]
    try:
        return parse_answer(text)
    except ValueError:
        return text


def _shown(value: Any) -> str:
    value = as_cell(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _mark(result: RowResult) -> str:
    return " ⚠" if result.doubt > DOUBTFUL else ""
