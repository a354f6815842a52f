"""What stands in the transcript's place while there is nothing to read: a first start, a new chat, no model."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import ElidingButton, LookButton
from app.widgets.label import Label

SUGGESTIONS = (
    tr("Explain how a refrigerator works, in three sentences."),
    tr("Write a friendly note that asks a neighbour for quiet after ten."),
    tr("Give me five ideas for a rainy afternoon."),
)

MAX_FITTINGS = 4


class EmptyState(QWidget):
    """A sentence, what it means, and what can be done about it.

    Signals:
        suggestion_chosen(text): put this into the composer.
        open_requested: choose a model file.
        find_requested: look for a model to download.
        anyway_requested: load the model for which there is too little memory.
    """

    suggestion_chosen = Signal(str)
    open_requested = Signal()
    find_requested = Signal()
    anyway_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, can_find: bool = False) -> None:
        """``can_find`` says whether there is a page where models are found."""
        super().__init__(parent)
        self._can_find = can_find
        self._theme = theme
        self._title = Label("", "title")
        self._title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._title.setWordWrap(True)
        self._text = Label("", "help")
        self._text.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._text.setWordWrap(True)
        self._buttons = QVBoxLayout()
        self._column = QVBoxLayout(self)
        self._column.setSizeConstraint(QVBoxLayout.SizeConstraint.SetNoConstraint)  # what has no room is left out
        self._column.addStretch(2)
        self._column.addWidget(self._title)
        self._column.addWidget(self._text)
        self._column.addLayout(self._buttons)
        self._column.addStretch(3)
        self._made: list[LookButton] = []
        self._kind = ""
        self._is_fitting = False
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def show_ready(self, model_name: str) -> None:
        """A model is loaded: invite, with a few things that a small model can really do."""
        self._set(
            tr("What shall we talk about?"),
            tr("{model_name} answers here, on this machine.", model_name=model_name),
            "ready",
        )

    def show_loading(self, model_name: str) -> None:
        """A model is on its way; writing can begin at once."""
        self._set(
            tr("What shall we talk about?"),
            tr("{model_name} is loading. You can write already.", model_name=model_name),
            "ready",
        )

    def show_no_model(self, *, has_models: bool) -> None:
        """Nothing is loaded."""
        if has_models:
            self._set(tr("Choose a model"), tr("Pick one above, and it answers here, on this machine."), "file")
        else:
            self._set(
                tr("No model yet"),
                tr("Fireside talks through a language model. Get one that fits here, or open one you have."),
                "find",
            )

    def show_failed(self, reason: str, *, can_load_anyway: bool = False) -> None:
        """The model could not be loaded; the reason stays in sight."""
        self._set(tr("The model could not be loaded"), reason, "too large" if can_load_anyway else "file")

    def _set(self, title: str, text: str, kind: str) -> None:
        self._title.setText(title)
        self._text.setText(text)
        if self._kind != kind:
            self._kind = kind
            self._make_buttons(kind)
            self._fit_suggestions()

    def _make_buttons(self, kind: str) -> None:
        for button in self._made:
            self._buttons.removeWidget(button)
            button.hide()
            button.deleteLater()
        self._made = []
        if kind in {"file", "find", "too large"}:
            open_file = LookButton(self._theme, tr("Open a model file…"), "" if kind == "find" else "primary")
            open_file.clicked.connect(self.open_requested)
            find = LookButton(self._theme, tr("Find a model"), "primary" if kind == "find" else "")
            find.clicked.connect(self.find_requested)
            buttons = [find, open_file] if kind == "find" else [open_file, find]
            buttons = buttons if self._can_find else [open_file]
            if kind == "too large":
                buttons.append(self._anyway_button())
            self._add(buttons, Qt.AlignmentFlag.AlignHCenter)
        else:
            for suggestion in SUGGESTIONS:
                button = ElidingButton(self._theme, suggestion, "choice")
                button.clicked.connect(lambda _checked=False, text=suggestion: self.suggestion_chosen.emit(text))
                self._add([button], Qt.AlignmentFlag(0))

    def _anyway_button(self) -> LookButton:
        button = LookButton(self._theme, tr("Load anyway"))
        button.setToolTip(tr("The machine may become very slow. Nothing is lost: all you wrote is on the disk."))
        button.clicked.connect(self.anyway_requested)
        return button

    def _add(self, buttons: Sequence[LookButton], alignment: Qt.AlignmentFlag) -> None:
        for button in buttons:
            self._buttons.addWidget(button, 0, alignment)
            self._made.append(button)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_suggestions()

    def hasHeightForWidth(self) -> bool:
        return False  # what stands here gives way to what is written, not the other way round

    def event(self, event: QEvent) -> bool:
        is_done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit_suggestions()  # what stands here has another height: it was dressed only after the last fit
        return is_done

    def _fit_suggestions(self) -> None:
        """Leave out the last suggestions where they have no room, for squeezed they could not be read.

        Showing or hiding one lays out what is around this widget at once, which may give it another height: so it
        is done only where it differs, and what comes of that is looked at afterwards, a few times at most.
        """
        if self._kind != "ready" or self._is_fitting:
            return
        self._is_fitting = True
        try:
            for _ in range(MAX_FITTINGS):
                height = self.height()
                for button, has_room in zip(self._made, self._have_room(height)):
                    if button.isHidden() == has_room:
                        button.setVisible(has_room)
                if self.height() == height:
                    break
        finally:
            self._is_fitting = False

    def _have_room(self, height: int) -> list[bool]:
        """For each suggestion whether it can be read in a state of this height."""
        needed = self._column.totalHeightForWidth(max(self.width(), 1))
        heights = [button.sizeHint().height() + self._buttons.spacing() for button in self._made]
        needed += sum(each for button, each in zip(self._made, heights) if button.isHidden())
        if all(button.isHidden() for button in self._made):  # then the layout leaves out what is around them, too
            needed += self._buttons.contentsMargins().top() + self._column.spacing() - self._buttons.spacing()
        after = [sum(heights[number + 1 :]) for number in range(len(heights))]
        return [needed - rest <= height for rest in after]

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._column.setContentsMargins(px(16), px(16), px(16), px(16))
        self._column.setSpacing(px(8))
        self._buttons.setContentsMargins(0, px(14), 0, 0)
        self._buttons.setSpacing(px(8))
