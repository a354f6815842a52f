"""The models page: this machine's facts, a search at the hub, downloads, what is here already, and the disk."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QElapsedTimer, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QDragEnterEvent, QDropEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QHBoxLayout, QMenu, QVBoxLayout, QWidget

from app.downloads.download_card import DownloadCard, name_of
from app.library.hub_results import HubResults
from app.library.hub_search import HubDetail, version_of
from app.library.local_card import LocalCard
from app.library.models_bar import ModelsBar
from app.library.models_work import ModelsWork
from app.library.search_wish import SearchWish, size_class
from app.library.starter_card import StarterCard
from app.library.starters import StarterOffer
from app.library.storage_card import StorageCard
from app.sizes import size_text
from app.theme import Theme
from app.translation import tr, trn
from app.widgets.file_dialogs import choose_files, choose_folder
from app.widgets.notice_bar import NoticeBar
from app.widgets.page_parts import PageBar, ScrollingColumn
from app.widgets.use_dialog import AskDialog
from engine.library import FileState, FoundModel, Repair, repair_of

if TYPE_CHECKING:
    from engine.hub.download_item import DownloadRow

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
        self._since_begun = QElapsedTimer()
        self.bar = ModelsBar(theme)
        self.notice_bar = NoticeBar(theme)
        self.results = HubResults(work.search, theme)
        self.first_focus = self.results.search
        self._starter = StarterCard(theme)
        self.local = LocalCard(theme, work.figures)
        self._storage = StorageCard(theme)
        self._download_part = QWidget()
        self._download_box = QVBoxLayout(self._download_part)
        self._download_box.setContentsMargins(0, 0, 0, 0)
        self._lay_out()
        self._wire()
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self._show_models()
        self._show_downloads()

    # ------------------------------------------------------------------------------------------ layout

    def _lay_out(self) -> None:
        bar = PageBar(self._theme, tr("Models"), self.bar)
        bar.closed.connect(self.closed)
        self._notice_row = QHBoxLayout()  # above what scrolls: whatever is asked is in sight
        self._notice_row.addWidget(self.notice_bar)
        self._scroll = scroll = ScrollingColumn(self._theme, tr("Models"), _COLUMN_PX, 12)
        scroll.column.addWidget(self.results.head)
        for widget in (self.results, self._download_part, self._starter, self.local, self._storage):
            scroll.column.addWidget(widget)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(bar)
        whole.addLayout(self._notice_row)
        whole.addWidget(scroll, 1)

    def _wire(self) -> None:
        work = self._work
        work.library.models_changed.connect(self._show_models)
        work.figures.changed.connect(self._show_models)
        work.model_changed.connect(self._show_models)
        work.queue.changed.connect(self._show_downloads)
        work.queue.finished.connect(self._on_finished)
        work.queue.cancelled.connect(self._on_cancelled)
        work.queue.failed.connect(self.notice_bar.show_text)
        work.search.describe_failed.connect(self._on_describe_failed)
        self.results.changed.connect(self._show_starter)
        self.results.asked.connect(self.notice_bar.hide)
        self.results.download_requested.connect(self._on_download)
        self._starter.chosen.connect(self._get_starter)
        work.machine_known.connect(self.bar.show_machine)
        self.bar.here_requested.connect(lambda: self._scroll.show_from(self.local))
        self.bar.search_requested.connect(self._begin_search)
        self.bar.downloads_requested.connect(lambda: self._scroll.show_from(self._download_part))
        work.disk_known.connect(self._storage.show_use)
        work.notice.connect(self._show_notice)
        work.damage_found.connect(self._on_damage)
        work.search_wanted.connect(self._search)
        work.another_wanted.connect(self._search_like)
        self.local.chat_requested.connect(self.chat_requested)
        self.local.repair_requested.connect(self._repair)
        self.local.folder_removed.connect(work.remove_folder)
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

    def _on_describe_failed(self, repository: str, text: str) -> None:
        if not self.results.shows(repository):
            self.notice_bar.show_text(text)

    def _may_begin(self) -> bool:
        """Whether a download may begin: the second half of a double click met a row that moved under the mouse."""
        interval = QApplication.doubleClickInterval()
        is_double = self._since_begun.isValid() and self._since_begun.elapsed() < interval
        self._since_begun.start()
        return not is_double

    def _on_download(self, detail: HubDetail, label: str) -> None:
        if not self._may_begin():
            return
        self.notice_bar.hide()
        repository = detail.repository
        self._work.queue.add(
            detail.endpoint, repository.model.repository, repository.revision, version_of(detail, label)
        )

    def _get_starter(self, offer: StarterOffer) -> None:
        if not self._may_begin():
            return
        self.notice_bar.show_text(tr("Looking for {name}…", name=offer.name), for_ms=10_000)
        self._work.get(offer.repository)

    # ------------------------------------------------------------------------------------------ this machine

    def _show_downloads(self) -> None:
        """Cards come and go above the list; what is under the mouse there must not."""
        with self._scroll.holding((self.local, self._storage)):
            self._show_rows()
        self.bar.show_downloads(len(self._work.queue.rows))
        self._show_states()

    def _show_rows(self) -> None:
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
        self._download_part.setVisible(bool(rows))
        self._show_starter()

    def _show_models(self) -> None:
        library = self._work.library
        self.local.show_models(library.models, self._work.loaded_path, library.person_folders)
        self._show_starter()
        self._show_states()

    def _show_states(self) -> None:
        """The hub's results say what comes and what is here."""
        active = {"running", "queued"}  # what waits for the person goes on by "Download", too
        busy = {(row.repository, row.label) for row in self._work.queue.rows if row.state.value in active}
        ready = [model for model in self._work.library.models if model.state is FileState.READY]
        self.results.show_states(busy, {(model.repository, model.path.name) for model in ready})

    def _show_starter(self) -> None:
        is_usable = any(model.state is FileState.READY for model in self._work.library.models)
        comes = any(row.state.value != "left over" for row in self._work.queue.rows)
        self._starter.setVisible(not is_usable and not comes and self.results.is_empty)

    def _on_finished(self, repository: str, label: str, paths: list[Path]) -> None:
        self._work.library.scan()
        self._work.look()
        name = f"{repository.rpartition('/')[2]} {label}"
        self.notice_bar.show_text(
            tr("{name} is here and checked.", name=name),
            action_name=tr("Chat"),
            action=lambda: self.chat_requested.emit(paths[0]),
        )

    def _on_cancelled(self, row: DownloadRow) -> None:
        size = size_text(row.num_received)
        self.notice_bar.show_text(
            tr("{name} was thrown away; {size} are free again.", name=name_of(row), size=size)
        )

    # ------------------------------------------------------------------------------------------ files

    def _repair(self, model: FoundModel) -> None:
        repair = repair_of(model)
        if repair is Repair.SHOW:
            _show_folder(model.path.parent)
        elif repair is not None and (not repair.is_download or self._may_begin()):
            self._work.repair(model)

    def _on_damage(self, model: FoundModel, text: str) -> None:
        """What is damaged can be fetched again at once, where it is known from where."""
        can_fetch = bool(model.repository)
        action = self._work.fetch_again if can_fetch else lambda model: self._search(model.name)
        words = tr("Get it again") if can_fetch else tr("Find it")
        self.notice_bar.show_text(text, action_name=words, action=partial(action, model))

    def _search(self, words: str) -> None:
        """Search the hub, in sight."""
        self._begin_search()
        self.results.ask(words)

    def _search_like(self, num_parameters: int) -> None:
        """Models of that size which run here."""
        self.results.controls.set_wish(SearchWish(size=size_class(num_parameters)))
        self._search("")

    def _begin_search(self) -> None:
        """The field, in sight and ready to be written into."""
        self.notice_bar.hide()
        self._scroll.show_top()
        self.first_focus.setFocus(Qt.FocusReason.OtherFocusReason)
        self.results.search.selectAll()

    def _show_notice(self, text: str) -> None:
        """Say it; "" takes back what was said."""
        if text:
            self.notice_bar.show_text(text)
        else:
            self.notice_bar.hide()

    def _ask_delete(self, model: FoundModel) -> None:
        if str(model.path) == self._work.loaded_path:
            question = tr(
                "{name} is loaded: eject and delete it ({files_size})?",
                name=model.name,
                files_size=size_text(model.size),
            )
            self.notice_bar.ask(question, tr("Eject and delete"), lambda: self._work.eject_and_delete(model))
            return
        if model.path.is_symlink():
            question = tr("Remove the link {name}? The file it leads to stays.", name=model.path.name)
            self.notice_bar.ask(question, tr("Remove"), lambda: self._work.delete(model))
            return
        question = trn(
            "Delete {name} ({files_size}, 1 file)?",
            "Delete {name} ({files_size}, {count} files)?",
            len(model.paths),
            name=f"{model.name} {model.quantization}".strip(),
            files_size=size_text(model.size),
        )
        self.notice_bar.ask(question, tr("Delete"), lambda: self._work.delete(model))

    def _choose_import(self) -> None:
        paths = choose_files(self, tr("Add model files"), tr("Models (*.gguf);;All files (*)"))
        if paths:
            self._ask_import(paths)

    def _ask_import(self, paths: list[Path]) -> None:
        """Copy, move or link: the person decides."""
        menu = QMenu(self)
        for mode, text in (
            ("copy", tr("Copy into the models folder")),
            ("move", tr("Move into the models folder")),
            ("link", tr("Leave it there and make a link")),
        ):
            menu.addAction(text, partial(self._work.import_files, paths, mode))
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.mapToGlobal(self.rect().center()))

    def _choose_folder(self) -> None:
        if (path := choose_folder(self, tr("Add a folder with models"))) is not None:
            self._work.add_folder(path)

    def _choose_move(self) -> None:
        if self._work.queue.rows:
            self.notice_bar.show_text(tr("Finish or cancel the downloads first, then move the folder."))
        elif (path := choose_folder(self, tr("An empty folder for the models"))) is not None:
            self._work.move_folder(path)

    def _ask_token(self) -> None:
        words = tr("From your account's settings at the hub; empty forgets the one that is kept.")
        token = AskDialog(
            self._theme, tr("Access token"), words, self, action=tr("Keep it"), is_secret=True, may_be_empty=True
        ).ask()
        if token is not None:
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
        self._notice_row.setContentsMargins(px(20), px(8), px(20), 0)
        self._download_box.setSpacing(px(12))


def _dropped(event: QDropEvent) -> list[Path]:
    """The model files that are dragged."""
    urls = event.mimeData().urls()
    return [
        Path(url.toLocalFile()) for url in urls if url.isLocalFile() and url.toLocalFile().lower().endswith(".gguf")
    ]


def _show_folder(folder: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
