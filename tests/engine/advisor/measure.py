"""``python -m tests.engine.advisor.measure CONTEXT MODEL...``: what models really take, beside what was advised.

MODEL is a file or a synthetic shape such as ``1b-q4_k_m``. Each is loaded as the engine does, in a process of its
own, its context filled. Prints a line of JSON for each: resident bytes, tokens a second with half the context read,
seconds to read READ_TOKENS, and what the advisor said of all three. ``--kv-type q8_0`` takes a compact KV cache.

The speeds are those of one thread by the time of the processor, kernels and models alike, so that the formula can
be judged while other work goes on; how well the threads share is the benchmark's affair.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil

from engine.advisor import Speeds, advise, look_at_machine, shape_of
from engine.advisor.advice import READ_TOKENS
from engine.advisor.machine import MEASURED_TYPES, measure_type
from engine.bench.token_ids import random_token_ids
from engine.config import EngineConfig, KVType
from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.loader import LoadedModel, load_model
from engine.protocol import LoadModel

STEP_TOKENS = 512
NUM_DECODES = 24


def _measure(path: Path, context_length: int, kv_type: KVType, speeds: Speeds | None) -> dict[str, float]:
    machine = look_at_machine(path.parent)
    with open_model(path) as file:
        shape = shape_of(file)
    advice = advise(shape, dataclasses.replace(machine, speeds=speeds or machine.speeds), context_length, kv_type)
    context_length = advice.need.context_length
    command = LoadModel(path, context_length, num_threads=1 if speeds else 0, kv_type=kv_type)
    model = load_model(command, EngineConfig(), lambda phase, fraction, message: None)
    read_s = _read(model, context_length)
    figures: dict[str, float] = {"estimate": advice.need.total, "actual": psutil.Process().memory_info().rss}
    if speeds is not None:
        figures |= {
            "tokens_per_second_estimate": round(advice.tokens_per_second, 2),
            "tokens_per_second": round(1 / _decode(model, context_length // 2), 2),
            "read_seconds_estimate": round(advice.read_seconds, 2),
            "read_seconds": round(read_s, 2),
        }
    model.close()
    return figures


def _read(model: LoadedModel, context_length: int) -> float:
    """Fill the context; seconds of the first READ_TOKENS."""
    token_ids = random_token_ids(model.info.vocab_size, context_length)
    table = np.arange(-(-context_length // 16), dtype=np.int32)
    seconds = 0.0
    for start in range(0, context_length, STEP_TOKENS):
        stop = min(start + STEP_TOKENS, context_length)
        started = time.process_time()
        model.backend.run([SequenceSlice(token_ids[start:stop], start, table[: -(-stop // 16)], "last")])
        seconds += time.process_time() - started if stop <= READ_TOKENS else 0.0
    return seconds


def _decode(model: LoadedModel, depth: int) -> float:
    """Seconds of one token after so many, at best."""
    table = np.arange(depth // 16 + 1, dtype=np.int32)
    token = np.zeros(1, np.int32)
    times = []
    for _ in range(NUM_DECODES):
        started = time.process_time()
        model.backend.run([SequenceSlice(token, depth, table, "last")])
        times.append(time.process_time() - started)
    return min(times)  # a neighbour can only take away


def _one_thread_speeds() -> Speeds:
    rates = {type: measure_type(type, 1, time.process_time) for type in MEASURED_TYPES}
    return Speeds(
        {type: read for type, (read, _) in rates.items()}, {type: each for type, (_, each) in rates.items()}
    )


def main() -> int:
    """Measure the models that are named; returns the exit status."""
    parser = argparse.ArgumentParser(prog="measure", description="What models take beside what was advised.")
    parser.add_argument("context", type=int)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--kv-type", choices=("f16", "q8_0"), default="f16")
    parser.add_argument("--memory", action="store_true", help="memory alone, with all threads")
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
    speeds = None if arguments.memory else _one_thread_speeds()
    print(
        json.dumps({"model": path.name, **_measure(path, arguments.context, arguments.kv_type, speeds)}), flush=True
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
