"""``python -m tests.engine.advisor.measure CONTEXT MODEL...``: what models really take, beside what was advised.

MODEL is a file or a synthetic shape such as ``1b-q4_k_m``. Each is loaded as the engine does, in a process of its
own, its context filled. Prints a line of JSON for each: resident bytes, tokens a second at the start and with half
the context read, tokens read a second of a prompt of READ_TOKENS, and what the advisor said of each.
``--kv-type q8_0`` takes a compact KV cache.

Kernels and models are timed one after the other, by rounds that nothing disturbed (``engine.advisor.timing``);
``is_quiet`` is false where there were too few.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import psutil

from engine.advisor import Speeds, advise, look_at_machine, shape_of
from engine.advisor.advice import READ_TOKENS, read_seconds, tokens_per_second
from engine.advisor.kernel_speeds import MEASURED_TYPES, TypeSpeed, measure_type
from engine.advisor.timing import Timing, team_clocks, time_runs
from engine.bench.token_ids import random_token_ids
from engine.config import EngineConfig, KVType
from engine.gguf import open_model
from engine.gguf.tensor_types import TensorType
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.loader import LoadedModel, load_model
from engine.protocol import LoadModel

STEP_TOKENS = 512
TRIES = 5  # to find the machine quiet


def _measure(path: Path, context_length: int, kv_type: KVType, speeds: Speeds | None) -> dict[str, object]:
    machine = look_at_machine(path.parent)
    with open_model(path) as file:
        shape = shape_of(file)
    advice = advise(shape, machine, context_length, kv_type)
    context_length = advice.need.context_length
    command = LoadModel(path, context_length, num_threads=0, kv_type=kv_type)
    model = load_model(command, EngineConfig(), lambda phase, fraction, message: None)
    _read(model, 0, context_length)
    figures: dict[str, object] = {"estimate": advice.need.total, "actual": psutil.Process().memory_info().rss}
    if speeds is not None:
        half = context_length // 2
        num_read = min(READ_TOKENS, context_length)
        first, deep = (_time(model, partial(_decode, model, depth)) for depth in (0, half))
        read = _time(model, partial(_read, model, 0, num_read))
        figures |= {
            "decode": _pair(tokens_per_second(shape, speeds, 0, kv_type), first, 1),
            f"decode after {half}": _pair(tokens_per_second(shape, speeds, half, kv_type), deep, 1),
            f"read {num_read}": _pair(num_read / read_seconds(shape, speeds, num_read), read, num_read),
            "is_quiet": first.is_quiet and deep.is_quiet and read.is_quiet,
        }
    model.close()
    return figures


def _pair(estimate: float, timing: Timing, num_tokens: int) -> dict[str, float | None]:
    actual = num_tokens / timing.seconds if timing.seconds else None
    return {"estimate": round(estimate, 1), "actual": actual and round(actual, 1)}


def _time(model: LoadedModel, run: Callable[[], object]) -> Timing:
    backend = model.backend
    assert isinstance(backend, CpuBackend)
    return time_runs(run, team_clocks(backend.cpu_seconds, backend.num_threads))


def _read(model: LoadedModel, start: int, end: int) -> None:
    """Compute the tokens of a context from one position to another."""
    token_ids = random_token_ids(model.info.vocab_size, end)
    table = np.arange(-(-end // 16), dtype=np.int32)
    for begin in range(start, end, STEP_TOKENS):
        stop = min(begin + STEP_TOKENS, end)
        model.backend.run([SequenceSlice(token_ids[begin:stop], begin, table[: -(-stop // 16)], "last")])


def _decode(model: LoadedModel, depth: int) -> None:
    """One token after so many."""
    table = np.arange(depth // 16 + 1, dtype=np.int32)
    model.backend.run([SequenceSlice(np.zeros(1, np.int32), depth, table, "last")])


def _speeds() -> Speeds:
    kept: dict[TensorType, TypeSpeed] = {}
    for type in MEASURED_TYPES:
        for _ in range(TRIES):
            measured = measure_type(type)
            kept[type] = measured.better(kept.get(type, TypeSpeed()))
            if measured.num_quiet:
                break
    if disturbed := [type.name for type, speed in kept.items() if not speed.num_quiet]:
        print(f"the kernels were disturbed: {', '.join(disturbed)}", file=sys.stderr)
    return Speeds(
        {type: max(1.0, speed.bytes_per_s) for type, speed in kept.items()},
        {type: max(1.0, speed.values_per_s) for type, speed in kept.items()},
    )


def main() -> int:
    """Measure the models that are named; returns the exit status."""
    parser = argparse.ArgumentParser(prog="measure", description="What models take beside what was advised.")
    parser.add_argument("context", type=int)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--kv-type", choices=("f16", "q8_0"), default="f16")
    parser.add_argument("--memory", action="store_true", help="memory alone")
    arguments = parser.parse_args()
    if len(arguments.models) > 1:
        options = ["--kv-type", arguments.kv_type, *(["--memory"] if arguments.memory else [])]
        for model in arguments.models:
            command = [
                sys.executable,
                "-m",
                "tests.engine.advisor.measure",
                str(arguments.context),
                model,
                *options,
            ]
            if status := subprocess.run(command, check=False).returncode:
                return status
        return 0
    (name,) = arguments.models
    path = Path(name)
    if not path.exists():
        from engine.bench.synthetic import cached_model

        path = cached_model(name)
    speeds = None if arguments.memory else _speeds()
    figures = _measure(path, arguments.context, arguments.kv_type, speeds)
    print(json.dumps({"model": path.name, **figures}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
