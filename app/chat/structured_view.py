"""An answer in a given form: its values as a tree, with how sure the model was of each, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from app.chat.blocks import displayable
from app.engine_words import told
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import SegmentedControl, TextButton
from app.widgets.file_dialogs import choose_target
from app.widgets.label import Label, plain_tooltip
from engine.plain_data import dataclass

MAX_ROWS = 300
DOUBTFUL = 0.7
_MAX_VALUE_CHARACTERS = 2000


@dataclass(frozen=True)
class Leaf:
    """One line of the tree.

    Attributes:
        path: JSON pointer.
        value: as shown; None for a group or a list.
    """

    path: str
    name: str
    depth: int
    value: str | None


class StructuredView(QWidget):
    """The tree of an answer and what can be done with it.

    Signals:
        side_chosen(is_tree): the person wants the tree, or the text.
        notice(text): it could not be saved.
    """

    side_chosen = Signal(bool)
    notice = Signal(str)

    def __init__(self, value: Any, verdict: Mapping[str, Any], theme: Theme, parent: QWidget | None = None) -> None:
        """``verdict`` has the fields of ``engine.protocol.StructuredResult``."""
        super().__init__(parent)
        self._value = value
        self._theme = theme
        self._sides = SegmentedControl(theme, tr("Show as"), [("tree", tr("Tree")), ("text", tr("JSON"))])
        self._sides.set_value("tree")
        self._sides.chosen.connect(self._on_side)
        self.verdict = Label(verdict_line(verdict), "help" if verdict.get("is_valid") else "caution")
        self.verdict.setWordWrap(True)
        self._copy = TextButton(theme, tr("Copy JSON"))
        self._copy.clicked.connect(self._on_copy)
        self._save = TextButton(theme, tr("Save JSON"))
        self._save.clicked.connect(self._on_save)
        head = QHBoxLayout()
        head.setSpacing(theme.px(10))
        for widget in (self._sides, self._copy, self._save):
            head.addWidget(widget)
        head.addStretch(1)
        self.tree = QWidget()
        self._fill(verdict)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(theme.px(8))
        column.addLayout(head)
        column.addWidget(self.tree)
        column.addWidget(self.verdict)

    @property
    def json_text(self) -> str:
        """The answer as it is copied and saved."""
        return json.dumps(self._value, indent=2, ensure_ascii=False)

    def _fill(self, verdict: Mapping[str, Any]) -> None:
        px = self._theme.px
        certain = {str(field.get("path")): field for field in verdict.get("fields") or ()}
        grid = QGridLayout(self.tree)
        grid.setContentsMargins(0, px(4), 0, px(4))
        grid.setHorizontalSpacing(px(16))
        grid.setVerticalSpacing(px(5))
        grid.setColumnStretch(1, 1)
        for row, leaf in enumerate(leaves(self._value)):
            name = Label(displayable(leaf.name)[:80], "muted" if leaf.value is not None else "strong")
            name.setContentsMargins(px(16) * leaf.depth, 0, 0, 0)
            grid.addWidget(name, row, 0, Qt.AlignmentFlag.AlignTop)
            if leaf.value is None:
                continue
            value = Label(displayable(leaf.value))
            name.setMinimumHeight(value.sizeHint().height())  # smaller, yet on the value's first line
            value.setWordWrap(True)
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            grid.addWidget(value, row, 1)
            if (field := certain.get(leaf.path)) is not None:
                certainty = self._certainty(field)
                certainty.setMinimumHeight(name.minimumHeight())
                grid.addWidget(certainty, row, 2, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignRight)

    def _certainty(self, field: Mapping[str, Any]) -> Label:
        share = float(field.get("probability") or 0.0)
        label = Label(f"{share:.0%}".replace("%", " %"), "muted" if share >= DOUBTFUL else "caution")
        others = [f"{text}: {p:.0%}" for text, p in field.get("alternatives") or ()]
        label.setToolTip(plain_tooltip("\n".join([tr("How sure the model was"), *others])))
        return label

    def _on_side(self, side: str) -> None:
        self.tree.setVisible(side == "tree")
        self.side_chosen.emit(side == "tree")

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(self.json_text)
        self._copy.setText(tr("Copied"))
        QTimer.singleShot(1200, self._copy, lambda: self._copy.setText(tr("Copy JSON")))

    def _on_save(self) -> None:
        path = choose_target(self, tr("Save JSON"), "answer.json", "JSON (*.json)")
        if path is not None:
            self.save(path)

    def save(self, path: Path) -> None:
        """Write the answer to a file."""
        try:
            path.write_text(self.json_text + "\n", encoding="utf-8")
        except OSError as error:
            self.notice.emit(
                tr("{name} could not be saved: {reason}.", name=path.name, reason=error.strerror or error)
            )


def leaves(value: Any, path: str = "", name: str = "", depth: int = -1) -> Iterator[Leaf]:
    """The lines of a value's tree, at most ``MAX_ROWS`` and one that says how many are left out."""
    lines = _lines(value, path, name, depth)
    for number, leaf in enumerate(lines):
        if number == MAX_ROWS:
            yield Leaf("", "…", 0, tr("{count} more lines; see the JSON.", count=1 + sum(1 for _ in lines)))
            return
        yield leaf


def verdict_line(verdict: Mapping[str, Any]) -> str:
    """What is known about the answer: "Valid. 61 tokens forced by the schema"."""
    if not verdict.get("is_complete"):
        return tr("Incomplete: {message}", message=told(verdict.get("message") or tr("the answer was cut off.")))
    if not verdict.get("is_valid"):
        return tr("Not valid: {message}", message=told(verdict.get("message") or ""))
    forced = int(verdict.get("num_forced_tokens") or 0)
    total = int(verdict.get("num_tokens") or 0)
    words = tr("Valid.")
    if forced and total:
        words += " " + tr("{forced} of {total} tokens were forced by the schema.", forced=forced, total=total)
    checked = verdict.get("checked_afterwards") or ()
    if checked:
        words += " " + tr("Checked afterwards: {what}.", what=", ".join(map(str, checked)))
    return words


def _lines(value: Any, path: str, name: str, depth: int) -> Iterator[Leaf]:
    if isinstance(value, dict | list) and value:
        if depth >= 0:
            yield Leaf(path, name, depth, None)
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            shown = str(key) if isinstance(value, dict) else f"{int(key) + 1}."
            pointer = str(key).replace("~", "~0").replace("/", "~1")
            yield from _lines(inner, f"{path}/{pointer}", shown, depth + 1)
        return
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    yield Leaf(path, name, max(0, depth), text[:_MAX_VALUE_CHARACTERS])
