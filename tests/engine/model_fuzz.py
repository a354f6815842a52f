"""Bent model files: each loads and computes, or is refused with one sentence, soon and in little memory.

    python -m tests.engine.model_fuzz [--mutations 20000] [--seed 1] [NAME ...]

Whatever still loads is computed with the reference backend and lowered for the CPU. The names are those of golden
models; the tests run a short version.
"""

from __future__ import annotations

import argparse
import random
import resource
import struct
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from engine.advisor import shape_of
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.gguf import HeaderFile, open_model
from engine.gguf.header import read_header
from engine.hub.remote_header import _mapped
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu.kv_store import KVStore
from engine.kernels.cpu.lowering import lower
from engine.kernels.cpu.memory import Memory
from engine.loader import load_model
from engine.model import load_plan
from engine.model.plan import Plan
from engine.protocol import LoadModel
from tests.engine.bent_models import Bent, bend, take_apart

CONTEXT_LENGTH = 64
LIMIT_S = 60.0  # of less than a second
LIMIT_BYTES = 1 << 30  # beyond what the process had used before
MAX_MESSAGE = 400
CONFIG = EngineConfig(backend="reference", max_batch_tokens=8, kv_bytes=1 << 22)


def attempt(path: Path) -> str:
    """Load and compute the file; returns "loaded", or the name of the error that refused it.

    Raises AssertionError for a refusal that is no single, short sentence and for what took too long, and anything
    else that is no refusal, warnings included.
    """
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            _compute(path)
            outcome = "loaded"
        except EngineError as error:
            _check_sentence(path, str(error))
            outcome = type(error).__name__
    spent = time.perf_counter() - started
    assert spent < LIMIT_S, f"{spent:.1f} s"
    return outcome


def _check_sentence(path: Path, message: str) -> None:
    """A refusal is short, printable text that names the file."""
    assert message.startswith(path.name + ": "), message
    assert message.isprintable(), message
    assert 30 < len(message) < MAX_MESSAGE, message


def _compute(path: Path) -> None:
    with open_model(path) as file:
        plan = load_plan(file, CONTEXT_LENGTH)[1]
        lower_for_cpu(plan)
        shape_of(file)
        del plan
        data_offset = min(tensor.offset for tensor in file.tensors.values())
    # As the hub's page sees it, where the same header stands without its weights.
    data, size = path.read_bytes()[:data_offset], path.stat().st_size
    shape_of(HeaderFile((path,), [size], [read_header(path, _mapped(data), file_bytes=size)]))
    model = load_model(LoadModel(path, CONTEXT_LENGTH), CONFIG, lambda phase, fraction, message: None)
    try:
        num_tokens = min(5, model.info.context_length)
        token_ids = np.arange(num_tokens, dtype=np.int32) % model.info.vocab_size
        logits = model.backend.run([SequenceSlice(token_ids, 0, np.array([1, 0], np.int32), logits="all")])
        assert logits.shape == (num_tokens, model.info.vocab_size)
        model.tokenizer.decode(model.tokenizer.encode_prompt([("the <|bos|> \u00e9\ud800\n", False)]))
    finally:
        model.close()


def lower_for_cpu(plan: Plan) -> int:
    """Make the CPU's program without compiling a kernel; returns its number of rows."""
    memory = Memory(
        max_batch_tokens=8,
        max_logit_rows=8,
        num_blocks=2,
        num_counters=len(plan.ops),
        num_experts_used=plan.num_experts_used,
        num_states=1 if plan.state_sizes else 0,
    )
    return len(lower(plan, memory, KVStore(plan, 2)))


def bent_files(
    sources: list[Path], folder: Path, num_mutations: int, seed: int
) -> Iterator[tuple[str, Path, Bent]]:
    """Bent versions of the files in turn: what was done, and the file, which the next one replaces."""
    rng = random.Random(seed)
    parts = {path: take_apart(path) for path in sources}
    for number in range(num_mutations):
        source = sources[number % len(sources)]
        bent, told = bend(parts[source], rng)
        path = folder / "bent.gguf"
        try:
            bent.write(path)
        except (struct.error, OverflowError):  # a value that its type does not hold
            continue
        yield f"{source.stem} with {told}", path, bent


def peak_bytes() -> int:
    """The most memory that this process has ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    from tests.golden_models import golden_names, write_golden_model

    parser = argparse.ArgumentParser(description="Bent model files.")
    parser.add_argument("names", nargs="*", default=golden_names("tiny", "tiny2", "hybrid"))
    parser.add_argument("--mutations", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    outcomes: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        sources = [write_golden_model(name, folder) for name in arguments.names]
        for told, path, _ in bent_files(sources, folder, arguments.mutations, arguments.seed):
            try:
                outcomes[attempt(path)] += 1
            except Exception as error:
                place = [
                    frame for frame in traceback.extract_tb(error.__traceback__) if "/engine/" in frame.filename
                ]
                kind = f"{type(error).__name__} {Path(place[-1].filename).name}:{place[-1].lineno}"
                broken[kind] += 1
                if broken[kind] <= 3:
                    print(f"{told}\n    {kind}: {str(error)[:300]}", flush=True)
    print(dict(outcomes))
    print(dict(broken), "peak", peak_bytes() >> 20, "MiB")


if __name__ == "__main__":
    main()
