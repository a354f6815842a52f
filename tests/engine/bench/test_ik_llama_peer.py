"""The runner over ik_llama.cpp: it computes what it says, and goes on where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ik_llama_cpp")

from engine.bench.ik_llama_peer import IkLlamaRunner, open_context
from engine.errors import EngineError
from tests.tiny_models import VOCAB_SIZE, write_tiny_model


def test_a_sequence_grows_from_where_it_was(tmp_path: Path) -> None:
    path = write_tiny_model("llama", tmp_path)
    runner = IkLlamaRunner(path, num_threads=1, num_fill_threads=2, vocab_size=VOCAB_SIZE, num_tokens=128)
    assert runner.prefill(90) > 0
    runner.fill(96)
    assert runner.decode(4, 96) > 0
    assert runner.decode(4, 96) > 0
    assert runner.decode(4, 0) > 0
    runner.fill(128)
    with pytest.raises(EngineError, match="could not compute"):
        runner.decode(512, 128)
    runner.close()


def test_what_it_cannot_load_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.gguf"
    path.write_bytes(b"<html></html>")
    with pytest.raises(EngineError, match=r"ik_llama\.cpp cannot load page\.gguf"):
        open_context(path, 1, 256)
