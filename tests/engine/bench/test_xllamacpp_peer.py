"""The runner over llama.cpp: it computes what it says, and goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("xllamacpp")

from engine.bench.xllamacpp_peer import XllamacppRunner, complete, start_server
from engine.errors import EngineError
from tests.tiny_models import VOCAB_SIZE, write_tiny_model


@pytest.fixture
def runner(tmp_path: Path) -> XllamacppRunner:
    path = write_tiny_model("gemma3", tmp_path)  # a window of 8, which a cache cannot be rolled back behind
    return XllamacppRunner(path, num_threads=1, num_fill_threads=2, vocab_size=VOCAB_SIZE, num_tokens=128)


def test_prefill_computes_every_token_each_time(runner: XllamacppRunner) -> None:
    assert runner.prefill(90) > 0
    assert runner.prefill(90) > 0  # it raises when the cache answers instead


def test_deep_decoding_reuses_the_context(runner: XllamacppRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, Any]] = []

    def record(*arguments: Any, **options: Any) -> dict[str, Any]:
        answers.append(complete(*arguments, **options))
        return answers[-1]

    runner.prefill(50)
    monkeypatch.setattr("engine.bench.xllamacpp_peer.complete", record)
    runner.fill(64)
    assert runner.decode(8, 64) > 0
    assert runner.decode(8, 64) > 0
    filled, first, second = (answer["timings"] for answer in answers)
    assert filled["prompt_n"] == 64  # another server, for the fill has other threads
    assert first["prompt_n"] <= 4
    assert second["prompt_n"] <= 4
    assert second["cache_n"] > first["cache_n"]
    assert first["predicted_n"] == 9


def test_what_llama_cpp_cannot_load_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.gguf"
    path.write_bytes(b"<html></html>")
    with pytest.raises(EngineError, match=r"llama\.cpp cannot load page\.gguf"):
        start_server(path, 1, 1, 256)
