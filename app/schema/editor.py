"""The schema editor: form and JSON of one schema, side by side where there is room, checked while typing."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QMenu,
    QPlainTextEdit,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.engine_words import told
from app.schema.checking import SchemaChecker, SchemaVerdict
from app.schema.fields import Form, NotAFormError, form_of, schema_of, unnamed
from app.schema.form_view import FormView
from app.schema.inference import NoExampleError, form_from_example, form_from_table
from app.schema.library import SavedSchema, SchemaFileError, SchemaLibrary, read_schema_file
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LabelledSwitch, MenuButton, SegmentedControl
from app.widgets.file_dialogs import choose_file
from app.widgets.flow_layout import FlowLayout
from app.widgets.label import Label
from app.widgets.spacing import spaced
from app.widgets.use_dialog import AskDialog
from engine.errors import InputError
from engine.extraction.texts import decoded, read_regular
from engine.json_text import RepeatedKeyError, parse_json

CHECK_AFTER_MS = 300
_WIDE_PX = 640
_MAX_TABLE_BYTES = 1_000_000  # of a table that a schema is made from


class SchemaEditor(QWidget):
    """One schema to edit.

    Attributes:
        form: its fields.
        edit: its text.

    Signals:
        changed(text): the schema is another one now; ``verdict`` says whether it can be used.
        notice(text): a file could not be used.
        undo_offered(text, undo): what was here or on the disk is gone, with the way back.
    """

    changed = Signal(str)
    notice = Signal(str)
    undo_offered = Signal(str, object)

    def __init__(self, library: SchemaLibrary, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._theme = theme
        self._form = Form()
        self._is_showing = False
        self._is_wide: bool | None = None
        self._shows_text = False
        self.verdict = SchemaVerdict()
        self._checker = SchemaChecker(self._take_verdict, self)
        self._open = MenuButton(theme, tr("Schemas"))
        self._open.clicked.connect(self._show_menu)
        self._sides = SegmentedControl(theme, tr("Edit as"), [("form", tr("Form")), ("text", tr("JSON"))])
        self._sides.set_value("form")
        self._sides.chosen.connect(self._choose_side)
        self.form = FormView(theme)
        self.form.changed.connect(self._on_form)
        self._no_form = Label("", "help")
        self._no_form.setWordWrap(True)
        self.edit = QPlainTextEdit()
        self.edit.setProperty("look", "field")
        self.edit.setAccessibleName(tr("Schema as JSON"))
        self.edit.setTabChangesFocus(True)
        self.edit.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.edit.textChanged.connect(self._on_text)
        self.afterwards = LabelledSwitch(theme, tr("Check these when the answer is there"))
        self.afterwards.toggled.connect(lambda _: self._say())
        self._faults = Label("", "caution")
        self._faults.setWordWrap(True)
        self._faults.setAccessibleName(tr("What is wrong with the schema"))
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(CHECK_AFTER_MS)
        self._timer.timeout.connect(self._check)
        self._lay_out()
        theme.changed.connect(self._apply_metrics)
        self._apply_metrics()
        self._fit()
        self._check()

    # ------------------------------------------------------------------------------------------ what it holds

    @property
    def text(self) -> str:
        """The schema as it is written."""
        return self.edit.toPlainText()

    @property
    def name(self) -> str:
        """What the schema calls itself; "" when it does not."""
        return self._form.title

    @property
    def is_usable(self) -> bool:
        """Answers can be asked for in this form."""
        return self.verdict.is_usable(checks_afterwards=self.checks_afterwards)

    @property
    def checks_afterwards(self) -> bool:
        """The person agrees that some of it is checked when the answer is there."""
        return self.afterwards.is_on and self.verdict.can_check_afterwards

    def show_schema(self, text: str) -> None:
        """Show another schema, and say so when it has been checked."""
        if text != self.text:
            self._is_showing = True
            self.edit.setPlainText(text)
            self._is_showing = False
        self._read_form()
        self._check()

    # ------------------------------------------------------------------------------------------ menu

    def make_menu(self) -> QMenu:
        """The person's schemas, the gallery, and the ways to a new one."""
        menu = QMenu(self)
        own = self._library.own()
        for saved in own:
            self._add_schema(menu, saved)
        if own:
            menu.addSeparator()
        gallery = menu.addMenu(tr("Gallery"))
        for saved in self._library.gallery():
            self._add_schema(gallery, saved)
        menu.addAction(tr("Empty")).triggered.connect(lambda: self._replace(_written(Form())))
        menu.addSeparator()
        menu.addAction(tr("From an example answer…")).triggered.connect(self._from_example)
        menu.addAction(tr("From a table's header…")).triggered.connect(self._from_table)
        menu.addAction(tr("From a JSON Schema file…")).triggered.connect(self._from_file)
        menu.addSeparator()
        menu.addAction(tr("Save this schema…")).triggered.connect(self._save)
        if own:
            delete = menu.addMenu(tr("Delete"))
            for saved in own:
                action = delete.addAction(saved.name.replace("&", "&&"))
                action.triggered.connect(partial(self._delete, saved))
        return menu

    def _add_schema(self, menu: QMenu, saved: SavedSchema) -> None:
        action = menu.addAction(saved.name.replace("&", "&&"))
        action.triggered.connect(lambda: self._replace(saved.text))

    def _replace(self, text: str) -> None:
        """Show another schema in place of one that may lie nowhere else."""
        old = self.text
        self.show_schema(text)
        if old.strip() and old != text and not self._library.holds(old):
            self.undo_offered.emit(tr("The schema was replaced."), lambda: self.show_schema(old))

    def _show_menu(self) -> None:
        menu = self.make_menu()
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._open.mapToGlobal(self._open.rect().bottomLeft()))

    def _from_example(self) -> None:
        title, words = tr("From an example"), tr("An answer as you want it, in JSON")
        text = AskDialog(self._theme, title, words, self, has_lines=True, check=_fault_of_example).ask()
        if text is not None:
            self.take_example(text)

    def take_example(self, text: str) -> None:
        """Make the schema of an example answer in JSON."""
        try:
            self._replace(_written(form_from_example(text)))
        except NoExampleError as error:
            self.notice.emit(str(error))

    def _from_table(self) -> None:
        path = choose_file(self, tr("From a table"), tr("Tables (*.csv *.tsv *.txt);;All files (*)"))
        if path is not None:
            self.take_table(path)

    def take_table(self, path: Path) -> None:
        """Make the schema of a table with a header."""
        try:
            data = read_regular(path, _MAX_TABLE_BYTES, is_start_enough=True)
            if len(data) == _MAX_TABLE_BYTES:
                data = data.rpartition(b"\n")[0]  # whole lines
            self._replace(_written(form_from_table(decoded(data, path.name))))
        except NoExampleError as error:
            self.notice.emit(str(error))
        except InputError as error:
            self.notice.emit(told(error))

    def _from_file(self) -> None:
        path = choose_file(self, tr("From a file"), tr("JSON Schemas (*.json);;All files (*)"))
        if path is not None:
            self.take_file(path)

    def take_file(self, path: Path) -> None:
        """Show the schema of a file."""
        try:
            self._replace(_indented(read_schema_file(path)))
        except SchemaFileError as error:
            self.notice.emit(str(error))

    def _save(self) -> None:
        words, save = tr("Name of the schema"), tr("Save")
        ask = AskDialog(self._theme, tr("Save the schema"), words, self, action=save, text=self._form.title)
        name = ask.ask()
        if name is not None:
            self._try(lambda: self._keep(name))

    def _keep(self, name: str) -> None:
        text = self.text
        old = self._library.find(name)
        self._library.save(name, text)
        if old is not None and old.text != text:
            self._offer_back(tr("The schema {name} was replaced.", name=old.name), old)

    def _delete(self, saved: SavedSchema, _checked: bool = False) -> None:
        def delete() -> None:
            self._library.delete(saved.name)
            self._offer_back(tr("The schema {name} was deleted.", name=saved.name), saved)

        self._try(delete)

    def _offer_back(self, text: str, old: SavedSchema) -> None:
        self.undo_offered.emit(text, lambda: self._try(lambda: self._library.save(old.name, old.text)))

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except SchemaFileError as error:
            self.notice.emit(str(error))

    # ------------------------------------------------------------------------------------------ keeping in step

    def _on_form(self, fields: object) -> None:
        self._form = Form(tuple(fields), self._form.title, self._form.description)  # type: ignore[arg-type]
        self._is_showing = True
        self.edit.setPlainText(_written(self._form))
        self._is_showing = False
        self._timer.start()

    def _on_text(self) -> None:
        if not self._is_showing:
            self._read_form()
            self._timer.start()

    def _read_form(self) -> None:
        """Show the text as a form, if it has one."""
        try:
            form = form_of(parse_json(self.text)) if self.text.strip() else Form()
        except RepeatedKeyError as error:  # a form would keep one of both
            self._no_form.setText(
                tr("The text has the key “{key}” twice in one object; remove one of them.", key=error.key)
            )
        except (ValueError, RecursionError):
            self._no_form.setText(tr("The text is no JSON yet."))
        except NotAFormError as error:
            self._no_form.setText(str(error))
            self.form.hide()
        else:
            self.form.show()
            self._form = form
            self._no_form.setText("")
            self.form.show_fields(form.fields)
        has_form = not self._no_form.text()
        self.form.setEnabled(has_form)
        self._no_form.setVisible(not has_form)

    def _check(self) -> None:
        self._timer.stop()
        problem = unnamed(self._form.fields) if not self._no_form.text() else ""
        if problem:
            self._checker.forget()
            self._take_verdict(SchemaVerdict((problem,)))
        else:
            self._checker.check(self.text)

    def _take_verdict(self, verdict: SchemaVerdict) -> None:
        self.verdict = verdict
        self._say()

    def _say(self) -> None:
        shows = self.verdict.faults or self.verdict.notices
        self._faults.setText("\n".join(shows))
        look = "caution" if self.verdict.faults and self.text.strip() else "help"  # an empty one is a beginning
        if self._faults.property("look") != look:
            self._faults.setProperty("look", look)
            self._faults.style().unpolish(self._faults)
            self._faults.style().polish(self._faults)
        self._faults.setVisible(bool(shows))
        self.afterwards.setVisible(self.verdict.can_check_afterwards)
        self.changed.emit(self.text)

    # ------------------------------------------------------------------------------------------ looks

    def _lay_out(self) -> None:
        # In rows: long words at a large text size have no room side by side.
        head = spaced(self._theme, FlowLayout(0), spacing=8)
        head.addWidget(self._open)
        head.addWidget(self._sides)
        holder = QWidget()
        inner = QVBoxLayout(holder)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.addWidget(self._no_form)
        inner.addWidget(self.form)
        inner.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setProperty("look", "plain")
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setAccessibleName(tr("Fields of the schema"))
        self._scroll.setWidget(holder)
        self._both = QHBoxLayout()
        self._both.addWidget(self._scroll, 1)
        self._both.addWidget(self.edit, 1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(head)
        self._column.addLayout(self._both, 1)
        self._column.addWidget(self._faults)
        self._column.addWidget(self.afterwards)
        self._faults.hide()
        self.afterwards.hide()
        self._no_form.hide()

    def _choose_side(self, side: str) -> None:
        self._shows_text = side == "text"
        self._sides.set_value(side)
        self._is_wide = None
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        is_wide = self.width() >= self._theme.px(_WIDE_PX)
        if is_wide != self._is_wide:
            self._is_wide = is_wide
            self._sides.setVisible(not is_wide)
            self._scroll.setVisible(is_wide or not self._shows_text)
            self.edit.setVisible(is_wide or self._shows_text)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._column.setSpacing(px(8))
        self._both.setSpacing(px(12))
        self.edit.setFont(self._theme.mono_font())


def _fault_of_example(text: str) -> str:
    try:
        form_from_example(text)
    except NoExampleError as error:
        return str(error)
    return ""


def _written(form: Form) -> str:
    return json.dumps(schema_of(form), indent=2, ensure_ascii=False)


def _indented(text: str) -> str:
    """A schema that a program wrote into one line, for people."""
    is_one_line = "\n" not in text.strip()
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False) if is_one_line else text
