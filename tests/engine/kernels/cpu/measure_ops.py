"""What each kind of op takes of a step, on one thread.

    python -m tests.engine.kernels.cpu.measure_ops MODEL [--tokens 512] [--start 0] [--only attention]

The ops of a step run one by one, each several times; the fastest counts, in processor time of the thread, so that
other programs disturb little. With one token it is a step of decoding, else of reading a prompt whose first
``--start`` tokens have been read: random keys and values stand for theirs. Matmuls are told by their shapes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.kernels.cpu.control import ROW_OPERANDS
from engine.kernels.cpu.lowering import lower
from engine.kernels.cpu.operands import MATMUL_ROWS, MATMUL_WIDTH
from engine.model import load_plan


def measure(path: Path, num_tokens: int, start: int, only: str, repetitions: int) -> dict[str, tuple[int, float]]:
    """For each kind of op how many there are and the seconds that they take together."""
    num_blocks = -(-(start + num_tokens) // 16)
    with open_model(path) as file:
        plan = load_plan(file, start + num_tokens)[1]
        backend = CpuBackend(plan, num_blocks=num_blocks, max_batch_tokens=num_tokens, num_threads=1)
        _fill_cache(backend)
        tokens = np.random.default_rng(0).integers(0, plan.vocab_size, num_tokens).astype(np.int32)
        table = np.arange(num_blocks, dtype=np.int32)
        backend.run([SequenceSlice(tokens, start, table, is_prompt=num_tokens > 1)])
        names = [op.source.name for op in lower(plan, backend._memory, backend._kv_store)]
        empty = _fastest(backend, 0, 0, repetitions)
        taken: dict[str, tuple[int, float]] = {}
        for index, (name, row) in enumerate(zip(names, backend._program, strict=True)):
            if only in name:
                seconds = max(_fastest(backend, index, index + 1, repetitions) - empty, 0.0)
                operands = row[ROW_OPERANDS:]
                shape = f" {operands[MATMUL_ROWS]} x {operands[MATMUL_WIDTH]}" if "matmul_kernel" in name else ""
                count, total = taken.get(name + shape, (0, 0.0))
                taken[name + shape] = count + 1, total + seconds
        backend.close()
        del plan
    return taken


def _fill_cache(backend: CpuBackend) -> None:
    for array in (*backend._kv_store.keys, *backend._kv_store.values):
        halves = array.reshape(-1).view(np.float16)
        halves[:] = np.random.default_rng(0).standard_normal(len(halves), np.float32)


def _fastest(backend: CpuBackend, first: int, end: int, repetitions: int) -> float:
    """Seconds of a run of some ops of the program."""
    backend._team.set_program(backend._program[first:end], backend._state)
    best = float("inf")
    for _ in range(repetitions):
        backend._memory.clear_counters()
        begun = time.thread_time()
        backend._team.run()
        best = min(best, time.thread_time() - begun)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description="What each kind of op takes of a step.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", default="", help="part of the names of the ops wanted")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    taken = measure(arguments.model, arguments.tokens, arguments.start, arguments.only, arguments.repetitions)
    total = sum(seconds for _, seconds in taken.values())
    for name, (count, seconds) in sorted(taken.items(), key=lambda item: -item[1][1]):
        print(f"{seconds * 1e3:10.2f} ms {seconds / total:6.1%}  {count:4} {name}")
    print(f"{total * 1e3:10.2f} ms, {arguments.tokens / total:,.0f} tokens/s on one thread")


if __name__ == "__main__":
    main()
