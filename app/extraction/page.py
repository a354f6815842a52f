"""The extraction page: input, instruction and schema on the left; on the right the table that fills as it runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QMenu,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.extraction.results_table import ResultsTable
from app.extraction.words import progress_line, saving_line
from app.extraction.workspace import ExtractionWorkspace
from app.schema.editor import SchemaEditor
from app.schema.library import SchemaLibrary
from app.theme import Theme
from app.translation import tr, trn
from app.widgets.buttons import LookButton, MenuButton
from app.widgets.file_dialogs import choose_file, choose_folder, choose_target
from app.widgets.flow_layout import FlowLayout
from app.widgets.growing_edit import GrowingEdit
from app.widgets.label import ElidingLabel, Label
from app.widgets.notice_bar import NoticeBar
from app.widgets.page_parts import PageBar
from app.widgets.spacing import spaced
from app.widgets.use_dialog import AskDialog

LEFT_PX, _LEAST_LEFT_PX = 340, 264  # of the column that asks; the answers have the rest
_LEFT_SHARE = 0.45  # at most, of a narrow page
_STACKED_PX = 520  # below it the answers stand under what asks
_ANY_WIDTH = 16_777_215  # Qt's word for no limit
_EDITOR_PX = 180  # height at least; below it the column scrolls


class ExtractionPage(QWidget):
    """The workspace as a page of the window.

    Signals:
        closed: back to the chat; what runs goes on.
    """

    closed = Signal()

    def __init__(
        self, workspace: ExtractionWorkspace, schemas: SchemaLibrary, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("extractionPage")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAcceptDrops(True)
        self._workspace = workspace
        self._theme = theme
        self._columns: tuple[str, ...] = ()
        self._title = MenuButton(theme, "")
        self._title.clicked.connect(self._show_earlier)
        self._progress = ElidingLabel("", "muted")
        self._progress.setAccessibleName(tr("Progress"))
        self.run_button = LookButton(theme, tr("Start"), "primary")
        self.run_button.clicked.connect(self._on_run)
        self.export_button = LookButton(theme, tr("Export"), "")
        self.export_button.clicked.connect(self._export)
        self._input = Label(tr("No input yet."), "help")
        self._input.setWordWrap(True)
        self._choose = MenuButton(theme, tr("Choose"))
        self._choose.clicked.connect(self._show_inputs)
        self._column_button = MenuButton(theme, "")
        self._column_button.clicked.connect(self._show_columns)
        self.instruction = GrowingEdit(theme, max_lines=6, min_lines=2)
        self.instruction.setPlaceholderText(tr("What should be read from each text?"))
        self.instruction.setAccessibleName(tr("Instruction"))
        self.instruction.textChanged.connect(self._refresh)
        self.editor = SchemaEditor(schemas, theme)
        self.editor.changed.connect(lambda _: self._refresh())
        self.notice_bar = NoticeBar(theme)
        self.editor.notice.connect(self.show_notice)
        self.editor.undo_offered.connect(self.notice_bar.offer_undo)
        self.table = ResultsTable(workspace, theme)
        self._foot = Label("", "muted")
        self._empty = Label("", "help")
        self._lay_out()
        self.first_focus = self._choose
        workspace.notice.connect(self.show_notice)
        workspace.deleted.connect(self._offer_back)
        workspace.source_changed.connect(self._on_source)
        workspace.opened.connect(self._on_opened)
        workspace.state_changed.connect(self._refresh)
        theme.changed.connect(self._apply_metrics)
        self._apply_metrics()
        self._refresh()

    def show_notice(self, text: str) -> None:
        """Say one sentence above the table."""
        self.notice_bar.show_text(text, for_ms=12_000)

    def _offer_back(self, path: Path) -> None:
        self.notice_bar.offer_undo(tr("The extraction was deleted."), lambda: self._workspace.restore(path))

    # ------------------------------------------------------------------------------------------ menus

    def make_title_menu(self) -> QMenu:
        """A new extraction, and those on the disk."""
        menu = QMenu(self)
        menu.addAction(tr("New extraction")).triggered.connect(self._workspace.close_journal)
        earlier = self._workspace.earlier()
        if earlier:
            menu.addSeparator()
        for one in earlier[:30]:
            words = trn("1 row", "{count} rows", one.num_results)
            action = menu.addAction(f"{one.name}\t{words}".replace("&", "&&"))
            action.triggered.connect(partial(self._open, one.path))
        journal = self._workspace.journal
        if journal is not None:
            menu.addSeparator()
            menu.addAction(tr("Delete this extraction")).triggered.connect(
                lambda: self._workspace.delete(journal.path)
            )
        return menu

    def make_input_menu(self) -> QMenu:
        """The kinds of input."""
        menu = QMenu(self)
        menu.addAction(tr("A table or a text…")).triggered.connect(self._choose_file)
        menu.addAction(tr("A folder of texts…")).triggered.connect(self._choose_folder)
        menu.addAction(tr("Lines…")).triggered.connect(self._choose_lines)
        return menu

    def _show(self, menu: QMenu, button: QWidget) -> None:
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(button.mapToGlobal(button.rect().bottomLeft()))

    def _show_earlier(self) -> None:
        self._show(self.make_title_menu(), self._title)

    def _show_inputs(self) -> None:
        self._show(self.make_input_menu(), self._choose)

    def _show_columns(self) -> None:
        source = self._workspace.source
        if source is None:
            return
        menu = QMenu(self)
        for name in source.columns:
            action = menu.addAction(name.replace("&", "&&"))
            action.setCheckable(True)
            action.setChecked(not self._columns or name in self._columns)
            action.toggled.connect(partial(self._on_column, name))
        self._show(menu, self._column_button)

    def _on_column(self, name: str, is_on: bool) -> None:
        source = self._workspace.source
        assert source is not None
        shown = [column for column in source.columns if not self._columns or column in self._columns]
        chosen = [column for column in source.columns if (column in shown) != (column == name and not is_on)]
        if is_on:
            chosen = [column for column in source.columns if column in shown or column == name]
        self._columns = () if len(chosen) == len(source.columns) or not chosen else tuple(chosen)
        self._refresh()

    # ------------------------------------------------------------------------------------------ the person does

    def _choose_file(self) -> None:
        kinds = tr("Tables and texts (*.csv *.tsv *.jsonl *.json *.xlsx *.txt *.md *.pdf);;All files (*)")
        path = choose_file(self, tr("Choose an input"), kinds)
        if path is not None:
            self.choose_input(path)

    def _choose_folder(self) -> None:
        path = choose_folder(self, tr("Choose a folder of texts"))
        if path is not None:
            self.choose_input(path)

    def _choose_lines(self) -> None:
        text = AskDialog(self._theme, tr("Lines"), tr("Each line is a row"), self, has_lines=True).ask()
        if text is not None:
            self._workspace.choose_lines(text)

    def choose_input(self, path: Path) -> None:
        """Take a file or folder as the input; a running extraction of another one is paused and kept."""
        if self._workspace.journal is not None:
            self._workspace.close_journal()
        self._workspace.choose_input(path)

    def _open(self, path: Path, _checked: bool = False) -> None:
        self._workspace.open(path)

    def _on_run(self) -> None:
        workspace = self._workspace
        if workspace.is_running:
            workspace.pause()
        elif workspace.journal is not None and not workspace.is_finished and not self._has_changed():
            workspace.resume()
        else:
            workspace.start(
                self.instruction.toPlainText().strip(),
                self.editor.text,
                self._columns,
                check_afterwards=self.editor.checks_afterwards,
            )

    def _export(self) -> None:
        journal = self._workspace.journal
        if journal is None:
            return
        kinds = tr("CSV (*.csv);;Excel (*.xlsx);;JSON (*.json);;JSON Lines (*.jsonl)")
        stem = Path(journal.task.name).stem
        path = choose_target(self, tr("Export"), f"{stem} results.csv", kinds)
        if path is not None:
            self._workspace.export(path)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._workspace.expect()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        local = [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]
        if local:
            event.acceptProposedAction()
            self.choose_input(local[0])

    # ------------------------------------------------------------------------------------------ state

    def _has_changed(self) -> bool:
        """Whether what is asked differs from what the open journal was asked."""
        journal = self._workspace.journal
        if journal is None:
            return False
        task = journal.task
        now = (self.instruction.toPlainText().strip(), self.editor.text, self._columns)
        return now != (task.instruction, task.schema, task.columns)

    def _on_source(self) -> None:
        self._columns = ()
        self._refresh()

    def _on_opened(self) -> None:
        journal = self._workspace.journal
        if journal is not None:
            self._columns = journal.task.columns
            if self.instruction.toPlainText().strip() != journal.task.instruction:
                self.instruction.setPlainText(journal.task.instruction)
            if self.editor.text != journal.task.schema:
                self.editor.show_schema(journal.task.schema)
            self.editor.afterwards.set_on(journal.task.check_afterwards)
        self.table.fit_columns()
        self._refresh()

    def _refresh(self) -> None:
        workspace = self._workspace
        source, progress = workspace.source, workspace.progress
        self._title.setText((source.name if source is not None else tr("New extraction")).replace("&", "&&"))
        self._progress.set_whole_text(progress_line(progress, is_running=workspace.is_running) if progress else "")
        self._foot.setText(saving_line(progress) if progress else "")
        self.run_button.setText(self._run_word())
        can_start = source is not None and self.editor.is_usable and workspace.has_model
        self.run_button.setEnabled(workspace.is_running or can_start)
        self.run_button.setToolTip(self._hint())
        self.export_button.setEnabled(progress is not None and progress.num_done > 0)
        self._show_input()
        has_rows = source is not None
        self.table.setVisible(has_rows)
        self._empty.setVisible(not has_rows)

    def _run_word(self) -> str:
        workspace = self._workspace
        if workspace.is_running:
            return tr("Pause")
        if workspace.journal is None:
            return tr("Start")
        return tr("Start anew") if workspace.is_finished or self._has_changed() else tr("Resume")

    def _hint(self) -> str:
        if self._workspace.source is None:
            return tr("Choose an input first.")
        if not self.editor.is_usable:
            return tr("The schema cannot be used yet.")
        return "" if self._workspace.has_model else tr("Load a model first.")

    def _show_input(self) -> None:
        source = self._workspace.source
        if source is None:
            self._input.setText(tr("A table, a folder of texts or PDFs, or lines. Or drop it here."))
            self._column_button.hide()
            return
        self._input.setText(f"{source.name} · " + trn("1 row", "{count} rows", len(source.rows)))
        shown = ", ".join(self._columns) or tr("all columns")
        self._column_button.setText(shown.replace("&", "&&")[:34])
        self._column_button.setAccessibleName(tr("Columns that the model is shown: {shown}", shown=shown))
        self._column_button.setVisible(len(source.columns) > 1)

    # ------------------------------------------------------------------------------------------ looks

    def _lay_out(self) -> None:
        beside = QWidget()
        bar_row = spaced(self._theme, FlowLayout(0, parent=beside), spacing=10)
        deeds = QWidget()
        row = spaced(self._theme, QHBoxLayout(deeds), spacing=10, margins=(0, 0, 0, 0))
        row.addWidget(self.run_button)
        row.addWidget(self.export_button)
        for widget in (self._title, self._progress, deeds):
            bar_row.addWidget(widget)
        bar = PageBar(self._theme, tr("Extraction"), beside)
        bar.closed.connect(self.closed)
        self._left = QWidget()
        left = spaced(self._theme, QVBoxLayout(self._left), spacing=12, margins=(0, 0, 0, 0))
        inputs = spaced(self._theme, QHBoxLayout(), spacing=8)
        inputs.addWidget(self._choose)
        inputs.addWidget(self._column_button)
        inputs.addStretch(1)
        left.addWidget(self._card(tr("Input"), self._input, inputs))
        left.addWidget(self._card(tr("Instruction"), self.instruction))
        left.addWidget(self._card(tr("Schema"), self.editor), 1)
        self._left_scroll = QScrollArea()
        self._left_scroll.setProperty("look", "plain")
        self._left_scroll.setWidgetResizable(True)
        self._left_scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._left_scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._left_scroll.setAccessibleName(tr("Input, instruction and schema"))
        self._left_scroll.setWidget(self._left)
        right = QFrame()
        right.setProperty("look", "card")
        inside = spaced(self._theme, QVBoxLayout(right), spacing=6, margins=(1, 1, 1, 10))
        self._empty.setText(tr("The answers stand here, a row for each text."))
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setWordWrap(True)
        inside.addWidget(self._empty, 1)
        inside.addWidget(self.table, 1)
        foot = spaced(self._theme, QHBoxLayout(), margins=(12, 0, 12, 0))
        foot.addWidget(self._foot)
        inside.addLayout(foot)
        column = QVBoxLayout()
        column.addWidget(self.notice_bar)
        column.addWidget(right, 1)
        self._body = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._body.addWidget(self._left_scroll)
        self._body.addLayout(column, 1)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(bar)
        whole.addLayout(self._body, 1)

    def _card(self, title: str, *parts: QWidget | QHBoxLayout) -> QFrame:
        card = QFrame()
        card.setProperty("look", "card")
        inside = spaced(self._theme, QVBoxLayout(card), spacing=8, margins=(16, 14, 16, 14))
        inside.addWidget(Label(title, "strong"))
        for part in parts:
            if isinstance(part, QWidget):
                inside.addWidget(part)
            else:
                inside.addLayout(part)
        return card

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_width()

    def _share_width(self) -> None:
        px = self._theme.px
        is_wide = self.width() >= px(_STACKED_PX)
        directions = QBoxLayout.Direction
        self._body.setDirection(directions.LeftToRight if is_wide else directions.TopToBottom)
        if is_wide:
            width = max(px(_LEAST_LEFT_PX), min(px(LEFT_PX), int(self.width() * _LEFT_SHARE)))
            self._left_scroll.setFixedWidth(width)
        else:
            self._left_scroll.setMinimumWidth(0)
            self._left_scroll.setMaximumWidth(_ANY_WIDTH)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self.editor.setMinimumHeight(px(_EDITOR_PX))
        self._share_width()
        self._empty.setContentsMargins(px(24), 0, px(24), 0)
        self._body.setContentsMargins(px(16), px(16), px(16), px(16))
        self._body.setSpacing(px(16))
        for button in (self._title, self.run_button, self.export_button):
            button.setFixedHeight(px(33))
