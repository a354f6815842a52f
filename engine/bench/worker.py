"""``python -m engine.bench.worker ARGUMENTS``: one engine in one process, asked over standard input.

Requests and answers are lines of JSON; the end of the input is the end of the process. Standard output belongs to
the answers alone: whatever a library prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol

import psutil

from engine.errors import EngineError


class Runner(Protocol):
    """What is asked of an engine; see ``own.OwnRunner``."""

    def prefill(self, num_tokens: int) -> float: ...

    def fill(self, depth: int) -> None: ...

    def decode(self, num_tokens: int, depth: int) -> float: ...

    def decode_streams(self, num_tokens: int, num_streams: int) -> float: ...

    def facts(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


def main() -> int:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with answers:
        return serve(json.loads(sys.argv[1]), sys.stdin, answers)


def serve(arguments: dict[str, Any], requests: IO[str], answers: IO[str]) -> int:
    """Do the task that ``arguments["task"]`` names; returns the exit code."""

    def answer(**content: Any) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    task = arguments.pop("task")
    try:
        if task == "first token":
            _first_token(arguments, lambda text: answer(result=text))
        elif task == "bandwidth":
            from engine.bench.bandwidth import measure_bandwidth, measure_file_bandwidth

            path, thread_counts = Path(arguments["path"]), arguments["thread_counts"]
            answer(result=[measure_bandwidth(thread_counts), measure_file_bandwidth(thread_counts, path)])
        elif task == "between steps":
            from engine.bench.between_steps import measure_between_steps

            answer(result=measure_between_steps(Path(arguments.pop("path")), **arguments))
        else:
            _serve_runner(_make_runner(task, arguments), requests, answer)
    except EngineError as error:
        answer(error=str(error))
        return 1
    return 0


def _first_token(arguments: dict[str, Any], tell: Callable[[str], None]) -> None:
    from engine.bench import first_token

    engine, path = arguments.pop("engine"), Path(arguments.pop("path"))
    run = first_token.FIRST_TOKENS[engine]
    tell("begun")
    run(path, on_loaded=lambda: tell("loaded"), **arguments)
    tell("token")


def _make_runner(task: str, arguments: dict[str, Any]) -> Runner:
    path = Path(arguments.pop("path"))
    if task == "own":
        from engine.bench.own import OwnRunner

        return OwnRunner(path, **arguments)
    if task == "ik-llama":
        from engine.bench.ik_llama_peer import IkLlamaRunner

        return IkLlamaRunner(path, **arguments)
    from engine.bench.xllamacpp_peer import XllamacppRunner

    return XllamacppRunner(path, **arguments)


def _serve_runner(runner: Runner, requests: IO[str], answer: Callable[..., None]) -> None:
    answer(result="ready")
    calls: dict[str, Callable[..., Any]] = {
        "prefill": runner.prefill,
        "fill": runner.fill,
        "decode": runner.decode,
        "streams": runner.decode_streams,
        "facts": lambda: {**runner.facts(), "peak_bytes": peak_resident_bytes()},
    }
    for line in requests:
        request = json.loads(line)
        answer(result=calls[request["request"]](**request["arguments"]))
    runner.close()


def peak_resident_bytes() -> int:
    """Largest resident size that this process has had."""
    memory: Any = psutil.Process().memory_info()
    if hasattr(memory, "peak_wset"):  # Windows
        return int(memory.peak_wset)
    status = Path("/proc/self/status")
    if status.exists():  # Linux, where getrusage would count what the parent process had when it forked
        line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # bytes on macOS


if __name__ == "__main__":
    sys.exit(main())
