"""The report as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from engine.bench.results import OWN, Report, Series


def render_table(report: Report) -> str:
    """Everything the report holds, as lines of text."""
    parts = [_head(report), *(columns(*section) for section in _sections(report))]
    if report.notes:
        parts.append("\n".join(f"Note: {note}" for note in report.notes))
    return "\n\n".join(part for part in parts if part)


def _head(report: Report) -> str:
    model, machine = report.model, report.machine
    name = f"{model['name']} ({model['architecture']}, {model['tensor_type']}, {_megabytes(model['file_bytes'])})"
    isa = machine.get("instruction_set")
    text = f"{machine['processor']}, {machine['physical_cores']} cores" + (f", {isa}" if isa else "")
    gives, file_gives = (_rates(rates) for rates in (report.bandwidth, report.file_bandwidth))
    if "kv_type" in model:
        name += f", KV cache {model['kv_type']}"
    return (
        f"Model    {name}\nMachine  {text}\nMemory   {gives}\nFile     {file_gives}, straight through its mapping"
    )


def _rates(by_threads: dict[int, float]) -> str:
    return ", ".join(
        f"{value / 1e9:.1f} GB/s with {threads} thread{'s' if threads > 1 else ''}"
        for threads, value in by_threads.items()
    )


Rows = list[list[str]]


def _sections(report: Report) -> list[tuple[str, list[str], Rows]]:
    peers = [name for name in report.engines if name != OWN]
    ratios = [f"x {name}" for name in peers]
    return [
        (
            "Speed, tokens/s",
            ["test", "threads", *report.engines, *ratios, "of bandwidth", "samples"],
            _speed_rows(report),
        ),
        ("Between two steps while an answer is written", ["", "us", "of the time"], _between_rows(report)),
        ("From the start of the process, ms", ["", *report.engines, *ratios], _start_rows(report)),
        ("Process", ["", "peak", "KV cache", "beyond file and KV", "idle CPU"], _process_rows(report)),
        (
            f"Beside busy processes ({report.busy[0].num_neighbours})" if report.busy else "",
            ["test", "fair share", *(f"{name} keeps" for name in report.engines)],
            _busy_rows(report),
        ),
    ]


def columns(title: str, header: Sequence[str], rows: Rows) -> str:
    """A table below ``title``, the first column to the left; empty without rows."""
    if not rows:
        return ""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths))
        )
        for row in (header, *rows)
    ]
    return "\n".join([title, *(line.rstrip() for line in lines)])


def _speed_rows(report: Report) -> Rows:
    rows = []
    for result in report.speeds:
        share = result.bandwidth_share(OWN)
        rows.append(
            [
                result.test.label,
                str(result.test.num_threads),
                *(_number(result.speeds[name].median) for name in report.engines),
                *(_times(value) for value in report.ratios(result.speeds).values()),
                f"{share:.0%}" if share is not None else "",
                "/".join(str(len(result.speeds[name].samples)) for name in report.engines),
            ]
        )
    return rows


def _between_rows(report: Report) -> Rows:
    return [
        [result.label, f"{result.between_s * 1e6:,.0f}", f"{result.share:.1%}"] for result in report.between_steps
    ]


def _start_rows(report: Report) -> Rows:
    rows = []
    for label, series in (("model loaded", report.start.loads), ("first token", report.start.first_tokens)):
        if series:
            ratios = report.ratios(series, is_time=True)
            peers = [name for name in report.engines if name != OWN]
            rows.append(
                [
                    label,
                    *(_milliseconds(series.get(name)) for name in report.engines),
                    *(_times(ratios.get(name)) for name in peers),
                ]
            )
    if report.first_compile_s is not None:
        row = ["first token, nothing compiled yet", f"{report.first_compile_s * 1e3:,.0f}"]
        rows.append(row + [""] * (2 * len(report.engines) - 2))
    return rows


def _process_rows(report: Report) -> Rows:
    return [
        [
            result.engine,
            _megabytes(result.peak_bytes),
            _megabytes(result.kv_bytes),
            _megabytes(result.beyond_bytes),
            f"{result.idle_cpu_share:.0%}",
        ]
        for result in report.processes
    ]


def _busy_rows(report: Report) -> Rows:
    rows = []
    for result in report.busy:
        kept = [result.share_kept(name) for name in report.engines]
        shares = ["" if share is None else f"{share:.0%}" for share in kept]
        rows.append([result.test.label, f"{result.fair_share:.0%}", *shares])
    return rows


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _milliseconds(series: Series | None) -> str:
    return "" if series is None or series.median is None else f"{series.median * 1e3:,.0f}"


def _megabytes(num_bytes: object) -> str:
    return f"{num_bytes / 1e6:,.0f} MB" if isinstance(num_bytes, int) else ""
