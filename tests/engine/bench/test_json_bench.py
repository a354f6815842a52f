"""The benchmark of structured answers gives honest figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.bench.json_cases import DRAWN, notes
from engine.grammar.compiler import compile_format
from engine.grammar.response_format import FormatKind, ResponseFormat
from engine.terminal.cli import main


def test_all_its_schemas_can_be_honoured() -> None:
    for schema in DRAWN:
        compile_format(ResponseFormat(FormatKind.JSON_SCHEMA, json.dumps(schema)))


def test_its_notes_are_the_same_each_time() -> None:
    assert notes(3) == notes(4)[:3]
    assert len(set(notes(50))) > 20


def test_every_finished_answer_is_valid(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench-json", str(smollm2_path), "--rows", "2", "--repetitions", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    grammar, answer, rows = report["grammar"], report["answer"], report["extraction"]
    assert grammar["num_valid"] == grammar["num_finished"] > 0.5 * grammar["num_drawn"]
    assert 0 < grammar["mask_median_us"] <= grammar["mask_p95_us"]
    assert answer["is_valid"]
    assert 0 < answer["num_forced_tokens"] < answer["num_tokens"]
    assert answer["ratio_to_free"] == pytest.approx(answer["constrained_s"] / answer["free_s"])
    assert rows["num_failed"] == 0
    assert rows["rows_per_minute"] > 0


def test_wishes_out_of_range_get_a_sentence(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench-json", str(smollm2_path), "--repetitions", "0"]) == 1
    assert "1 to 100 repetitions" in capsys.readouterr().err


def test_a_model_that_holds_too_little_is_said(
    smollm2_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.bench.json_command.CONTEXT_LENGTH", 32)
    assert main(["bench-json", str(smollm2_path), "--rows", "0", "--repetitions", "1"]) == 1
    said = capsys.readouterr().err
    assert "The benchmark needs" in said
    assert said.strip().endswith("tokens but the context holds 32; choose a model that holds more.")
