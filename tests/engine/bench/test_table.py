"""The table: every figure in its place."""

from __future__ import annotations

from engine.bench.results import (
    OWN,
    BetweenSteps,
    BusyResult,
    ProcessResult,
    Report,
    Series,
    SpeedResult,
    SpeedTest,
    StartResult,
)
from engine.bench.table import render_table


def full_report() -> Report:
    """A report with all sections, one peer."""
    model: dict[str, object] = {
        "name": "M",
        "architecture": "llama",
        "tensor_type": "Q4_0",
        "file_bytes": 98_000_000,
    }
    machine: dict[str, object] = {"processor": "Chip", "physical_cores": 2, "instruction_set": "avx2"}
    report = Report(model, machine, [OWN, "peer"], {1: 25e9, 2: 34.5e9})
    prefill, decode = SpeedTest("prefill", 512, 0, 2), SpeedTest("decode", 32, 0, 2)
    report.speeds = [
        SpeedResult(prefill, {OWN: Series([1500.0]), "peer": Series([300.0, 310.0])}),
        SpeedResult(decode, {OWN: Series([90.0]), "peer": Series([45.0])}, 100_000_000, 34.5e9),
    ]
    report.start = StartResult(
        {OWN: Series([0.2]), "peer": Series([0.1])}, {OWN: Series([0.25]), "peer": Series([0.5])}
    )
    report.between_steps = [BetweenSteps("greedy", 0.0004, 0.0076)]
    report.first_compile_s = 12.0
    report.processes = [ProcessResult(OWN, 300_000_000, 90_000_000, 112_000_000, 0.0)]
    report.busy = [
        BusyResult(
            decode,
            3,
            0.4,
            {OWN: Series([90.0]), "peer": Series([45.0])},
            {OWN: Series([36.0]), "peer": Series([9.0])},
        )
    ]
    report.notes = ["Something."]
    return report


def row(table: str, start: str) -> list[str]:
    line = next(line for line in table.splitlines() if line.startswith(start))
    return line.removeprefix(start).split()


def test_speeds_have_ratio_share_and_number_of_samples() -> None:
    table = render_table(full_report())
    assert row(table, "prefill 512") == ["2", "1,500", "305", "4.92", "1/2"]
    assert row(table, "decode at 0  ")[:5] == ["2", "90.0", "45.0", "2.00", "26%"]


def test_times_turn_the_ratio_round() -> None:
    table = render_table(full_report())
    assert row(table, "model loaded") == ["200", "100", "0.50"]
    assert row(table, "first token  ") == ["250", "500", "2.00"]
    assert row(table, "first token, nothing compiled yet") == ["12,000"]


def test_the_rest_is_there() -> None:
    table = render_table(full_report())
    assert row(table, "greedy") == ["400", "5.0%"]
    assert row(table, OWN) == ["300", "MB", "90", "MB", "112", "MB", "0%"]
    assert "25.0 GB/s with 1 thread, 34.5 GB/s with 2 threads" in table
    assert "Beside busy processes (3)" in table
    assert "40%" in table
    assert "20%" in table
    assert "Note: Something." in table


def test_empty_sections_are_left_out() -> None:
    report = full_report()
    report.busy, report.processes, report.start, report.first_compile_s = [], [], StartResult(), None
    report.between_steps = []
    table = render_table(report)
    assert "Beside" not in table
    assert "Between" not in table
    assert "idle" not in table
    assert "From the start" not in table
