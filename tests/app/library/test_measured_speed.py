"""An answer's speed reaches the file that keeps it, whether or not the models page was ever opened."""

from __future__ import annotations

import json

import pytest
from pytestqt.qtbot import QtBot

from engine.protocol import FinishReason, RequestFinished, RequestStats, StructuredResult
from tests.app.conftest import Bench


def _finished(rate: float, structured: StructuredResult | None = None) -> RequestFinished:
    stats = RequestStats(
        num_prompt_tokens=200, num_reused_tokens=100, num_completion_tokens=100, prompt_ms=500.0,
        first_token_ms=1.0, generation_ms=100_000 / rate, tokens_per_second=rate, seed=1,
    )  # fmt: skip
    return RequestFinished("r", FinishReason.STOP, stats, structured)


def test_a_chat_leaves_its_speed(bench: Bench, qtbot: QtBot) -> None:
    context = bench.context
    qtbot.waitUntil(lambda: context.is_complete)
    file = context.paths.data / "measured-speeds.json"
    context.client.request_finished.emit(_finished(4000.0, StructuredResult(True, True)))
    context.client.request_finished.emit(_finished(40.0))
    qtbot.waitUntil(file.exists)
    (kept,) = json.loads(file.read_text(encoding="utf-8")).values()
    assert kept["tokens_per_second"] == pytest.approx(40)
    assert kept["read_tokens_per_second"] == pytest.approx(200)
