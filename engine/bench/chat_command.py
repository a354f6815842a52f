"""``bench-chat``: the arguments, and its results as a table."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from typing import Any

from engine.bench.chat_run import Step
from engine.bench.chat_scenarios import replay_on_peer, run_chats
from engine.bench.command import check_peer
from engine.bench.session import XLLAMACPP
from engine.bench.table import columns
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.loader import choose_num_threads
from engine.terminal.models import find_model
from engine.terminal.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options beside MODEL and ``--json``."""
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="threads (0: one a physical core)")
    parser.add_argument("--paste", type=int, default=8000, metavar="N", help="tokens of the long paste (0: none)")
    parser.add_argument("--peer", choices=(XLLAMACPP,), help="the same prompts on llama.cpp's server, afterwards")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Measure and print."""
    if arguments.peer:
        check_peer()
    if arguments.paste < 0:
        raise EngineError(f"--paste {arguments.paste}: the number of tokens is 0 or more.")
    path, num_threads = find_model(arguments.model), choose_num_threads(arguments.threads)

    def on_progress(text: str) -> None:
        output.progress(f"Measuring {text} ...")

    try:
        report = run_chats(path, EngineConfig(num_threads=num_threads), arguments.paste, on_progress)
        if arguments.peer:
            report["steps"] = replay_on_peer(path, report["steps"], num_threads, on_progress)
    finally:
        output.end_progress()
    output.text(render(report, bool(arguments.peer)))
    output.json({**report, "steps": [_plain(step) for step in report["steps"]]})
    return 0


def render(report: dict[str, Any], has_peer: bool) -> str:
    """The report as text."""
    header = ["", "prompt", "read", "first token ms", "x reading alone", "at that depth", "why"]
    rows = [_row(step) for step in report["steps"]]
    if has_peer:
        header += ["llama.cpp read", "ms", "ours / llama.cpp"]
        rows = [[*row, *_peer(step)] for row, step in zip(rows, report["steps"])]
    speculation = [
        [
            each["task"],
            f"{each['off']:.1f}",
            f"{each['on']:.1f}",
            f"{each['on'] / each['off']:.2f}" if each["off"] else "",
            f"{each['num_accepted_tokens']} of {each['num_proposed_tokens']}",
            "same" if each["is_same_text"] else "DIFFERENT",
        ]
        for each in report["speculation"]
    ]
    return "\n\n".join(
        [
            f"Model    {report['model']}",
            columns("Turns", header, rows),
            *_beside(report["beside"]),
            *_stops(report["stops_ms"]),
            columns("Speculation, tokens/s", ["", "off", "on", "x", "accepted", "text"], speculation),
        ]
    )


def _beside(beside: dict[str, float] | None) -> list[str]:
    if beside is None:
        return []
    return [
        f"A paste of {beside['num_read_tokens']:,} tokens: {beside['read_alone_s']:.1f} s alone, "
        f"{beside['read_s']:.1f} s beside a stream.\n"
        f"The stream: {beside['alone_ms']:.1f} ms a token alone, {beside['beside_ms']:.1f} ms beside the paste "
        f"(x {beside['ratio']:.2f}; median {beside['median_ms']:.1f}, longest {beside['longest_ms']:.0f})."
    ]


def _stops(times_ms: Sequence[float]) -> list[str]:
    if not times_ms:
        return []
    median, longest = statistics.median(times_ms), max(times_ms)
    return [f"A stop while it is read: {median:.1f} ms, the longest {longest:.0f} of {len(times_ms)}."]


def _row(step: Step) -> list[str]:
    ratios = [f"{step.first_token_ms / ms:.2f}" if ms else "" for ms in (step.alone_ms, step.deep_ms)]
    return [
        f"{step.scenario}: {step.label}",
        f"{step.num_prompt_tokens:,}",
        f"{step.num_read_tokens:,}",
        f"{step.first_token_ms:,.0f}",
        *ratios,
        step.reread_reason,
    ]


def _peer(step: Step) -> Sequence[str]:
    if step.peer_first_token_ms is None:
        return ["", "", ""]
    ratio = step.first_token_ms / step.peer_first_token_ms if step.peer_first_token_ms else 0.0
    return [f"{step.peer_read_tokens:,}", f"{step.peer_first_token_ms:,.0f}", f"{ratio:.2f}"]


def _plain(step: Step) -> dict[str, Any]:
    return {name: value for name, value in vars(step).items() if name != "messages"}
