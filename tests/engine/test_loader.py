from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from engine import loader
from engine.config import EngineConfig
from engine.errors import (
    InsufficientMemoryError,
    InvalidParameterError,
    NotGGUFError,
    UnsupportedModelError,
)
from engine.gguf import GGUFFile, open_model
from engine.kernels.backend import SequenceSlice
from engine.loader import MAX_THREADS, choose_num_threads, load_model, num_physical_cores, tensor_type_name
from engine.protocol import (
    LoadModel,
    LoadPhase,
)
from tests.tiny_models import write_tiny_model

REFERENCE = EngineConfig(backend="reference")


def _ignore(phase: LoadPhase, fraction: float, message: str) -> None:
    pass


@pytest.fixture
def free_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    def set_free(gigabytes: float) -> None:
        free = SimpleNamespace(available=int(gigabytes * 1e9))
        monkeypatch.setattr(psutil, "virtual_memory", lambda: free)

    return set_free


def test_a_loaded_model_runs_and_closes(smollm2_path: Path) -> None:
    model = load_model(LoadModel(smollm2_path, context_length=256), REFERENCE, _ignore)
    assert model.info.context_length == 256
    assert model.num_blocks >= 17
    tokens = np.asarray(model.tokenizer.encode("The capital of France is"), dtype=np.int32)
    logits = model.backend.run([SequenceSlice(tokens, 0, np.arange(1, dtype=np.int32))])
    assert model.tokenizer.token_text(int(logits[0].argmax())) in ("ĠParis", " Paris")
    assert model.info.kv_bytes == model.backend.kv_bytes > 0
    model.close()
    model.close()


def test_a_wish_beyond_the_trained_length_is_mentioned(smollm2_path: Path) -> None:
    model = load_model(LoadModel(smollm2_path, context_length=100_000), REFERENCE, _ignore)
    model.close()
    assert model.info.context_length == model.info.trained_context_length == 8192
    assert any("8,192 tokens" in notice for notice in model.notices)


def test_a_vocabulary_that_cannot_be_used_ends_the_reading_of_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tiny_model("llama", tmp_path)
    path.write_bytes(path.read_bytes().replace(b"gpt2", b"bert"))
    monkeypatch.setattr("engine.loader.READ_CHUNK_BYTES", 64)
    fractions: list[float] = []
    has_failed = threading.Event()
    load_text_side = loader._load_text_side

    def note_failure(file: GGUFFile) -> object:
        try:
            return load_text_side(file)
        finally:
            has_failed.set()

    monkeypatch.setattr(loader, "_load_text_side", note_failure)

    def on_progress(phase: LoadPhase, fraction: float, message: str) -> None:
        fractions.append(fraction)
        if fraction > 0.16:
            assert has_failed.wait(60)
            time.sleep(0.001)  # until the loader can see it

    with pytest.raises(UnsupportedModelError, match="WordPiece"):
        load_model(LoadModel(path), REFERENCE, on_progress)
    assert max(fractions) < 0.4, "of which the weights are up to 0.5"


def test_a_model_that_does_not_fit_is_refused_before_it_is_read(
    smollm2_path: Path, free_memory: Callable[[float], None]
) -> None:
    seen: list[LoadPhase] = []
    free_memory(0.3)
    with pytest.raises(InsufficientMemoryError, match=r"and 0\.3 GB is free"):
        load_model(LoadModel(smollm2_path), REFERENCE, lambda phase, fraction, text: seen.append(phase))
    assert LoadPhase.KERNELS not in seen
    free_memory(0.7)
    with pytest.raises(InsufficientMemoryError, match="choose a context of at most"):
        load_model(LoadModel(smollm2_path, context_length=8192), REFERENCE, _ignore)
    model = load_model(LoadModel(smollm2_path), REFERENCE, _ignore)
    model.close()
    assert 512 <= model.info.context_length < 8192


@pytest.mark.parametrize("when", list(LoadPhase))
def test_a_load_can_be_broken_off_in_every_phase(smollm2_path: Path, when: LoadPhase) -> None:
    def stop(phase: LoadPhase, fraction: float, message: str) -> None:
        if phase is when:
            raise InterruptedError(phase.value)

    with pytest.raises(InterruptedError, match=when.value):
        load_model(LoadModel(smollm2_path), REFERENCE, stop)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.gguf"
    page.write_text("<!DOCTYPE html>", encoding="utf-8")
    with pytest.raises(NotGGUFError):
        load_model(LoadModel(page), REFERENCE, _ignore)


def test_tensor_types_as_people_name_them(smollm2_path: Path, gemma3_path: Path) -> None:
    for path, name in ((smollm2_path, "Q4_1"), (gemma3_path, "Q4_K_M")):
        with open_model(path) as file:
            assert tensor_type_name(file) == name


def test_there_is_a_core_to_run_on() -> None:
    assert 1 <= num_physical_cores() <= (psutil.cpu_count() or 1)


def test_threads_are_no_more_than_the_machine_runs_at_once() -> None:
    assert choose_num_threads(0) == num_physical_cores()
    assert choose_num_threads(1) == 1
    assert choose_num_threads(10**30) == min(psutil.cpu_count(), MAX_THREADS)
    with pytest.raises(InvalidParameterError, match="threads"):
        choose_num_threads(-1)
