"""A worker's side of the conversation, and the process around it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.bench.processes import WorkerProcess
from engine.bench.worker import peak_resident_bytes, serve
from engine.errors import EngineError
from tests.tiny_models import write_tiny_model


@pytest.fixture
def own(tmp_path: Path) -> dict[str, Any]:
    path = write_tiny_model("llama", tmp_path)
    return {"task": "own", "path": str(path), "backend": "reference", "num_threads": 1, "num_tokens": 128}


def test_requests_are_answered_in_order(own: dict[str, Any]) -> None:
    requests = [
        {"request": "prefill", "arguments": {"num_tokens": 64}},
        {"request": "fill", "arguments": {"depth": 70}},
        {"request": "decode", "arguments": {"num_tokens": 4, "depth": 70}},
        {"request": "facts", "arguments": {}},
    ]
    answers = io.StringIO()
    assert serve(own, io.StringIO("".join(json.dumps(request) + "\n" for request in requests)), answers) == 0
    ready, prefill, fill, decode, facts = (json.loads(line)["result"] for line in answers.getvalue().splitlines())
    assert (ready, fill) == ("ready", None)
    assert 0 < prefill < 60
    assert 0 < decode < 60
    assert facts["kv_bytes"] > 0
    assert facts["peak_bytes"] >= 10_000_000


def test_a_failure_is_an_answer(own: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "other.gguf").write_bytes(b"<html>")
    answers = io.StringIO()
    assert serve({**own, "path": str(tmp_path / "other.gguf")}, io.StringIO(), answers) == 1
    assert "other.gguf" in json.loads(answers.getvalue())["error"]


def test_the_peak_is_at_least_what_is_resident() -> None:
    now = psutil.Process().memory_info().rss
    assert peak_resident_bytes() >= now * 0.9


def test_a_process_answers_and_ends(own: dict[str, Any]) -> None:
    with WorkerProcess("fireside", own) as worker:
        assert worker.receive()[1] == "ready"
        assert worker.ask("prefill", num_tokens=32) > 0
        assert worker.cpu_seconds() > 0
        pid = worker._process.pid
    assert not psutil.pid_exists(pid)


def test_a_first_token_comes_after_the_load(tmp_path: Path) -> None:
    path = write_tiny_model("llama", tmp_path)
    arguments = {
        "task": "first token",
        "engine": "own",
        "path": str(path),
        "backend": "reference",
        "num_threads": 1,
    }
    with WorkerProcess("fireside", arguments) as worker:
        arrivals = [worker.receive() for _ in range(3)]
    assert [text for _, text in arrivals] == ["begun", "loaded", "token"]
    times = [worker.started, *(arrived for arrived, _ in arrivals)]
    assert times == sorted(times)


def test_an_error_of_the_worker_is_ours(own: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "other.gguf").write_bytes(b"<html>")
    with (
        WorkerProcess("fireside", {**own, "path": str(tmp_path / "other.gguf")}) as worker,
        pytest.raises(EngineError, match=r"^fireside: other\.gguf"),
    ):
        worker.receive()


def test_a_crash_tells_the_last_words(own: dict[str, Any]) -> None:
    with WorkerProcess("fireside", own) as worker:
        worker.receive()
        with pytest.raises(EngineError, match=r"fireside: the process ended with code 1 \(KeyError: 'sing'\)"):
            worker.ask("sing")


def test_a_dead_worker_is_noticed(own: dict[str, Any]) -> None:
    with WorkerProcess("fireside", own) as worker:
        worker.receive()
        psutil.Process(worker._process.pid).kill()
        with pytest.raises(EngineError, match="the process ended"):
            worker.ask("prefill", num_tokens=32)


def test_a_silent_worker_is_given_up(own: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.bench.processes.TIMEOUT_S", 0.05)
    worker = WorkerProcess("fireside", own)
    with pytest.raises(EngineError, match="did not answer"), worker:
        worker.receive()
    assert worker._process.returncode not in {0, 1}, "it is killed, not waited for"
