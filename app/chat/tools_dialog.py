"""The functions that the model of a chat may call, as a JSON list that is checked while it is typed."""

from __future__ import annotations

from PySide6.QtWidgets import QPlainTextEdit, QWidget

from app.engine_words import told
from app.theme import Theme
from app.translation import tr, trn
from app.widgets.buttons import LookButton
from app.widgets.label import Label
from app.widgets.use_dialog import UseDialog
from engine.errors import InputError
from engine.tools import parse_tools

EXAMPLE = """[
  {
    "name": "get_weather",
    "description": "The weather of a place today.",
    "parameters": {
      "type": "object",
      "properties": {"place": {"type": "string"}},
      "required": ["place"]
    }
  }
]"""


class ToolsDialog(UseDialog):
    """Lets the person list functions.

    Attributes:
        edit: the list as text; empty for none.
    """

    def __init__(self, text: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(tr("Functions that the model may call"), 620, 460, theme, parent)
        help_text = Label(
            tr(
                "A JSON list, each with a name, a description and a JSON Schema of its parameters. Fireside runs "
                "none of them: when the model calls one, you type what it gives, and the model goes on."
            ),
            "help",
        )
        help_text.setWordWrap(True)
        self.edit = QPlainTextEdit()
        self.edit.setProperty("look", "field")
        self.edit.setFont(theme.mono_font())
        self.edit.setAccessibleName(tr("Functions as JSON"))
        self.edit.setTabChangesFocus(True)
        self.edit.setPlaceholderText(EXAMPLE)
        self.edit.setPlainText(text)
        self.verdict = Label("", "muted")
        self.verdict.setWordWrap(True)
        example = LookButton(theme, tr("Insert an example"))
        example.clicked.connect(lambda: self.edit.setPlainText(EXAMPLE))
        self.buttons.insertWidget(0, example)
        self.content.addWidget(help_text)
        self.content.addWidget(self.edit, 1)
        self.content.addWidget(self.verdict)
        self.edit.textChanged.connect(self._check)
        self._check()

    @property
    def text(self) -> str:
        """The list; "" for none."""
        return self.edit.toPlainText().strip()

    def _check(self) -> None:
        problem = ""
        try:
            words = summary(self.text)
        except InputError as error:
            problem = words = told(error)
        self.verdict.setText(words)
        self.verdict.setProperty("look", "caution" if problem else "muted")
        self.verdict.style().unpolish(self.verdict)
        self.verdict.style().polish(self.verdict)
        self.use.setEnabled(not problem)


def summary(text: str) -> str:
    """How many functions a list offers, and which; raises InputError for one that cannot be used."""
    tools = parse_tools(text) if text.strip() else ()
    if not tools:
        return tr("None")
    names = ", ".join(tool.name for tool in tools)
    return trn("1 function: {names}", "{count} functions: {names}", len(tools), names=names)
