"""NaN in any tensor of a model reaches the logits, where it is told: no answer comes of damaged weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from engine.config import KVType
from engine.errors import EngineError
from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.model import load_plan
from tests import tiny_models
from tests.golden_models import write_golden_model

NUM_TOKENS = 20
TABLE = np.array([1, 0], np.int32)


def _logits(path: Path, kv_type: KVType, is_prompt: bool) -> npt.NDArray[np.float32]:
    """Those after a prompt read as a whole, or after tokens one by one."""
    with open_model(path) as file:
        plan = load_plan(file, 32)[1]
        backend = CpuBackend(plan, num_blocks=2, max_batch_tokens=32, num_threads=2, kv_type=kv_type)
        try:
            tokens = np.arange(NUM_TOKENS, dtype=np.int32) % plan.vocab_size
            starts = [0] if is_prompt else range(NUM_TOKENS)
            for start in starts:
                end = NUM_TOKENS if is_prompt else start + 1
                part = SequenceSlice(tokens[start:end], start, TABLE, is_prompt=is_prompt)
                logits = backend.run([part]).copy()
        finally:
            backend.close()
            del plan
    return logits


def _damaged(path: Path) -> Iterator[str]:
    """Names of tensors, the first rows of each, or all of an embedding, being NaN in the file meanwhile."""
    with open_model(path) as file:
        places = [(name, tensor.offset, tensor.num_bytes) for name, tensor in file.tensors.items()]
        rows = {name: tensor.shape[0] if len(tensor.shape) > 1 else 1 for name, tensor in file.tensors.items()}
    for name, offset, num_bytes in places:
        count = num_bytes if "token_embd" in name or "exps" in name else max(num_bytes // rows[name], 1)
        with open(path, "r+b") as file:
            file.seek(offset)
            sound = file.read(count)
            file.seek(offset)
            file.write(b"\xff" * count)  # a NaN as float32, bfloat16 and float16
        yield name
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(sound)


@pytest.mark.parametrize(
    ("name", "kv_type"),
    [
        *(("llama_q8", "f16"), ("llama_q8", "q8_0"), ("gemma2", "f16"), ("gemma3_q8", "f16"), ("phi3_q8", "q8_0")),
        *(("llama-moe_q8", "f16"), ("deepseek2", "f16"), ("qwen35_q8", "f16"), ("granite_swa", "f16")),
    ],
)
@pytest.mark.parametrize("is_prompt", [True, False])
def test_no_damage_is_passed_over(name: str, kv_type: KVType, is_prompt: bool, tmp_path: Path) -> None:
    write = tiny_models.write_tiny_model if name in tiny_models.RECIPES else write_golden_model
    path = write(name, tmp_path)
    sound = _logits(path, kv_type, is_prompt)
    assert np.isfinite(sound).all()
    told = 0
    for tensor in _damaged(path):
        try:
            logits = _logits(path, kv_type, is_prompt)
        except EngineError:
            told += 1
            continue
        if not np.array_equal(logits, sound):  # else nothing of it was needed
            assert np.isnan(logits).any(), tensor
            told += 1
    assert told > 8
