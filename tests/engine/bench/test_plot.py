"""The plot: a picture is written, and what cannot be is said before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.bench.plot import _title, check_plot, write_plot
from engine.errors import EngineError
from tests.engine.bench.test_table import full_report


def test_plots_are_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_plot(full_report(), tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    write_plot(full_report(), tmp_path / "out.svg")
    assert "<svg" in (tmp_path / "out.svg").read_text(encoding="utf-8")


def test_one_kind_of_test_is_enough(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report = full_report()
    del report.speeds[0]
    write_plot(report, tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 1000


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"\.png, \.svg, \.pdf"):
        check_plot(tmp_path / "out.txt")
    with pytest.raises(EngineError, match="does not exist"):
        check_plot(tmp_path / "absent" / "out.png")


def test_what_cannot_be_written_is_said_before(tmp_path: Path) -> None:
    (tmp_path / "out.png").mkdir()
    with pytest.raises(EngineError, match=r"out\.png is a folder"):
        check_plot(tmp_path / "out.png")


def test_a_type_that_the_name_tells_is_not_told_twice() -> None:
    report = full_report()
    report.model |= {"name": "synthetic 1b q4_0", "tensor_type": "Q4_0"}
    report.machine["processor"] = "CPU"
    assert _title(report) == "synthetic 1b q4_0, CPU"
    report.model["name"] = "SmolLM2"
    assert _title(report) == "SmolLM2 Q4_0, CPU"


def test_without_matplotlib_what_adds_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(EngineError, match="-m pip install matplotlib"):
        check_plot(tmp_path / "out.png")
