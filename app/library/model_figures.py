"""How fast the models on this machine are and what memory they take: as measured, else as estimated."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from PySide6.QtCore import QObject, Signal

from app.library.words import context_text, rate_text
from app.sizes import size_text
from app.translation import tr
from engine.errors import EngineError
from engine.library import FileState, FoundModel
from engine.protocol import ModelInfo, RequestStats

if TYPE_CHECKING:
    from engine.advisor import Advice, Expected, MeasuredFigures, MeasuredModel, ModelShape
    from engine.config import KVType

_log = logging.getLogger(__name__)

GUESSED_SHARE = 0.1  # of an answer's tokens

Run = Callable[[Callable[[], object], Callable[[Any], None]], None]  # work beside the GUI thread, then on it


class ModelFigures(QObject):
    """Speed and memory of each model file.

    Signals:
        changed: ``text_of`` says something else.
    """

    changed = Signal()

    def __init__(
        self,
        run: Run,
        figures_file: Path,
        kv_type: Callable[[], KVType] = lambda: "f16",
        parent: QObject | None = None,
    ) -> None:
        """``figures_file`` keeps what was measured; ``kv_type`` tells how models are loaded."""
        super().__init__(parent)
        self._run = run
        self._figures_file = figures_file
        self._kv_type = kv_type
        self._advices: dict[Path, Advice] = {}
        self._measured: dict[Path, MeasuredModel] = {}
        self._shapes: dict[tuple[Path, int], ModelShape] = {}  # only in the runner's thread
        self._weighed: ModelInfo | None = None  # the last load whose memory was looked at

    def text_of(self, model: FoundModel) -> str:
        """A model's speed and memory in words: as measured, else as estimated, else nothing."""
        measured, advice = self._measured.get(model.path), self._advices.get(model.path)
        parts = []
        if measured is not None and measured.tokens_per_second:
            parts.append(tr("{rate} tok/s measured", rate=rate_text(measured.tokens_per_second)))
        elif advice is not None:
            parts.append(tr("about {rate} tok/s", rate=rate_text(advice.tokens_per_second)))
        if advice is not None:
            parts.append(tr("{size} memory", size=size_text(advice.memory_bytes)))
        return " · ".join(parts)

    def details_of(self, model: FoundModel) -> str:
        """What was measured beside what was estimated; "" where nothing is known."""
        measured, advice = self._measured.get(model.path), self._advices.get(model.path)
        lines = []
        if advice is not None:
            lines.append(
                tr(
                    "Estimated: {rate} tok/s, {deep} tok/s with half of {context} context; {size} memory",
                    rate=rate_text(advice.tokens_per_second),
                    deep=rate_text(advice.deep_tokens_per_second),
                    context=context_text(advice.need.context_length),
                    size=size_text(advice.need.total),
                )
            )
        if measured is not None and measured.tokens_per_second:
            lines.append(tr("Measured: {rate} tok/s in chats", rate=rate_text(measured.tokens_per_second)))
        if measured is not None and measured.memory_bytes:
            lines.append(
                tr(
                    "Measured: {size} memory, where {estimate} was estimated for what had been read",
                    size=size_text(measured.memory_bytes),
                    estimate=size_text(measured.memory_estimate_bytes),
                )
            )
        return "\n".join(lines)

    def estimate(self, models: list[FoundModel], models_folder: Path) -> None:
        """Estimate those that can be loaded."""
        ready = [model for model in models if model.state is FileState.READY]
        kv_type = self._kv_type()
        self._run(lambda: self._advices_of(ready, models_folder, kv_type), self._on_estimated)

    def take_stats(self, info: ModelInfo, stats: RequestStats) -> None:
        """An answer of the loaded model is complete: its figures replace the estimate."""
        memory = 0
        if self._weighed is not info:  # once a load: later other chats lie in the memory, too
            self._weighed = info
            memory = psutil.Process().memory_info().rss - info.memory_before_bytes
        self._run(partial(self._keep, info, stats, memory), self._on_measured)

    # ------------------------------------------------------------------------------------ in the runner

    def _advices_of(
        self, models: list[FoundModel], models_folder: Path, kv_type: KVType
    ) -> tuple[dict[Path, Advice], dict[Path, MeasuredModel]]:
        from engine.advisor import advise, look_at_machine
        from engine.advisor.advice import CONTEXT_LENGTH

        figures = self._figures()
        machine = look_at_machine(models_folder, figures)
        advices = {}
        measured = {model.path: figures.of(model.path) for model in models}
        for model in models:
            if (shape := self._shape(model.path)) is not None:
                advices[model.path] = advise(shape, machine, CONTEXT_LENGTH, kv_type, measured[model.path])
        return advices, measured

    def _shape(self, path: Path) -> ModelShape | None:
        from engine.advisor import shape_of
        from engine.gguf import open_model

        try:
            key = path, path.stat().st_mtime_ns
            if key not in self._shapes:
                with open_model(path) as file:
                    self._shapes[key] = shape_of(file)
            return self._shapes[key]
        except (EngineError, OSError) as error:
            _log.info("no estimate for %s: %s", path, error)
            return None

    def _keep(self, info: ModelInfo, stats: RequestStats, memory: int) -> tuple[Path, MeasuredModel, Advice | None]:
        from engine.advisor import advise, look_at_machine, memory_so_far
        from engine.advisor.advice import CONTEXT_LENGTH
        from engine.advisor.shape import PROCESS_BYTES

        figures, shape, path = self._figures(), self._shape(info.path), info.path
        figures.add(
            path,
            answer=(stats.num_completion_tokens, stats.generation_ms / 1000),
            prompt=(stats.num_prompt_tokens - stats.num_reused_tokens, stats.prompt_ms / 1000),
            expected=self._expected(info, stats, shape),
        )
        if shape is None:
            return path, figures.of(path), None
        if memory > 0 and info.memory_before_bytes:
            num_tokens = stats.num_prompt_tokens + stats.num_completion_tokens
            estimate = memory_so_far(shape, info.context_length, num_tokens, info.kv_type)
            figures.add_memory(path, memory + PROCESS_BYTES, estimate)
        measured = figures.of(path)
        machine = look_at_machine(path.parent, figures)
        return path, measured, advise(shape, machine, CONTEXT_LENGTH, info.kv_type, measured)

    def _expected(self, info: ModelInfo, stats: RequestStats, shape: ModelShape | None) -> Expected | None:
        """What the kernels let expect of this answer, unless it was helped by right guesses of what comes."""
        from engine.advisor import expected_of, speeds_of_kernels

        if shape is None or stats.num_accepted_tokens > GUESSED_SHARE * stats.num_completion_tokens:
            return None
        return expected_of(
            shape,
            speeds_of_kernels(),
            num_reused=stats.num_reused_tokens,
            num_read=stats.num_prompt_tokens - stats.num_reused_tokens,
            num_answer=stats.num_completion_tokens,
            kv_type=info.kv_type,
        )

    def _figures(self) -> MeasuredFigures:
        from engine.advisor import MeasuredFigures

        return MeasuredFigures(self._figures_file)

    # ------------------------------------------------------------------------------------ on the GUI thread

    def _on_estimated(self, figures: tuple[dict[Path, Advice], dict[Path, MeasuredModel]]) -> None:
        if figures != (self._advices, self._measured):
            self._advices, self._measured = figures
            self.changed.emit()

    def _on_measured(self, kept: tuple[Path, MeasuredModel, Advice | None]) -> None:
        path, measured, advice = kept
        self._measured[path] = measured
        if advice is not None:
            self._advices[path] = advice
        self.changed.emit()
