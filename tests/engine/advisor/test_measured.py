"""Figures of models that have run: they last, replace the estimates, and put others right."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from engine.advisor import (
    Expected,
    Machine,
    MeasuredFigures,
    MeasuredModel,
    ModelShape,
    Speeds,
    advise,
    expected_of,
    look_at_machine,
    memory_need,
    memory_so_far,
    shape_of,
)
from engine.advisor.advice import read_seconds, tokens_per_second
from engine.advisor.measured import MIN_ANSWERS, MIN_READ_TOKENS, MOST_CORRECTION
from engine.gguf import open_model
from engine.gguf.tensor_types import TensorType

SPEEDS = Speeds({TensorType.Q4_K: 20e9}, {TensorType.Q4_K: 100e9})


@pytest.fixture
def shape(smollm2_path: Path) -> ModelShape:
    with open_model(smollm2_path) as file:
        return shape_of(file)


def test_measured_figures_replace_and_last(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    figures = MeasuredFigures(file)
    path = Path("/models/a.gguf")
    figures.add(path, answer=(3, 1.0), prompt=(5, 0.1))
    assert figures.of(path).tokens_per_second == 0
    figures.add(path, answer=(100, 4.0), prompt=(5, 0.1))
    assert figures.of(path).tokens_per_second == 25
    figures.add(path, answer=(100, 2.0), prompt=(1000, 2.0))
    again = MeasuredFigures(file).of(path)
    assert again.tokens_per_second == pytest.approx(32.5)
    assert again.read_tokens_per_second == 500
    file.write_text("[")
    assert MeasuredFigures(file).of(path).tokens_per_second == 0


def _answer(figures: MeasuredFigures, name: str, ratio: float, read_ratio: float) -> None:
    """An answer so many times as fast as was expected."""
    expected = Expected(50.0, 200.0, SPEEDS)
    answer = (100, 100 / (50 * ratio))
    figures.add(
        Path(name), answer=answer, prompt=(MIN_READ_TOKENS, MIN_READ_TOKENS / (200 * read_ratio)), expected=expected
    )


def test_what_ran_puts_the_estimates_of_others_right(tmp_path: Path) -> None:
    figures = MeasuredFigures(tmp_path / "measured.json")
    for _ in range(MIN_ANSWERS - 1):
        _answer(figures, "a.gguf", 1.5, 0.8)
    assert figures.corrected(SPEEDS) == SPEEDS  # so few say nothing
    _answer(figures, "a.gguf", 0.7, 0.4)  # beside another program, most likely
    again = MeasuredFigures(tmp_path / "measured.json").corrected(SPEEDS)
    assert again.read_rate(TensorType.Q4_K) == pytest.approx(30e9)
    assert again.multiply_rate(TensorType.Q4_K) == pytest.approx(80e9)
    for name, ratio in (("b.gguf", 0.5), ("c.gguf", 1.1)):
        for _ in range(MIN_ANSWERS):
            _answer(figures, name, ratio, 1.0)
    assert figures.corrected(SPEEDS).bandwidth == pytest.approx(22e9)  # the median of three models


def test_kernels_that_were_measured_anew_are_not_corrected_twice(tmp_path: Path) -> None:
    figures = MeasuredFigures(tmp_path / "measured.json")
    for _ in range(MIN_ANSWERS):
        _answer(figures, "a.gguf", 2.0, 2.0)
    quicker = SPEEDS.scaled(1.6, 2.0)
    corrected = figures.corrected(quicker)
    assert corrected.bandwidth == pytest.approx(40e9)
    assert corrected.reference_multiply_rate == pytest.approx(200e9)


def test_no_correction_is_boundless(tmp_path: Path) -> None:
    figures = MeasuredFigures(tmp_path / "measured.json")
    for _ in range(MIN_ANSWERS):
        _answer(figures, "a.gguf", 100.0, 0.001)
    corrected = figures.corrected(SPEEDS)
    assert corrected.bandwidth == SPEEDS.bandwidth * MOST_CORRECTION
    assert corrected.reference_multiply_rate == SPEEDS.reference_multiply_rate / MOST_CORRECTION


def test_what_is_expected_of_an_answer_is_the_estimate_at_its_depth(shape: ModelShape) -> None:
    expected = expected_of(shape, SPEEDS, num_reused=1000, num_read=500, num_answer=200, kv_type="f16")
    assert expected.tokens_per_second == tokens_per_second(shape, SPEEDS, 1600)
    assert expected.read_tokens_per_second == pytest.approx(500 / read_seconds(shape, SPEEDS, 500, 1000))
    assert expected.read_tokens_per_second < 500 / read_seconds(shape, SPEEDS, 500)
    nothing = expected_of(shape, SPEEDS, num_reused=1000, num_read=0, num_answer=20, kv_type="f16")
    assert nothing.read_tokens_per_second == 0


def test_the_machine_has_the_corrected_speeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.advisor.machine.known_speeds", lambda: SPEEDS)
    figures = MeasuredFigures(tmp_path / "measured.json")
    for _ in range(MIN_ANSWERS):
        _answer(figures, "a.gguf", 1.25, 1.0)
    assert look_at_machine(tmp_path).speeds == SPEEDS
    assert look_at_machine(tmp_path, figures).speeds.bandwidth == pytest.approx(25e9)


def test_memory_that_was_taken_puts_the_estimate_right(tmp_path: Path, shape: ModelShape) -> None:
    figures, path = MeasuredFigures(tmp_path / "measured.json"), Path("/models/a.gguf")
    so_far = memory_so_far(shape, 8192, 1000)
    whole = memory_need(shape, 8192).total
    unread = (8192 - 1000) // 16 * shape.kv_block_bytes["f16"]
    assert so_far == whole - unread
    figures.add_memory(path, so_far + 50_000_000, so_far)
    measured = MeasuredFigures(tmp_path / "measured.json").of(path)
    assert measured.memory_excess_bytes == 50_000_000
    machine = Machine(16 * 10**9, 12 * 10**9, 10**11, 4, SPEEDS)
    advice = advise(shape, machine, measured=measured)
    assert advice.need.total == whole
    assert advice.memory_bytes == whole + 50_000_000
    assert advice.sentence.endswith("Measured here: 0.5 GB with 8k context.")
    speed = dataclasses.replace(measured, tokens_per_second=121.4, read_tokens_per_second=9.34)
    sentence = advise(shape, machine, measured=speed).sentence
    assert "Measured here: 121 tokens/s, 9.3 tokens/s of a prompt, 0.5 GB" in sentence
    assert "Measured" not in advise(shape, machine).sentence


def test_a_long_chat_that_is_slower_is_told_apart(shape: ModelShape) -> None:
    machine = Machine(16 * 10**9, 12 * 10**9, 10**11, 4, SPEEDS)
    advice = advise(shape, machine)
    assert advice.tokens_per_second == tokens_per_second(shape, SPEEDS, 0)
    assert advice.deep_tokens_per_second == tokens_per_second(shape, SPEEDS, 4096)
    first, deep = round(advice.tokens_per_second), round(advice.deep_tokens_per_second)
    assert f"About {first} tokens/s at first, {deep} after 4k tokens, " in advice.sentence
    short = advise(shape, machine, 512)
    assert not short.becomes_slower
    assert f"About {first} tokens/s, 1 s to read 512 tokens; with 512 context" in short.sentence


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1.0", '"x"', "null", "[]"])
def test_a_damaged_figure_counts_as_none(tmp_path: Path, value: str) -> None:
    file = tmp_path / "measured.json"
    MeasuredFigures(file).add(Path("a"), answer=(100, 4.0), prompt=(0, 0.0))
    assert MeasuredFigures(file).of(Path("a")) == MeasuredModel(tokens_per_second=25.0)
    file.write_text(file.read_text().replace("25.0", value))
    assert MeasuredFigures(file).of(Path("a")) == MeasuredModel()


def test_figures_of_an_older_program_are_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    file.write_text(json.dumps({"a": {"tokens_per_second": 30.0, "read_tokens_per_second": 200}}))
    assert MeasuredFigures(file).of(Path("a")) == MeasuredModel(30.0, 200.0)
