"""The models page: this machine's facts, a search at the hub, downloads, what is here already, and the disk."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QDragEnterEvent, QDropEvent, QShowEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QInputDialog,
    QLineEdit,
    QMenu,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.downloads.download_card import DownloadCard
from app.library.hub_card import HubCard
from app.library.hub_search import HubDetail, version_of
from app.library.library import size_text
from app.library.local_card import LocalCard
from app.library.models_work import MachineFacts, ModelsWork
from app.library.starters import StarterOffer, starter_offers
from app.library.storage_card import StorageCard
from app.theme import Theme
from app.translation import localised, tr, trn
from app.widgets.buttons import IconButton, LookButton
from app.widgets.label import ElidingLabel, Label
from app.widgets.notice_bar import NoticeBar
from engine.library import FileState, FoundModel

_COLUMN_PX = 1000


class ModelsPage(QWidget):
    """Everything about models.

    Signals:
        closed: back to the chat.
        chat_requested(path): load this model and talk.
    """

    closed = Signal()
    chat_requested = Signal(object)

    def __init__(self, work: ModelsWork, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelsPage")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAcceptDrops(True)
        self._work = work
        self._theme = theme
        self._downloads: dict[str, DownloadCard] = {}
        self._results: dict[str, HubCard] = {}
        self._machine = ElidingLabel("", "muted")
        self._machine.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Find a model: words of its name, then Enter"))
        self.search.setAccessibleName(tr("Find a model at the hub"))
        self.search.returnPressed.connect(self._on_search)
        self.setFocusProxy(self.search)
        self.notice_bar = NoticeBar(theme)
        self._status = Label("", "help")
        self._status.setWordWrap(True)
        self._status.hide()
        self._starter = self._make_starter()
        self.local = LocalCard(theme, work.speed_text)
        self._storage = StorageCard(theme)
        self._download_box, self._result_box = QVBoxLayout(), QVBoxLayout()
        self._lay_out()
        self._wire()
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self._show_models()
        self._show_downloads()

    # ------------------------------------------------------------------------------------------ layout

    def _lay_out(self) -> None:
        self._head = QWidget()
        self._head.setObjectName("bar")
        self._head.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._head_row = QHBoxLayout(self._head)
        close = IconButton(self._theme, "close", tr("Back to the chat (Esc)"))
        close.clicked.connect(self.closed)
        self._head_row.addWidget(Label(tr("Models"), "section"))
        self._head_row.addWidget(self._machine, 1)
        self._head_row.addWidget(close)
        self._body = QWidget()
        self._column = QVBoxLayout(self._body)
        self._column.addWidget(self.search)
        self._column.addWidget(self.notice_bar)
        self._column.addLayout(self._download_box)
        self._column.addWidget(self._status)
        self._column.addLayout(self._result_box)
        self._column.addWidget(self._starter)
        self._column.addWidget(self.local)
        self._column.addWidget(self._storage)
        self._column.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setAccessibleName(tr("Models"))
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        holder = QWidget()
        self._holder = QHBoxLayout(holder)
        self._holder.addStretch(1)
        self._holder.addWidget(self._body, 1000)
        self._holder.addStretch(1)
        self._scroll.setWidget(holder)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(self._head)
        whole.addWidget(self._scroll, 1)

    def _make_starter(self) -> QFrame:
        """What a first start offers: one good model for this machine, and one tiny."""
        card = QFrame()
        card.setProperty("look", "card")
        self._starter_column = QVBoxLayout(card)
        self._starter_column.addWidget(Label(tr("Begin with one of these"), "section"))
        text = Label(tr("Chosen for this machine's memory. Any file that ends in .gguf will do, too."), "help")
        text.setWordWrap(True)
        self._starter_column.addWidget(text)
        for index, offer in enumerate(starter_offers()):
            row = QHBoxLayout()
            row.addWidget(Label(offer.name, "strong"))
            about = tr("tiny: quick everywhere, and it knows little") if offer.is_tiny else tr("good for its size")
            row.addWidget(ElidingLabel(f"{tr('about {size}', size=size_text(offer.size))} · {about}", "muted"), 1)
            button = LookButton(self._theme, tr("Get it"), "" if index else "primary")
            button.setAccessibleName(tr("Get {name}", name=offer.name))
            button.clicked.connect(partial(self._get_starter, offer))
            row.addWidget(button)
            self._starter_column.addLayout(row)
        return card

    def _wire(self) -> None:
        work = self._work
        work.library.models_changed.connect(self._show_models)
        work.speeds_changed.connect(self._show_models)
        work.model_changed.connect(self._show_models)
        work.queue.changed.connect(self._show_downloads)
        work.queue.finished.connect(self._on_finished)
        work.queue.failed.connect(self.notice_bar.show_text)
        work.search.found.connect(self._on_found)
        work.search.failed.connect(self._on_search_failed)
        work.search.described.connect(self._on_described)
        work.search.describe_failed.connect(self._on_describe_failed)
        work.machine_known.connect(self._show_machine)
        work.disk_known.connect(self._storage.show_use)
        work.notice.connect(self.notice_bar.show_text)
        self.local.chat_requested.connect(self.chat_requested)
        self.local.verify_requested.connect(work.verify)
        self.local.show_requested.connect(lambda model: _show_folder(model.path.parent))
        self.local.delete_requested.connect(self._ask_delete)
        self.local.import_requested.connect(self._choose_import)
        self.local.folder_requested.connect(self._choose_folder)
        self._storage.show_requested.connect(lambda: _show_folder(work.library.folder))
        self._storage.move_requested.connect(self._choose_move)
        self._storage.token_requested.connect(self._ask_token)

    def showEvent(self, event: QShowEvent) -> None:
        """Look again at what may have changed while the page was not seen."""
        super().showEvent(event)
        self._work.library.scan()
        self._work.look()

    # ------------------------------------------------------------------------------------------ the hub

    def find_at_hub(self, query: str) -> None:
        """Search the hub."""
        self.search.setText(query)
        self._on_search()

    def _on_search(self) -> None:
        self._say(tr("Searching…"))
        self._clear_results()
        self._work.search.search(self.search.text())

    def _on_found(self, models: list[object]) -> None:
        self._clear_results()
        for model in models:
            card = HubCard(model, self._theme)  # type: ignore[arg-type]
            card.opened.connect(self._work.search.describe)
            card.download_requested.connect(self._on_download)
            self._results[card.model.repository] = card
            self._result_box.addWidget(card)
        nothing = tr("Nothing was found; try fewer or other words.")
        self._say("" if models else nothing)
        if models:
            next(iter(self._results.values())).open()

    def _on_search_failed(self, text: str) -> None:
        self._say(f"{text} {tr('What is on this machine works without.')}")

    def _on_described(self, repository: str, detail: HubDetail) -> None:
        if repository in self._results:
            self._results[repository].show_detail(detail)

    def _on_describe_failed(self, repository: str, text: str) -> None:
        if repository in self._results:
            self._results[repository].show_failed(text)
        else:
            self.notice_bar.show_text(text)

    def _on_download(self, detail: HubDetail, label: str) -> None:
        repository = detail.repository
        self._work.queue.add(
            detail.endpoint, repository.model.repository, repository.revision, version_of(detail, label)
        )

    def _get_starter(self, offer: StarterOffer) -> None:
        self.notice_bar.show_text(tr("Looking for {name}…", name=offer.name), for_ms=10_000)
        self._work.get(offer.repository)

    def _clear_results(self) -> None:
        for card in self._results.values():
            card.hide()
            card.deleteLater()
        self._results = {}

    def _say(self, text: str) -> None:
        self._status.setText(text)
        self._status.setVisible(bool(text))

    # ------------------------------------------------------------------------------------------ this machine

    def _show_downloads(self) -> None:
        rows = {row.id: row for row in self._work.queue.rows}
        for download_id in set(self._downloads) - set(rows):
            card = self._downloads.pop(download_id)
            card.hide()
            card.deleteLater()
        for download_id, row in rows.items():
            if download_id in self._downloads:
                self._downloads[download_id].show_row(row)
            else:
                self._downloads[download_id] = DownloadCard(row, self._work.queue, self._theme)
                self._download_box.addWidget(self._downloads[download_id])
        self._show_starter()

    def _show_models(self) -> None:
        self.local.show_models(self._work.library.models, self._work.loaded_path)
        self._show_starter()

    def _show_starter(self) -> None:
        is_usable = any(model.state is FileState.READY for model in self._work.library.models)
        self._starter.setVisible(not is_usable and not self._downloads and not self._results)

    def _show_machine(self, facts: MachineFacts) -> None:
        parts = [tr("{size} memory", size=size_text(facts.memory))]
        if facts.bandwidth:
            parts.append(tr("{rate} GB/s measured", rate=localised(f"{facts.bandwidth / 1e9:.0f}")))
        parts.append(tr("{size} disk free", size=size_text(facts.disk_free)))
        self._machine.set_whole_text(" · ".join(parts))

    def _on_finished(self, repository: str, label: str, paths: list[Path]) -> None:
        self._work.library.scan()
        self._work.look()
        name = f"{repository.rpartition('/')[2]} {label}"
        self.notice_bar.show_text(
            tr("{name} is here and checked.", name=name),
            action_name=tr("Chat"),
            action=lambda: self.chat_requested.emit(paths[0]),
        )

    # ------------------------------------------------------------------------------------------ files

    def _ask_delete(self, model: FoundModel) -> None:
        if str(model.path) == self._work.loaded_path:
            self.notice_bar.show_text(tr("{name} is loaded: choose another model first.", name=model.name))
            return
        question = trn(
            "Delete {name} ({files_size}, 1 file)?",
            "Delete {name} ({files_size}, {count} files)?",
            len(model.paths),
            name=f"{model.name} {model.quantization}".strip(),
            files_size=size_text(model.size),
        )
        self.notice_bar.show_text(question, action_name=tr("Delete"), action=lambda: self._work.delete(model))

    def _choose_import(self) -> None:
        names, _ = QFileDialog.getOpenFileNames(
            self, tr("Add model files"), "", tr("Models (*.gguf);;All files (*)")
        )
        if names:
            self._ask_import([Path(name) for name in names])

    def _ask_import(self, paths: list[Path]) -> None:
        """Copy, move or link: the person decides."""
        menu = QMenu(self)
        for mode, text in (
            ("copy", tr("Copy into the models folder")),
            ("move", tr("Move into the models folder")),
            ("link", tr("Leave it there and make a link")),
        ):
            menu.addAction(text, partial(self._work.import_files, paths, mode))
        menu.exec(self.mapToGlobal(self.rect().center()))

    def _choose_folder(self) -> None:
        if name := QFileDialog.getExistingDirectory(self, tr("Add a folder with models")):
            self._work.add_folder(Path(name))

    def _choose_move(self) -> None:
        if self._work.queue.rows:
            self.notice_bar.show_text(tr("Finish or cancel the downloads first, then move the folder."))
        elif name := QFileDialog.getExistingDirectory(self, tr("An empty folder for the models")):
            self._work.move_folder(Path(name))

    def _ask_token(self) -> None:
        token, is_given = QInputDialog.getText(
            self,
            tr("Access token"),
            tr("From your account's settings at the hub; empty forgets the one that is kept."),
            QLineEdit.EchoMode.Password,
        )
        if is_given:
            self._work.set_token(token)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if _dropped(event):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        paths = _dropped(event)
        if paths:
            event.acceptProposedAction()
            self._ask_import(paths)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._head.setFixedHeight(px(48))
        self._head_row.setContentsMargins(px(16), 0, px(12), 1)
        self._head_row.setSpacing(px(12))
        self._holder.setContentsMargins(px(16), px(16), px(16), px(20))
        self._body.setMaximumWidth(px(_COLUMN_PX))
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(px(12))
        self._download_box.setSpacing(px(12))
        self._result_box.setSpacing(px(12))
        self.search.setFixedHeight(px(40))
        self._starter_column.setContentsMargins(px(16), px(14), px(16), px(16))
        self._starter_column.setSpacing(px(10))


def _dropped(event: QDropEvent) -> list[Path]:
    """The model files that are dragged."""
    urls = event.mimeData().urls()
    return [
        Path(url.toLocalFile()) for url in urls if url.isLocalFile() and url.toLocalFile().lower().endswith(".gguf")
    ]


def _show_folder(folder: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
