"""A model file that is shortened or changed while it is in use: what reads it ends, all the rest goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.cache import snapshot_store
from engine.config import EngineConfig
from engine.errors import TruncatedFileError
from engine.loader import load_model
from engine.protocol import (
    Delta,
    Event,
    GenerateRequest,
    LoadModel,
    LoadPhase,
    ModelEjected,
    ModelLoadFailed,
    Notice,
    RequestFailed,
    RequestFinished,
)
from tests.integration.engine_events import EventLog, engine_thread
from tests.tiny_models import write_tiny_model

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody shorten a mapped file")

CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "shortened": (lambda path: os.truncate(path, 4096), "was shortened from"),
    "emptied and written anew": (lambda path: path.write_bytes(bytes(path.stat().st_size)), "was changed"),
    "written to": (lambda path: os.utime(path, ns=(1, 1)), "was changed"),
}


def _generate(name: str, max_tokens: int = 40) -> GenerateRequest:
    return GenerateRequest(name, prompt="a b", max_tokens=max_tokens, conversation_id=name)


class _ChangingLog(EventLog):
    """Does ``change`` on the engine thread when the first token of "broken" is there, amid its steps."""

    def __init__(self, change: Callable[[], None]) -> None:
        super().__init__()
        self._change: Callable[[], None] | None = change

    def put(self, event: Event) -> None:
        if isinstance(event, Delta) and event.request_id == "broken" and self._change is not None:
            self._change()
            self._change = None
        super().put(event)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", CHANGES)
def test_in_the_middle_of_an_answer(
    name: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 0)
    change, sentence = CHANGES[name]
    path, other = write_tiny_model("qwen3", tmp_path), write_tiny_model("llama", tmp_path)
    config = EngineConfig(backend=backend, num_threads=2, snapshot_folder=tmp_path / "kept")  # type: ignore[arg-type]
    with engine_thread(config, log=_ChangingLog(lambda: change(path))) as engine:
        engine.submit(LoadModel(path), _generate("broken"))
        failed = engine.wait_end("broken")
        assert isinstance(failed, RequestFailed)
        assert failed.message.startswith("qwen3.gguf: the file")
        assert sentence in failed.message
        engine.wait(ModelEjected)
        assert engine.of(Notice)[-1].message == failed.message
        engine.submit(_generate("refused"))
        assert isinstance(engine.wait_end("refused"), RequestFailed)
        engine.submit(LoadModel(other), _generate("whole", 3))
        assert isinstance(engine.wait_end("whole"), RequestFinished)
    assert len(list((tmp_path / "kept").glob("*/*/*.kv"))) == 1, "of the other model alone"


_AFTER_FAULTHANDLER = """
import faulthandler, os, sys
from pathlib import Path
import numpy as np
from engine.config import EngineConfig
from engine.errors import ModelFileError
from engine.kernels.backend import SequenceSlice
from engine.loader import load_model
from engine.protocol import LoadModel
path = Path(sys.argv[1])
model = load_model(LoadModel(path), EngineConfig(backend=sys.argv[2]), lambda phase, fraction, message: None)
tokens, table = np.arange(40, dtype=np.int32), np.arange(4, dtype=np.int32)
for start in (0, 20):
    try:
        model.backend.run([SequenceSlice(tokens[start : start + 20], start, table)])
    except ModelFileError as error:
        print(error)
    faulthandler.enable()
    os.truncate(path, 0)
"""


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_in_the_step_after_another_took_the_place_of_the_guard(backend: str, tmp_path: Path) -> None:
    path = write_tiny_model("llama", tmp_path)
    command = [sys.executable, "-c", _AFTER_FAULTHANDLER, str(path), backend]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "to 0 bytes while it was in use" in result.stdout


@pytest.mark.parametrize("phase", [LoadPhase.TOKENIZER, LoadPhase.WEIGHTS, LoadPhase.KERNELS])
def test_during_a_load(phase: LoadPhase, tmp_path: Path) -> None:
    path = write_tiny_model("llama", tmp_path)

    def shorten(now: LoadPhase, fraction: float, message: str) -> None:
        if now is phase:
            os.truncate(path, 100)

    with pytest.raises(TruncatedFileError, match="shortened"):
        load_model(LoadModel(path), EngineConfig(backend="reference"), shorten)


def test_between_two_answers(tmp_path: Path) -> None:
    path = write_tiny_model("llama", tmp_path)
    with engine_thread(EngineConfig(backend="reference")) as engine:
        engine.submit(LoadModel(path), _generate("before", 2))
        assert isinstance(engine.wait_end("before"), RequestFinished)
        os.truncate(path, 100_000)
        engine.submit(_generate("after", 2))
        end = engine.wait_end("after")
        assert isinstance(end, RequestFailed)
        assert "shortened" in end.message
        engine.submit(LoadModel(path))
        assert "incomplete" in engine.wait(ModelLoadFailed).message
