from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.extraction.journal import Journal, RowResult, Task
from engine.extraction.run import MAX_ANSWER_TOKENS, ExtractionRun, shared_prompt
from engine.extraction.sources import Row, Source, source_of_lines
from engine.protocol import (
    Channel,
    Delta,
    FieldCertainty,
    FinishReason,
    GenerateRequest,
    Priority,
    RequestFailed,
    RequestFinished,
    RequestStats,
    StructuredResult,
)

SCHEMA = '{"type": "object", "properties": {"a": {"type": "string", "description": "The letter"}}}'
VALID = StructuredResult(True, True, num_forced_tokens=6)


class Bench:
    def __init__(self, folder: Path, num_rows: int = 5, parallel: int = 3) -> None:
        self.now = 0.0
        self.source = source_of_lines("\n".join(f"text {index}" for index in range(num_rows)))
        self.journal = Journal.create(folder / "j.jsonl", Task("n", "Read.", SCHEMA, ""))
        self.run = ExtractionRun(self.source, self.journal, parallel, lambda: self.now)

    def finish(
        self, request: GenerateRequest, text: str = '{"a": "x"}', reason: FinishReason = FinishReason.STOP,
        structured: StructuredResult | None = VALID,
    ) -> RowResult | None:  # fmt: skip
        self.now += 0.5
        self.run.on_event(Delta(request.request_id, Channel.REASONING, "hm", 1))
        self.run.on_event(Delta(request.request_id, Channel.ANSWER, text[:3], 1))
        self.run.on_event(Delta(request.request_id, Channel.ANSWER, text[3:], 2))
        stats = RequestStats(50, 40, 10, 1, 1, 1, 1, 1)
        return self.run.on_event(RequestFinished(request.request_id, reason, stats, structured))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_several_rows_are_asked_about_together_with_what_they_share_in_front(bench: Bench) -> None:
    first, *others = bench.run.next_requests()
    assert first.messages[0].content == shared_prompt("Read.", SCHEMA) + "text 0"
    assert '"description":"The letter"' in first.messages[0].content
    assert (first.sampling.temperature, first.max_tokens, first.certainty) == (0.0, MAX_ANSWER_TOKENS, True)
    assert first.priority is Priority.BACKGROUND
    assert first.response_format is not None
    assert first.response_format.text == SCHEMA
    assert [request.messages[0].content[-6:] for request in others] == ["text 1", "text 2"]
    assert bench.run.next_requests() == []
    assert bench.run.running_rows == {0, 1, 2}


def test_answers_are_kept_and_progress_is_told(bench: Bench) -> None:
    certain = StructuredResult(True, True, num_forced_tokens=6, fields=(FieldCertainty("/a", 0.75),))
    first, *others = bench.run.next_requests()
    result = bench.finish(first, structured=certain)
    assert result == RowResult(0, {"a": "x"}, {"/a": 0.75})
    while others := [*others, *bench.run.next_requests()]:
        bench.finish(others.pop(0))
    assert bench.run.is_finished
    assert set(Journal.open(bench.journal.path).results) == set(range(5))
    progress = bench.run.progress
    assert (progress.num_rows, progress.num_done, progress.num_failed) == (5, 5, 0)
    assert progress.rows_per_minute == pytest.approx(120)
    assert progress.seconds_left == 0
    assert (progress.num_prefix_tokens, progress.forced_share) == (40, pytest.approx(0.6))


@pytest.mark.parametrize(
    ("text", "structured", "error"),
    [
        ('{"a"', StructuredResult(False, False, "The answer was cut off."), "The answer was cut off."),
        ('{"a": 1}', StructuredResult(True, False, "#/a: 1 is no string."), "#/a: 1 is no string."),
        ("no", None, "The answer is no JSON."),
    ],
)
def test_an_answer_that_is_not_valid_is_an_error(
    bench: Bench, text: str, structured: StructuredResult | None, error: str
) -> None:
    first, *_ = bench.run.next_requests()
    assert bench.finish(first, text, structured=structured) == RowResult(0, error=error)
    assert bench.run.progress.num_failed == 1


def test_a_request_that_fails_is_a_rows_error_and_can_be_tried_again(bench: Bench) -> None:
    first, *others = bench.run.next_requests()
    assert bench.run.on_event(RequestFailed(first.request_id, "Too long.")) == RowResult(0, error="Too long.")
    bench.run.retry(0)
    bench.run.retry(1)
    assert 0 not in bench.journal.results
    seen = []
    while others := [*others, *bench.run.next_requests()]:
        request = others.pop(0)
        seen.append(request.messages[0].content[-6:])
        bench.finish(request)
    assert seen == ["text 1", "text 2", "text 3", "text 4", "text 0"], (
        "a row that is asked about is not asked twice"
    )
    assert bench.run.is_finished


def test_pausing_gives_running_rows_back(bench: Bench) -> None:
    requests = bench.run.next_requests()
    bench.run.pause()
    assert bench.run.next_requests() == []
    for request in requests:
        assert bench.finish(request, reason=FinishReason.ABORTED) is None
    assert bench.run.running_ids == []
    bench.run.resume()
    again = bench.run.next_requests()
    assert [request.messages[0].content[-6:] for request in again] == ["text 0", "text 1", "text 2"]
    assert {request.request_id for request in again}.isdisjoint(request.request_id for request in requests)


def test_a_row_with_a_problem_is_an_error_without_asking(tmp_path: Path) -> None:
    rows = (Row("a.pdf", {"text": ""}, "a.pdf is locked."), Row("b.txt", {"text": "b"}))
    journal = Journal.create(tmp_path / "j.jsonl", Task("n", "", "{}", ""))
    run = ExtractionRun(Source("in", ("text",), rows), journal)
    [request] = run.next_requests()
    assert journal.results == {0: RowResult(0, error="a.pdf is locked.")}
    assert request.messages[0].content.endswith("\nb")


def test_a_run_goes_on_where_an_earlier_one_ended(bench: Bench) -> None:
    bench.journal.add(*(RowResult(row, {}) for row in (0, 1, 3)))
    run = ExtractionRun(bench.source, Journal.open(bench.journal.path))
    asked = run.next_requests() + run.next_requests()
    assert [request.messages[0].content[-6:] for request in asked] == ["text 2", "text 4"]


def test_foreign_events_are_ignored(bench: Bench) -> None:
    assert bench.run.on_event(RequestFailed("other", "x")) is None
    assert json.loads(bench.journal.path.read_text("utf-8").splitlines()[0])["name"] == "n"
