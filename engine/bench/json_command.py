"""``bench-json``: how fast structured answers are, and that they are valid; beside llama.cpp's server."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from engine.bench.extras import missing_extra
from engine.bench.json_measure import CONTEXT_LENGTH, measure_answers, measure_grammar, measure_rows
from engine.bench.session import XLLAMACPP
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.gguf import open_model
from engine.loader import choose_num_threads
from engine.terminal.models import find_model
from engine.terminal.output import Output
from engine.tokenizer import load_tokenizer

PEER_TIMEOUT_S = 1800


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options beside MODEL and ``--json``."""
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="threads; 0 is one a physical core")
    parser.add_argument(
        "--rows", type=int, default=200, metavar="N", help="rows to extract (%(default)s); 0 is none"
    )
    parser.add_argument("--repetitions", type=int, default=5, metavar="N", help="samples of a median (%(default)s)")
    parser.add_argument("--grammar-only", action="store_true", help="only masks and validity; no weights are read")
    parser.add_argument("--peer", choices=(XLLAMACPP,), help="llama.cpp from its PyPI wheel, after ours")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Measure and print."""
    if not 1 <= arguments.repetitions <= 100 or not 0 <= arguments.rows <= 100_000:
        raise EngineError("Give 1 to 100 repetitions and 0 to 100,000 rows.")
    if arguments.peer and importlib.util.find_spec(XLLAMACPP) is None:
        raise missing_extra(XLLAMACPP)
    path = find_model(arguments.model)
    num_threads = choose_num_threads(arguments.threads)
    report: dict[str, Any] = {"model": path.name, "num_threads": num_threads}
    output.progress("Measuring masks ...")
    with open_model(path) as file:
        tokenizer = load_tokenizer(file.metadata)
    report["grammar"] = measure_grammar(tokenizer)
    if not arguments.grammar_only:
        config = EngineConfig(num_threads=num_threads, context_length=CONTEXT_LENGTH)
        output.progress("Measuring answers ...")
        report["answer"] = measure_answers(path, config, output, arguments.repetitions)
        if arguments.rows:
            report["extraction"] = _rows(arguments, path, config, output)
        if arguments.peer:
            output.progress("Measuring llama.cpp ...")
            report["peer"] = _peer(arguments, path, num_threads)
    output.end_progress()
    output.json(report)
    for line in _lines(report):
        output.text(line)
    return 0


def _rows(arguments: argparse.Namespace, path: Path, config: EngineConfig, output: Output) -> dict[str, Any]:
    def on_row(number: int) -> None:
        output.progress(f"Extracting ... {number:,} of {arguments.rows:,} rows")

    with tempfile.TemporaryDirectory() as folder:
        return measure_rows(path, config, output, arguments.rows, Path(folder), on_row)


def _peer(arguments: argparse.Namespace, path: Path, num_threads: int) -> dict[str, Any]:
    asked = {
        "path": str(path),
        "num_threads": num_threads,
        "repetitions": arguments.repetitions,
        "num_rows": max(1, arguments.rows),
    }
    command = [sys.executable, "-m", "engine.bench.json_peer", json.dumps(asked)]
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PEER_TIMEOUT_S, check=False
    )
    try:
        found: dict[str, Any] = json.loads(ended.stdout)
    except ValueError as error:
        raise EngineError(f"llama.cpp ended without a result (exit code {ended.returncode}).") from error
    if "error" in found:
        raise EngineError(found["error"])
    return found


def _lines(report: dict[str, Any]) -> list[str]:
    """The report for people."""
    grammar, answer, peer, rows = (report.get(name) for name in ("grammar", "answer", "peer", "extraction"))
    assert grammar is not None, "always measured"
    lines = [
        f"vocabulary of {grammar['vocab_size']:,}: first grammar after {grammar['first_grammar_s']:.2f} s, "
        f"other threads stood still for {grammar['longest_stall_ms']:.0f} ms at most",
        f"mask {grammar['mask_median_us']:.0f} us (median), {grammar['mask_p95_us']:.0f} us (95 %)",
        f"drawn at random: {grammar['num_valid']} of {grammar['num_finished']} finished answers are valid",
    ]
    if answer:
        lines.append(
            f"six fields: {answer['constrained_s']:.3f} s, {answer['num_forced_tokens']} of {answer['num_tokens']} "
            f"tokens forced; {answer['ratio_to_free']:.2f} of as many free tokens"
        )
    if answer and peer:
        ratio = answer["constrained_s"] / peer["constrained_s"]
        lines.append(
            f"llama.cpp: {peer['constrained_s']:.3f} s, {peer['num_tokens']} tokens; ours takes {ratio:.2f} of it"
        )
    if rows:
        lines.append(
            f"extraction: {rows['rows_per_minute']:,.0f} rows a minute, "
            f"{rows['num_failed']} of {rows['num_rows']} failed"
        )
    if rows and peer:
        times = rows["rows_per_minute"] / peer["rows_per_minute"]
        lines.append(
            f"llama.cpp one at a time: {peer['rows_per_minute']:,.0f} rows a minute; ours {times:.1f} times that"
        )
    return lines
