"""The model of this session: which ones there are, which is loaded or loading, which one to load by itself.

A marker file exists while a load runs. Found at a start it means that the load ended the process: then nothing is
loaded by itself, so that a model too large for the machine cannot keep the app from starting.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.engine_client import EngineClient
from app.engine_words import told
from app.settings import Settings
from app.translation import tr
from engine.plain_data import dataclass
from engine.protocol import LoadPhase, ModelEjected, ModelInfo, ModelLoaded, ModelLoadFailed, ModelLoading

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelEntry:
    """One model on disk, as the picker shows it.

    Attributes:
        path: the file, or the first shard of a set.
        name: without the ending and the tensor type.
        detail: "Q4_1 · 98 MB".
        problem: one sentence why it cannot be loaded; empty when it can.
    """

    path: Path
    name: str
    detail: str
    problem: str = ""


_PHASES = {
    LoadPhase.HEADER: tr("Opening the file"),
    LoadPhase.TOKENIZER: tr("Reading the vocabulary"),
    LoadPhase.WEIGHTS: tr("Reading the weights"),
    LoadPhase.KERNELS: tr("Preparing the engine"),
    LoadPhase.READY: tr("Ready"),
}


class ModelSession(QObject):
    """Loads and ejects models and knows what came of it.

    Attributes:
        entries: the models on disk.
        info: the model that is ready; None while none is.
        loading_path: the model that is being loaded.
        starter: the starter model, when it is on disk.
        load_s: how long the last load took; 0 before the first.
        too_large_path: the model whose load failed last, where only the memory was too little.

    Signals:
        loading(name, fraction, message), loaded(ModelInfo), failed(text), ejected(): about the model.
        ejecting(): the model is none any more; ``ejected`` follows when its memory is free.
        entries_changed(): other models are on disk now.
        notice(text): one sentence for the person.
    """

    loading = Signal(str, float, str)
    loaded = Signal(object)
    failed = Signal(str)
    ejecting = Signal()
    ejected = Signal()
    entries_changed = Signal()
    notice = Signal(str)

    def __init__(
        self,
        client: EngineClient,
        settings: Settings,
        marker: Path,
        models_folder: Path,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client = client
        self._settings = settings
        self._marker = marker
        self._models_folder = models_folder
        self._num_loads = 0  # commands the engine has not answered; only the last one's answer counts
        self.entries: list[ModelEntry] = []
        self.info: ModelInfo | None = None
        self.loading_path: Path | None = None
        self.starter: Path | None = None
        self.too_large_path: Path | None = None
        self.load_s = 0.0
        self._began = 0.0
        self._is_waiting_for_entries = False
        self._crashed_path = self._read_marker()
        client.model_loading.connect(self._on_loading)
        client.model_loaded.connect(self._on_loaded)
        client.model_load_failed.connect(self._on_failed)
        client.model_ejected.connect(self._on_ejected)
        client.stopped.connect(self._on_engine_stopped)

    def load(self, path: Path, *, takes_more: bool = False) -> None:
        """Load the model at ``path``; the one before is ejected.

        With ``takes_more`` also where it needs more memory than is free.
        """
        self.loading_path = path
        self.too_large_path = None
        self.info = None
        self._num_loads += 1
        self._began = time.monotonic()
        self._crashed_path = None
        self._write_marker(path)
        self.loading.emit(self.name_of(path), 0.0, "")
        value = self._settings.value
        memory_limit_bytes = int(value("memory_limit_gb") * 1e9)
        self._client.load(
            path,
            value("context_length"),
            value("num_threads"),
            memory_limit_bytes,
            value("kv_type"),
            takes_more=takes_more,
        )

    def eject(self) -> None:
        """Free the model that is loaded, or give up the load: that may take seconds, but it answers no more."""
        was_loaded, self.info = self.info is not None, None
        self._client.eject()
        if was_loaded:
            self.ejecting.emit()

    def start(self, wanted: Path | None = None, *, loads_by_itself: bool = True) -> None:
        """At the app's start: load ``wanted``, or the model of the last time, or the starter.

        Where there is neither, the only model that the library finds is loaded when it has been found. With
        ``loads_by_itself`` False only ``wanted`` is loaded.
        """
        if wanted is not None:
            self.load(wanted)
        elif self._crashed_path is not None:
            self.notice.emit(
                tr(
                    "Fireside ended while it loaded {name}, so no model was loaded this "
                    "time: choose one; a smaller one or a smaller context may fit.",
                    name=self.name_of(self._crashed_path),
                )
            )
        elif not loads_by_itself:
            return
        elif (candidate := self.candidate()) is not None:
            self.load(candidate)
        else:
            self._is_waiting_for_entries = True

    def ensure(self) -> str:
        """For a message that waits: load what can be loaded; returns the sentence that says what happens now."""
        if self.loading_path is None and self._crashed_path is None and (candidate := self.candidate()) is not None:
            self.load(candidate)
        if self.loading_path is not None:
            return tr(
                "Your message is kept; the answer starts when {name} is loaded.",
                name=self.name_of(self.loading_path),
            )
        if self.has_models:
            return tr("Your message is kept; choose a model above and the answer starts.")
        return tr(
            "Your message is kept, but there is no model yet: put a .gguf file into {folder} and choose it above.",
            folder=self._models_folder,
        )

    @property
    def has_models(self) -> bool:
        """Whether one can be chosen; known before the library has looked through its places."""
        return any(not entry.problem for entry in self.entries) or self.candidate() is not None

    def candidate(self) -> Path | None:
        """The model to load by itself: the last one, else the starter, else the only one there is."""
        last = self._settings.value("last_model")
        if last and _is_file(Path(last)):
            return Path(last)
        if self.starter is not None:
            return self.starter
        usable = [entry.path for entry in self.entries if not entry.problem]
        return usable[0] if len(usable) == 1 else None

    def set_entries(self, entries: Sequence[ModelEntry], starter: Path | None) -> None:
        """Take over what the library found."""
        self.starter = starter
        if list(entries) != self.entries:
            self.entries = list(entries)
            self.entries_changed.emit()
        if self._is_waiting_for_entries:
            self._is_waiting_for_entries = False
            if self.info is None and self.loading_path is None and (candidate := self.candidate()) is not None:
                self.load(candidate)

    def name_of(self, path: Path) -> str:
        """What the picker calls the model at ``path``."""
        from engine.gguf.quantizations import model_name  # not before the window is there

        return next((entry.name for entry in self.entries if entry.path == path), model_name(path)[0])

    def close(self) -> None:
        """A load that closing the app ends is no crash."""
        self._remove_marker()

    def _on_loading(self, event: ModelLoading) -> None:
        if self._num_loads == 1 and self.loading_path is not None:
            self.loading.emit(self.name_of(self.loading_path), event.fraction, _PHASES[event.phase])

    def _on_loaded(self, event: ModelLoaded) -> None:
        path = self.loading_path
        if not self._is_last_answer():
            return
        path = path or event.info.path
        self.load_s = time.monotonic() - self._began
        self.info = replace(event.info, name=self.name_of(path))  # the name inside a file is often a training run's
        self._settings.set("last_model", str(path))
        self.loaded.emit(self.info)

    def _on_failed(self, event: ModelLoadFailed) -> None:
        if self._is_last_answer():
            self.info = None
            self.too_large_path = event.path if event.can_load_anyway else None
            self.failed.emit(told(event.message))

    def _is_last_answer(self) -> bool:
        self._num_loads = max(0, self._num_loads - 1)
        if self._num_loads:
            return False
        self.loading_path = None
        self._remove_marker()
        return True

    def _on_ejected(self, _event: ModelEjected) -> None:
        if self.loading_path is None:
            self.info = None
            self.ejected.emit()

    def _on_engine_stopped(self) -> None:
        self._num_loads = 0
        self.loading_path = None
        self.info = None
        self.failed.emit(tr("The engine ended unexpectedly; start Fireside again."))

    def _read_marker(self) -> Path | None:
        try:
            text = self._marker.read_text(encoding="utf-8", errors="surrogateescape").strip()
        except OSError:
            return None
        return Path(text) if text else None

    def _write_marker(self, path: Path) -> None:
        try:
            self._marker.parent.mkdir(parents=True, exist_ok=True)
            with self._marker.open("w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(str(path))
                stream.flush()
                os.fsync(stream.fileno())  # a machine that swaps itself to death loses what is not on the disk
        except OSError as error:
            _log.warning("no marker for the load: %s", error)

    def _remove_marker(self) -> None:
        try:
            self._marker.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("the load's marker stays: %s", error)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
