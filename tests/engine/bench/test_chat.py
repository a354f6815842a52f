"""``bench-chat`` on a fake model: every scenario runs, and what it should show is what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.bench import chat_run, chat_scenarios
from engine.bench.chat_command import render
from engine.bench.chat_run import OwnChat, Step
from engine.bench.chat_scenarios import Chats
from engine.bench.chat_stream import NUM_STOPS, paste_beside_stream, stops_while_reading
from engine.config import EngineConfig
from engine.thread import EngineThread
from tests.engine.fake_model import FakeLoads


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Any:
    loads = FakeLoads(context_length=16384, num_blocks=5000)
    monkeypatch.setattr(chat_run, "EngineThread", lambda *args: EngineThread(*args, load=loads))
    monkeypatch.setattr(chat_run, "REST_S", 0.0)
    chat = OwnChat(Path("model.gguf"), EngineConfig())
    yield chat
    chat.close()


def test_each_scenario_is_measured_and_reads_only_what_it_must(
    own: OwnChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_scenarios, "NUM_TURNS", 4)
    chats = Chats(own, lambda text: None)
    chats.run()
    read = {f"{step.scenario}: {step.label}": step.num_read_tokens for step in chats.steps}
    prompt = {f"{step.scenario}: {step.label}": step.num_prompt_tokens for step in chats.steps}
    assert read["a growing chat: turn 1"] == prompt["a growing chat: turn 1"]
    assert read["a growing chat: turn 4"] < prompt["a growing chat: turn 4"] / 3
    for label in ("two chats in turn: back in the first", "an answer again: regenerate"):
        assert read[label] == 0
    assert all(read[f"branches of one state: branch {n}"] == 0 for n in range(1, 5))
    assert 0 < read["an edit: turn 3, edited"] < 60
    assert read["an edit: back to the main branch"] < prompt["an edit: back to the main branch"] / 3
    reopened = chats.steps[-1]
    assert reopened.num_read_tokens == reopened.num_prompt_tokens, "this model has no snapshots"


def test_stops_are_timed(own: OwnChat) -> None:
    times = stops_while_reading(own, 400)
    assert len(times) == NUM_STOPS
    assert min(times) > 0


def test_a_paste_is_read_beside_a_stream(own: OwnChat) -> None:
    figures = paste_beside_stream(own, 400)
    assert figures["num_read_tokens"] > 200
    assert figures["ratio"] == pytest.approx(figures["beside_ms"] / figures["alone_ms"])
    assert figures["longest_ms"] >= figures["median_ms"] > 0
    assert figures["read_s"] > 0
    assert figures["read_alone_s"] > 0


def test_reading_alone_reads_what_is_asked_for(own: OwnChat, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    read_raw = own._read_raw

    def look(prompt: str) -> Any:
        stats = read_raw(prompt)
        seen.append((stats.num_reused_tokens, stats.num_read_tokens))
        return stats

    monkeypatch.setattr(own, "_read_raw", look)
    assert own.reading_ms(64, 320) > 0
    (_, history), *others = seen
    assert 300 < history < 340
    assert [history <= reused < history + 4 and 50 < read < 80 for reused, read in others] == [True, True]


def test_the_table_shows_both_engines() -> None:
    step = Step("an edit", "turn 3", (), 1500, 20, 80.0, 40.0, "changed", 100.0, 160.0, 800.0, 900)
    report = {
        "model": "Model",
        "steps": [step],
        "stops_ms": [3.0, 1.0, 9.0],
        "beside": {
            "num_read_tokens": 8000,
            "read_s": 30.0,
            "read_alone_s": 15.0,
            "alone_ms": 20.0,
            "beside_ms": 30.0,
            "median_ms": 21.0,
            "longest_ms": 160.0,
            "ratio": 1.5,
        },
        "speculation": [
            {
                "task": "repeat",
                "off": 20.0,
                "on": 50.0,
                "num_proposed_tokens": 70,
                "num_accepted_tokens": 60,
                "is_same_text": True,
            }
        ],
    }
    text = render(report, has_peer=True)
    assert "3.0 ms, the longest 9 of 3" in text
    line = next(line for line in text.splitlines() if line.startswith("an edit"))
    assert line.split() == [
        "an",
        "edit:",
        "turn",
        "3",
        "1,500",
        "20",
        "80",
        "0.80",
        "0.50",
        "changed",
        "900",
        "800",
        "0.10",
    ]
    assert "x 1.50" in text
    assert "60 of 70" in text
    assert "llama.cpp" not in render(report, has_peer=False)
    assert "paste" not in render({**report, "beside": None, "stops_ms": []}, has_peer=False)
