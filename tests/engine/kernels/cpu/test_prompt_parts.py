"""What is kept of a prompt, and the logits after it, are the same to the bit wherever it was cut."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.model import load_plan
from tests import tiny_models
from tests.golden_models import write_golden_model

LENGTH, NUM_BLOCKS = 600, 80
SIZES = (1, 1, 2, 3, 5, 8, 13, 16, 17, 33, 64, 100, 200)
TABLE = np.arange(NUM_BLOCKS, dtype=np.int32)[::-1].copy()


def _path(name: str, folder: Path) -> Path:
    if name in tiny_models.RECIPES:
        return tiny_models.write_tiny_model(name, folder)
    return write_golden_model(name, folder)


def _read(backend: CpuBackend, tokens: npt.NDArray[np.int32], sizes: list[int]) -> tuple[bytes, bytes]:
    """What is kept of all tokens, keys and values or a state, and the logits after the last."""
    start = 0
    if backend.state_bytes:
        backend.write_state(0, None)
    for size in sizes:
        part = SequenceSlice(tokens[start : start + size], start, TABLE, is_prompt=True)
        logits = backend.run([part])
        start += size
    kept = np.empty((-(-len(tokens) // 16), backend.block_bytes), np.uint8)
    backend.read_blocks(TABLE[: len(kept)], kept)
    state = backend.read_state(0).tobytes() if backend.state_bytes else b""
    return kept.tobytes() + state, logits.tobytes()


@pytest.mark.parametrize(
    ("name", "kv_type"),
    [
        *(("llama_q8", "f16"), ("llama_q8", "q8_0"), ("llama-256_q4_k", "f16"), ("gemma3_q8", "f16")),
        *(("granite_swa", "f16"), ("llama-moe_q8", "f16"), ("deepseek2", "f16"), ("qwen35_q8", "f16")),
    ],
)
def test_a_prompt_is_the_same_wherever_it_is_cut(name: str, kv_type: str, tmp_path: Path) -> None:
    """Windows of 8 tokens, experts with few tokens each, and heads with matrices of their own among them."""
    rng = random.Random(name)
    with open_model(_path(name, tmp_path)) as file:
        plan = load_plan(file, LENGTH)[1]
        backend = CpuBackend(plan, num_blocks=NUM_BLOCKS, num_threads=2, kv_type=kv_type)
        tokens = np.array([rng.randrange(plan.vocab_size) for _ in range(LENGTH)], np.int32)
        whole = _read(backend, tokens, [300, 300])
        for _ in range(4):
            sizes: list[int] = []
            while (left := LENGTH - sum(sizes)) > 0:
                sizes.append(min(left, rng.choice(SIZES)))
            assert _read(backend, tokens, sizes) == whole, sizes
        backend.close()
