"""The form of a schema: a row for each field, which unfolds to be edited; groups hold rows of their own."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from app.schema.fields import KIND_WORDS, Field, FieldKind, free_name
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import ChoiceButton, IconButton, LabelledSwitch, LookButton, TextButton
from app.widgets.label import ElidingLabel
from app.widgets.spacing import spaced


class FormView(QWidget):
    """The fields of one object.

    Signals:
        changed(fields: tuple[Field, ...]): the person changed them.
    """

    changed = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._fields: tuple[Field, ...] = ()
        self.rows: list[FieldRow] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._add = TextButton(theme, tr("Add a field"), "attach")
        self._add.clicked.connect(self.add_field)
        foot = spaced(theme, QHBoxLayout(), margins=(4, 6, 0, 0))
        foot.addWidget(self._add)
        foot.addStretch(1)
        self._column.addLayout(foot)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields as they are now."""
        return self._fields

    def show_fields(self, fields: Sequence[Field]) -> None:
        """Show other fields; rows that stay keep their place and stay unfolded."""
        if tuple(fields) == self._fields:
            return
        self._fields = tuple(fields)
        while len(self.rows) > len(self._fields):
            self._drop(self.rows.pop())
        for row, field in zip(self.rows, self._fields, strict=False):
            row.show_field(field)
        for field in self._fields[len(self.rows) :]:
            self._make_row(field)

    def add_field(self) -> None:
        """Put another field at the end, unfolded, ready for its name."""
        field = Field(free_name(self._fields))
        self._fields = (*self._fields, field)
        row = self._make_row(field)
        row.set_open(True)
        row.name.setFocus(Qt.FocusReason.OtherFocusReason)
        row.name.selectAll()
        self.changed.emit(self._fields)

    def _make_row(self, field: Field) -> FieldRow:
        row = FieldRow(field, self._theme)
        self._column.insertWidget(len(self.rows), row)
        self.rows.append(row)
        row.changed.connect(lambda field: self._on_changed(row, field))
        row.removed.connect(lambda: self._on_removed(row))
        row.moved.connect(lambda step: self._on_moved(row, step))
        return row

    def _drop(self, row: FieldRow) -> None:
        self._column.removeWidget(row)
        row.hide()
        row.deleteLater()

    def _on_changed(self, row: FieldRow, field: Field) -> None:
        index = self.rows.index(row)
        self._fields = (*self._fields[:index], field, *self._fields[index + 1 :])
        self.changed.emit(self._fields)

    def _on_removed(self, row: FieldRow) -> None:
        index = self.rows.index(row)
        self._fields = (*self._fields[:index], *self._fields[index + 1 :])
        self._drop(self.rows.pop(index))
        self._add.setFocus(Qt.FocusReason.OtherFocusReason)
        self.changed.emit(self._fields)

    def _on_moved(self, row: FieldRow, step: int) -> None:
        index = self.rows.index(row)
        other = index + step
        if not 0 <= other < len(self.rows):
            return
        fields = list(self._fields)
        fields[index], fields[other] = fields[other], fields[index]
        self.rows[index], self.rows[other] = self.rows[other], self.rows[index]
        self._column.removeWidget(row)
        self._column.insertWidget(other, row)
        self._fields = tuple(fields)
        self.changed.emit(self._fields)


class FieldRow(QFrame):
    """One field: folded its name and what it holds, unfolded everything about it.

    Signals:
        changed(Field), removed(), moved(step: int)
    """

    changed = Signal(object)
    removed = Signal()
    moved = Signal(int)

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "field-row")
        self._theme = theme
        self._field = field
        self._is_showing = False
        self._header = self._make_header()
        self._body = QWidget()
        self.name = QLineEdit()
        self.name.setAccessibleName(tr("Name of the field"))
        self.kind = ChoiceButton(theme, tr("What the field holds"), tuple(KIND_WORDS.items()))
        self.required = LabelledSwitch(theme, tr("Required"))
        self.listed = LabelledSwitch(theme, tr("List"))
        self.listed.setToolTip(tr("Any number of them"))
        self.description = QLineEdit()
        self.description.setPlaceholderText(tr("What the model should know about it"))
        self.description.setAccessibleName(tr("Description of the field"))
        self.choices = QLineEdit()
        self.choices.setPlaceholderText(tr("Values, with commas between them"))
        self.choices.setAccessibleName(tr("Values to choose from"))
        self.inner: FormView | None = None
        self._inside = QVBoxLayout()
        self._lay_out()
        self._wire()
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self.set_open(False)
        self.show_field(field)

    def _make_header(self) -> LookButton:
        header = LookButton(self._theme, "", "row")
        row = spaced(self._theme, QHBoxLayout(header), margins=(10, 0, 10, 0))
        self._title = ElidingLabel()
        self._summary = ElidingLabel("", "muted")
        row.addWidget(self._title, 1)
        row.addWidget(self._summary, 1)
        return header

    def _lay_out(self) -> None:
        first = spaced(self._theme, QHBoxLayout(), spacing=6)
        first.addWidget(self.name, 1)
        first.addWidget(self.kind, 1)
        second = spaced(self._theme, QHBoxLayout(), spacing=10)
        second.addWidget(self.required)
        second.addWidget(self.listed)
        second.addStretch(1)
        for icon, words, act in (
            ("chevron-up", tr("Move the field up"), lambda: self.moved.emit(-1)),
            ("chevron-down", tr("Move the field down"), lambda: self.moved.emit(1)),
            ("trash", tr("Remove the field"), self.removed.emit),
        ):
            button = IconButton(self._theme, icon, words)
            button.clicked.connect(act)
            second.addWidget(button)
        spaced(self._theme, self._inside, spacing=6, margins=(10, 2, 10, 10))
        self._inside.addLayout(first)
        self._inside.addWidget(self.choices)
        self._inside.addWidget(self.description)
        self._inside.addLayout(second)
        self._body.setLayout(self._inside)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._header)
        column.addWidget(self._body)

    def _apply_metrics(self) -> None:
        self._header.setFixedHeight(self._theme.px(36))

    def _wire(self) -> None:
        self._header.clicked.connect(lambda: self.set_open(not self.is_open))
        self.name.textEdited.connect(lambda text: self._change(name=text.strip()))
        self.kind.chosen.connect(lambda kind: self._change(kind=kind))
        self.required.toggled.connect(lambda is_on: self._change(is_required=is_on))
        self.listed.toggled.connect(lambda is_on: self._change(is_list=is_on))
        self.description.textEdited.connect(lambda text: self._change(description=text.strip()))
        self.choices.textEdited.connect(lambda text: self._change(choices=split_choices(text)))

    @property
    def is_open(self) -> bool:
        """It can be edited."""
        return not self._body.isHidden()

    def set_open(self, is_open: bool) -> None:
        """Unfold the row to edit it, or fold it."""
        self._body.setVisible(is_open)
        self._header.setProperty("open", is_open)

    def show_field(self, field: Field) -> None:
        """Show a field; what the person is writing is left as it is."""
        self._field = field
        self._is_showing = True
        if self.name.text().strip() != field.name:
            self.name.setText(field.name)
        self.kind.set_value(field.kind)
        self.required.set_on(field.is_required)
        self.listed.set_on(field.is_list)
        if self.description.text().strip() != field.description:
            self.description.setText(field.description)
        if split_choices(self.choices.text()) != field.choices:
            self.choices.setText(join_choices(field.choices))
        self._is_showing = False
        self._refresh()

    def _change(self, **values: object) -> None:
        if self._is_showing:
            return
        if "kind" in values:
            values["rules"] = ()  # they are about the kind that it was
        self._field = replace(self._field, **values)  # type: ignore[arg-type]
        self._refresh()
        self.changed.emit(self._field)

    def _refresh(self) -> None:
        field = self._field
        self._title.set_whole_text(field.name or "…")
        self._summary.set_whole_text(summary_of(field))
        self._header.setAccessibleName(f"{field.name}: {summary_of(field)}")
        self.choices.setVisible(field.kind is FieldKind.CHOICE)
        if field.kind is FieldKind.OBJECT and self.inner is None:
            self.inner = FormView(self._theme)
            self.inner.changed.connect(lambda fields: self._change(fields=fields))
            holder = spaced(self._theme, QHBoxLayout(), margins=(12, 0, 0, 0))
            holder.addWidget(self.inner)
            self._inside.addLayout(holder)
        if self.inner is not None:
            self.inner.setVisible(field.kind is FieldKind.OBJECT)
            self.inner.show_fields(field.fields)


def split_choices(text: str) -> tuple[str, ...]:
    """The values of "red, green", each once; quotation marks stand around one that holds a comma."""
    parts = next(csv.reader([text], skipinitialspace=True), [])
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def join_choices(choices: Sequence[str]) -> str:
    """The text that ``split_choices`` takes apart."""
    quoted = [
        f'"{choice.replace(chr(34), chr(34) * 2)}"' if set(choice) & {",", '"'} else choice for choice in choices
    ]
    return ", ".join(quoted)


def summary_of(field: Field) -> str:
    """What a field holds, in a few words."""
    if field.kind is FieldKind.CHOICE:
        words = ", ".join(field.choices) or tr("one of …")
    elif field.kind is FieldKind.OBJECT:
        words = ", ".join(inner.name for inner in field.fields) or KIND_WORDS[field.kind].lower()
    else:
        words = KIND_WORDS[field.kind].lower()
    words += _rules_in_words(field.rules)
    if field.is_list:
        bounds = _rules_in_words(field.list_rules).strip()
        words = tr("list: {words}", words=words) + (f" ({bounds})" if bounds else "")
    return words if field.is_required else tr("{words}, optional", words=words)


_SIGNS = {
    **{"minimum": "≥", "maximum": "≤", "exclusiveMinimum": ">", "exclusiveMaximum": "<", "multipleOf": "×"},
    **{"minLength": "≥", "maxLength": "≤", "minItems": "≥", "maxItems": "≤"},
}
_MAX_PATTERN = 24


def _rules_in_words(rules: Sequence[tuple[str, object]]) -> str:
    """ " ≥ 0, ≤ 30", after what they are about."""
    parts = []
    for keyword, value in rules:
        if keyword in _SIGNS:
            parts.append(f"{_SIGNS[keyword]} {value}")
        elif keyword == "pattern":
            text = str(value)
            parts.append(text if len(text) <= _MAX_PATTERN else f"{text[:_MAX_PATTERN]}…")
    return f" {', '.join(parts)}" if parts else ""
