"""``python -m tests.engine.advisor.measure CONTEXT MODEL...``: what models really take, beside what was advised.

MODEL is a file or a synthetic shape such as ``1b-q4_k_m``. Each is loaded as the engine does, in a process of its
own, its context filled. Prints a line of JSON for each: resident bytes, tokens a second with half the context read,
seconds to read 4096 tokens, and what the advisor said of all three. ``--kv-type q8_0`` for a compact KV cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil

from engine.advisor import advise, look_at_machine, shape_of
from engine.advisor.advice import READ_TOKENS
from engine.bench.token_ids import random_token_ids
from engine.config import EngineConfig
from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.loader import LoadedModel, load_model
from engine.protocol import LoadModel

STEP_TOKENS = 512
NUM_DECODES = 24


def _measure(path: Path, context_length: int, kv_type: str) -> dict[str, float]:
    with open_model(path) as file:
        advice = advise(shape_of(file), look_at_machine(path.parent), context_length, kv_type)  # type: ignore[arg-type]
    context_length = advice.need.context_length
    command = LoadModel(path, context_length, kv_type=kv_type)  # type: ignore[arg-type]
    model = load_model(command, EngineConfig(), lambda phase, fraction, message: None)
    seconds = _read(model, context_length)
    decode_s = _decode(model, context_length // 2)
    figures = {
        "estimate": advice.need.total,
        "actual": psutil.Process().memory_info().rss,
        "tokens_per_second_estimate": advice.tokens_per_second,
        "tokens_per_second": 1 / decode_s,
        "read_seconds_estimate": advice.read_seconds,
        "read_seconds": seconds,
        "is_measured": advice.is_measured,
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
        started = time.perf_counter()
        model.backend.run([SequenceSlice(token_ids[start:stop], start, table[: -(-stop // 16)], "last")])
        seconds += time.perf_counter() - started if stop <= READ_TOKENS else 0.0
    return seconds


def _decode(model: LoadedModel, depth: int) -> float:
    """Seconds of one token after so many, at best."""
    table = np.arange(depth // 16 + 1, dtype=np.int32)
    token = np.zeros(1, np.int32)
    times = []
    for _ in range(NUM_DECODES):
        started = time.perf_counter()
        model.backend.run([SequenceSlice(token, depth, table, "last")])
        times.append(time.perf_counter() - started)
    return min(times)  # a neighbour can only take away


def main() -> int:
    """Measure the models that are named; returns the exit status."""
    parser = argparse.ArgumentParser(prog="measure", description="What models take beside what was advised.")
    parser.add_argument("context", type=int)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--kv-type", choices=("f16", "q8_0"), default="f16")
    arguments = parser.parse_args()
    if len(arguments.models) > 1:
        for model in arguments.models:
            command = [sys.executable, "-m", "tests.engine.advisor.measure", str(arguments.context), model]
            status = subprocess.run([*command, "--kv-type", arguments.kv_type], check=False).returncode
            if status:
                return status
        return 0
    (name,) = arguments.models
    path = Path(name)
    if not path.exists():
        from engine.bench.synthetic import cached_model

        path = cached_model(name)
    print(json.dumps({"model": path.name, **_measure(path, arguments.context, arguments.kv_type)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
