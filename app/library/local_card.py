"""The models that are here already, whoever put them there: one row each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QMenu, QVBoxLayout, QWidget

from app.engine_words import told
from app.library.model_figures import ModelFigures
from app.library.words import word
from app.sizes import size_text
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import IconButton, LookButton
from app.widgets.card_head import CardHead
from app.widgets.label import ElidingLabel, Label, WrappingLabel, plain_tooltip
from engine.library import FileState, FoundModel, Origin, repair_of

_ROW_PX, _NARROW_PX, _STACKED_PX = 34, 760, 560


class LocalCard(QFrame):
    """What lies on this machine.

    Signals:
        chat_requested(path): load it and talk.
        repair_requested(model): do what helps it.
        verify_requested(model), show_requested(model), delete_requested(model): from a row's menu.
        import_requested, folder_requested: add a file, or a folder to be looked through.
        folder_removed(path): look through this folder no more.
    """

    chat_requested = Signal(object)
    repair_requested = Signal(object)
    verify_requested = Signal(object)
    show_requested = Signal(object)
    delete_requested = Signal(object)
    import_requested = Signal()
    folder_requested = Signal()
    folder_removed = Signal(object)

    def __init__(self, theme: Theme, figures: ModelFigures, parent: QWidget | None = None) -> None:
        """``figures`` tell a model's speed and memory here."""
        super().__init__(parent)
        self.setProperty("look", "card")
        self._theme = theme
        self._figures = figures
        self._models: list[FoundModel] = []
        self._loaded = ""
        self._folders: Mapping[Path, bool] = {}
        self._import = LookButton(theme, tr("Add a file…"))
        self._import.clicked.connect(self.import_requested)
        self._folder = LookButton(theme, tr("Add a folder…"))
        self._folder.clicked.connect(self.folder_requested)
        self._empty = WrappingLabel(tr("No model lies on this machine yet."), "help")
        self._rows = QWidget()
        QGridLayout(self._rows)
        self._column = QVBoxLayout(self)
        self._column.addWidget(CardHead(theme, Label(tr("Already here"), "section"), (self._import, self._folder)))
        self._column.addWidget(self._empty)
        self._column.addWidget(self._rows)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def show_models(self, models: list[FoundModel], loaded: str, folders: Mapping[Path, bool]) -> None:
        """Show these models.

        Args:
            loaded: path of the one in memory, or "".
            folders: the person's own, each with whether it is there.
        """
        self._models, self._loaded, self._folders = models, loaded, folders
        self._empty.setVisible(not models)
        old = self._rows
        self._rows = QWidget()
        grid = QGridLayout(self._rows)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setColumnStretch(0, 3)
        grid.setColumnStretch(4, 3)
        for number, model in enumerate(models):
            self._add_row(grid, 2 * number, model)
        for number, (folder, is_there) in enumerate(folders.items(), len(models)):
            self._add_folder(grid, 2 * number, folder, is_there)
        self._column.replaceWidget(old, self._rows)
        self._rows.setVisible(bool(models or folders))
        old.deleteLater()
        self._fit_width()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_width()

    def _fit_width(self) -> None:
        """Where there is little room, leave out size and keeper; where there is less, say all below the name."""
        px = self._theme.px
        is_wide, is_stacked = self.width() >= px(_NARROW_PX), self.width() < px(_STACKED_PX)
        shown = {"more": is_wide, "figures": not is_stacked, "below": is_stacked}
        for widget in self._rows.findChildren(Label):
            if (column := widget.property("column")) is not None:
                widget.setVisible(shown[column])
        grid = self._rows.layout()
        assert isinstance(grid, QGridLayout)
        grid.setColumnStretch(3, 2 if is_wide else 0)
        grid.setColumnStretch(4, 0 if is_stacked else 3)
        grid.setVerticalSpacing(px(5))
        grid.setHorizontalSpacing(px(4 if is_stacked else 16))  # columns that show nothing have theirs, too

    def _add_row(self, grid: QGridLayout, place: int, model: FoundModel) -> None:
        self._begin_row(grid, place)
        is_loaded = str(model.path) == self._loaded
        is_ready = model.state is FileState.READY
        size = size_text(model.size) if model.size else ""
        if is_ready:
            figures = ElidingLabel(self._figures.text_of(model), "muted")
            figures.set_details(self._figures.details_of(model))
        else:
            figures = ElidingLabel(state_text(model), "caution")
            figures.set_details(told(model.problem))
        below = WrappingLabel(
            " · ".join(text for text in (model.quantization, size, figures.whole_text) if text),
            "muted" if is_ready else "caution",
        )
        name = QVBoxLayout()
        name.setSpacing(0)
        name.addWidget(ElidingLabel(model.name, "strong" if is_loaded else ""))
        name.addWidget(below)
        grid.addLayout(name, place, 0)
        below.setProperty("column", "below")
        cells = (Label(model.quantization), Label(size), ElidingLabel(origin_text(model), "muted"), figures)
        for column, (label, kind) in enumerate(zip(cells, ("figures", "more", "more", "figures"), strict=True), 1):
            label.setProperty("column", kind)
            grid.addWidget(label, place, column)
        if is_loaded:
            centre = Qt.AlignmentFlag.AlignCenter  # as high as its word, and not as the row
            grid.addWidget(Label(tr("loaded"), "badge"), place, 5, centre)
        elif is_ready:
            chat = LookButton(self._theme, tr("Chat"))
            chat.setAccessibleName(tr("Chat with {name}", name=model.name))
            chat.clicked.connect(partial(self.chat_requested.emit, model.path))
            grid.addWidget(chat, place, 5)
        elif (repair := repair_of(model)) is not None:
            button = LookButton(self._theme, word(repair.value))
            button.setAccessibleName(f"{word(repair.value)}: {model.name}")
            button.setToolTip(plain_tooltip(told(model.problem)))
            button.clicked.connect(partial(self.repair_requested.emit, model))
            grid.addWidget(button, place, 5)
        more = IconButton(self._theme, "more", tr("More for {name}", name=model.name))
        more.clicked.connect(partial(self._show_menu, model, more))
        grid.addWidget(more, place, 6)

    def _add_folder(self, grid: QGridLayout, place: int, folder: Path, is_there: bool) -> None:
        """A folder that the person added, and the way to take it off again."""
        self._begin_row(grid, place)
        grid.addWidget(ElidingLabel(str(folder), "muted"), place, 0, 1, 4)
        words = tr("looked through, too") if is_there else tr("cannot be reached")
        grid.addWidget(ElidingLabel(words, "muted" if is_there else "caution"), place, 4)
        remove = LookButton(self._theme, tr("Remove"))
        remove.setAccessibleName(tr("Remove {folder} from the list", folder=folder))
        remove.clicked.connect(partial(self.folder_removed.emit, folder))
        grid.addWidget(remove, place, 5)

    def _begin_row(self, grid: QGridLayout, place: int) -> None:
        """A line above, and the height of a row with a button."""
        if place:
            line = QFrame()
            line.setProperty("look", "line")
            grid.addWidget(line, place - 1, 0, 1, 7)
        grid.setRowMinimumHeight(place, self._theme.px(_ROW_PX))

    def _show_menu(self, model: FoundModel, button: QWidget) -> None:
        menu = QMenu(self)
        menu.addAction(tr("Verify the files"), partial(self.verify_requested.emit, model))
        menu.addAction(tr("Show in its folder"), partial(self.show_requested.emit, model))
        if model.origin is Origin.OWN:
            menu.addSeparator()
            menu.addAction(tr("Delete…"), partial(self.delete_requested.emit, model))
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(button.mapToGlobal(QPoint(0, button.height())))  # not exec: the card may go while it is open

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._column.setContentsMargins(px(16), px(14), px(16), px(14))
        self._column.setSpacing(px(10))
        if self._models or self._folders:
            self.show_models(self._models, self._loaded, self._folders)


def state_text(model: FoundModel) -> str:
    """Why it cannot be loaded, in a few words."""
    if model.state is FileState.MISSING and model.num_parts > len(model.paths):
        return tr("{count} of {total} files are here", count=len(model.paths), total=model.num_parts)
    return word(model.state.value)


def origin_text(model: FoundModel) -> str:
    """Who keeps it."""
    if model.origin is Origin.OWN:
        return str(model.origin.value)
    if model.origin is Origin.PERSON:
        return model.path.parent.name
    return tr("{program}, read in place", program=model.origin.value)
