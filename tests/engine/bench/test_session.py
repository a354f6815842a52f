"""The schedule: who is sampled when, and a whole run over a tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.bench.results import OWN, SpeedTest
from engine.bench.session import XLLAMACPP, BenchOptions, collect_samples, run_benchmark
from engine.errors import EngineError
from tests.tiny_models import write_tiny_model

TEST = SpeedTest("prefill", 100, 0, 1)


class FakeEngine:
    """Writes its name into a log at each sample."""

    def __init__(self, name: str, speed: float, log: list[str]) -> None:
        self.name, self.speed, self.log = name, speed, log

    def prepare(self, test: SpeedTest) -> None:
        raise AssertionError("sampling prepares nothing")

    def sample(self, test: SpeedTest) -> float:
        self.log.append(self.name)
        return self.speed

    def close(self) -> None:
        raise AssertionError("sampling closes nothing")


def options(path: Path, **changes: Any) -> BenchOptions:
    values: dict[str, Any] = {
        "path": path,
        "backend": "reference",
        "thread_counts": (1,),
        "prompts": (40,),
        "depths": (0, 64),
        "num_decode_tokens": 4,
        "repetitions": 2,
        "limit_s": 10.0,
    }
    return BenchOptions(**{**values, **changes})


def test_engines_take_turns_and_the_first_alternates() -> None:
    log: list[str] = []
    engines = {name: FakeEngine(name, 1e6, log) for name in ("a", "b")}
    collect_samples(TEST, engines, 4, 10.0)
    assert "".join(log) == "abbaabba"


def test_a_slow_engine_is_sampled_less_but_twice_at_least() -> None:
    engines = {"slow": FakeEngine("slow", 10.0, []), "fast": FakeEngine("fast", 1e6, [])}  # 10 s a sample
    series = collect_samples(TEST, engines, 5, 6.0)
    assert len(series["slow"].samples) == 2
    assert len(series["fast"].samples) == 5


def test_the_context_holds_all_repetitions() -> None:
    chosen = options(Path("m.gguf"), depths=(0, 4096), repetitions=5, num_decode_tokens=32)
    assert chosen.context_tokens >= 4096 + 5 * (32 + 1)
    assert chosen.context_tokens % 256 == 0


def test_what_the_model_cannot_hold_is_left_out() -> None:
    chosen = options(Path("m.gguf"), prompts=(40, 128), depths=(0, 64, 120))  # 18 tokens are added
    assert chosen.within(128).prompts == (40,)
    assert chosen.within(128).depths == (0, 64)
    assert chosen.within(4096) == chosen


def test_a_run_fills_the_report(tmp_path: Path) -> None:
    told: list[str] = []
    report = run_benchmark(
        options(
            write_tiny_model("gemma3", tmp_path),
            thread_counts=(1, 2),
            depths=(0, 64, 4096),
            num_neighbours=1,
            streams=(3,),
        ),
        told.append,
    )
    *speeds, alone, together = report.speeds
    assert [(result.test.num_threads, result.test.label) for result in (alone, together)] == [
        (2, "1 alone"),
        (2, "3 at once"),
    ]
    assert any(note.startswith("3 sequences at once give ") for note in report.notes)
    labels = [(result.test.num_threads, result.test.label) for result in speeds]
    assert labels == [
        (threads, label) for threads in (1, 2) for label in ("prefill 40", "decode at 0", "decode at 64")
    ]
    assert all(len(result.speeds[OWN].samples) == 2 for result in report.speeds)
    assert set(report.bandwidth) == {1, 2}
    assert all((result.bandwidth_share(OWN) is None) == (result.test.kind == "prefill") for result in speeds)
    loaded, first_token = report.start.loads[OWN].median, report.start.first_tokens[OWN].median
    assert loaded is not None
    assert first_token is not None
    assert 0 < loaded < first_token
    (process,) = report.processes
    assert process.beyond_bytes == process.peak_bytes - process.kv_bytes - report.model["file_bytes"]
    assert [result.test.kind for result in report.busy] == ["prefill", "decode"]
    assert all(result.share_kept(OWN) for result in report.busy)
    assert report.engines == [OWN]
    assert "The model was trained for 128 tokens; longer tests are left out." in report.notes
    assert not any("take turns" in note for note in report.notes)
    assert told
    json.dumps(report.as_plain())


def test_more_threads_than_the_machine_runs_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.bench.session.psutil.cpu_count", lambda logical=True: 1)
    path = write_tiny_model("llama", tmp_path)
    report = run_benchmark(
        options(path, thread_counts=(2,), prompts=(), depths=(), has_start=False), lambda text: None
    )
    assert "2 threads take turns on this machine, which runs 1 at once." in report.notes


def test_what_fails_at_the_end_loses_nothing_measured_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a model whose context is too short for an answer of the app's."""

    def fail(session: object, num_threads: int) -> None:
        raise EngineError("The context is too short.")

    monkeypatch.setattr("engine.bench.session._Session._measure_between_steps", fail)
    path = write_tiny_model("llama", tmp_path)
    report = run_benchmark(options(path, depths=(0,), streams=(2,), has_start=False), lambda text: None)
    assert [result.test.kind for result in report.speeds] == ["prefill", "decode", "streams", "streams"]
    assert "What passes between two steps could not be measured: The context is too short." in report.notes


def test_the_wheel_runs_beside_ours(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    path = write_tiny_model("llama", tmp_path)
    report = run_benchmark(options(path, thread_counts=(1, 2), peer=XLLAMACPP), lambda text: None)
    assert report.engines == [OWN, XLLAMACPP]
    assert all(len(result.speeds[XLLAMACPP].samples) == 2 for result in report.speeds)
    assert len(report.start.first_tokens[XLLAMACPP].samples) == 2
    assert [result.engine for result in report.processes] == [OWN, XLLAMACPP]


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "page.gguf"
    path.write_bytes(b"<html></html>")
    with pytest.raises(EngineError, match=r"page\.gguf"):
        run_benchmark(options(path), lambda text: None)
