"""How fast the models on this machine are: as measured while they answered, else as estimated."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from app.translation import localised, tr
from engine.errors import EngineError
from engine.library import FileState, FoundModel
from engine.protocol import RequestStats

if TYPE_CHECKING:
    from engine.advisor import MeasuredFigures

_log = logging.getLogger(__name__)

Run = Callable[[Callable[[], object], Callable[[Any], None]], None]  # work beside the GUI thread, then on it


class ModelSpeeds(QObject):
    """Tokens a second of each model file.

    Signals:
        changed: ``text_of`` says something else.
    """

    changed = Signal()

    def __init__(self, run: Run, figures_file: Path, parent: QObject | None = None) -> None:
        """``figures_file`` keeps what was measured."""
        super().__init__(parent)
        self._run = run
        self._figures_file = figures_file
        self._estimates: dict[Path, float] = {}
        self._measured: dict[Path, float] = {}

    def text_of(self, model: FoundModel) -> str:
        """A model's speed in words: as measured, else as estimated, else nothing."""
        if rate := self._measured.get(model.path, 0.0):
            return tr("{rate} tok/s measured", rate=_rate(rate))
        if rate := self._estimates.get(model.path, 0.0):
            return tr("about {rate} tok/s", rate=_rate(rate))
        return ""

    def estimate(self, models: list[FoundModel], models_folder: Path) -> None:
        """Estimate those that can be loaded and were never measured."""
        ready = [model for model in models if model.state is FileState.READY]
        self._run(lambda: self._speeds_of(ready, models_folder), self._on_estimated)

    def take_stats(self, path: Path, stats: RequestStats) -> None:
        """An answer of the model at ``path`` is complete: its speed replaces the estimate."""
        answer = (stats.num_completion_tokens, stats.generation_ms / 1000)
        prompt = (stats.num_prompt_tokens - stats.num_reused_tokens, stats.prompt_ms / 1000)
        self._run(partial(self._keep, path, answer, prompt), self._on_measured)

    def _speeds_of(
        self, models: list[FoundModel], models_folder: Path
    ) -> tuple[dict[Path, float], dict[Path, float]]:
        """Estimated and measured tokens a second."""
        from engine.advisor import advise, look_at_machine, shape_of
        from engine.gguf import open_model

        machine = look_at_machine(models_folder)
        figures = self._figures()
        estimates: dict[Path, float] = {}
        measured = {model.path: figures.of(model.path).tokens_per_second for model in models}
        for model in models:
            if measured[model.path]:
                continue
            try:
                with open_model(model.path) as file:
                    estimates[model.path] = advise(shape_of(file), machine).tokens_per_second
            except (EngineError, OSError) as error:
                _log.info("no estimate for %s: %s", model.path, error)
        return estimates, measured

    def _on_estimated(self, speeds: tuple[dict[Path, float], dict[Path, float]]) -> None:
        if speeds != (self._estimates, self._measured):
            self._estimates, self._measured = speeds
            self.changed.emit()

    def _figures(self) -> MeasuredFigures:
        from engine.advisor import MeasuredFigures

        return MeasuredFigures(self._figures_file)

    def _keep(self, path: Path, answer: tuple[int, float], prompt: tuple[int, float]) -> tuple[Path, float]:
        figures = self._figures()
        figures.add(path, answer=answer, prompt=prompt)
        return path, figures.of(path).tokens_per_second

    def _on_measured(self, kept: tuple[Path, float]) -> None:
        path, rate = kept
        self._measured[path] = rate
        self.changed.emit()


def _rate(rate: float) -> str:
    return localised(f"{rate:,.{0 if rate >= 10 else 1}f}")
