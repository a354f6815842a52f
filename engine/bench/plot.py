"""The report as a picture: prefill and decode side by side, bars of each engine. Needs matplotlib."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from engine.bench.extras import missing_extra
from engine.bench.results import OWN, Report, SpeedResult
from engine.errors import EngineError

SUFFIXES = (".png", ".svg", ".pdf")
_COLORS = ("#d9622b", "#8a8f98", "#4c6a92")


def check_plot(path: Path) -> None:
    """Find out before an hour of measuring. Raises EngineError when ``path`` cannot be plotted to."""
    if path.suffix.lower() not in SUFFIXES:
        raise EngineError(f"A plot is written as {', '.join(SUFFIXES)}, so {path.name} cannot be one.")
    folder = path.absolute().parent
    if not os.path.isdir(folder):
        raise EngineError(f"The folder {folder} for the plot does not exist.")
    if os.path.isdir(path):
        raise EngineError(f"{path} is a folder; a plot is written to a file.")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise EngineError(f"The plot {path} cannot be written: you may not write there.")
    _matplotlib()


def write_plot(report: Report, path: Path) -> None:
    """Draw the speeds into ``path``. Raises EngineError when it cannot be written."""
    figure_class, canvas_class = _matplotlib()
    groups = [
        ("Reading a prompt", [result for result in report.speeds if result.test.kind == "prefill"]),
        ("Writing an answer", [result for result in report.speeds if result.test.kind == "decode"]),
        ("Writing several", [result for result in report.speeds if result.test.kind == "streams"]),
    ]
    groups = [group for group in groups if group[1]]
    figure = figure_class(figsize=(5.5 * max(1, len(groups)), 4.2), layout="constrained")
    canvas_class(figure)
    for index, (title, results) in enumerate(groups):
        _draw(figure.add_subplot(1, len(groups), index + 1), title, results, report)
    figure.suptitle(_title(report), fontsize=10)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise EngineError(f"The plot {path} cannot be written: {error.strerror}.") from error


def _title(report: Report) -> str:
    """Model and machine; many a model's name holds its tensor type already."""
    name, tensor_type = str(report.model["name"]), str(report.model["tensor_type"])
    if tensor_type.lower() not in name.lower():
        name += f" {tensor_type}"
    return f"{name}, {report.machine['processor']}"


def _draw(axes: Any, title: str, results: list[SpeedResult], report: Report) -> None:
    width = 0.8 / len(report.engines)
    for number, name in enumerate(report.engines):
        heights = [result.speeds[name].median or 0.0 for result in results]
        places = [index + (number - (len(report.engines) - 1) / 2) * width for index in range(len(results))]
        bars = axes.bar(places, heights, width * 0.92, label=name, color=_COLORS[number % len(_COLORS)])
        labels = [_bar_label(result, name, report) for result in results]
        axes.bar_label(bars, labels, fontsize=7, padding=2)
    axes.set_title(title, fontsize=10)
    axes.set_ylabel("tokens/s")
    axes.set_xticks(
        range(len(results)),
        [f"{result.test.label}\n{result.test.num_threads} thr." for result in results],
        fontsize=7,
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.12)
    if len(report.engines) > 1:
        axes.legend(frameon=False, fontsize=8)


def _bar_label(result: SpeedResult, name: str, report: Report) -> str:
    text = f"{result.speeds[name].median or 0:,.0f}"
    ratios = [value for value in report.ratios(result.speeds).values() if value]
    return f"{text}\n{ratios[0]:.2f}x" if name == OWN and ratios else text


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("matplotlib") from error
    return Figure, FigureCanvasAgg
