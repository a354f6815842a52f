"""Each row of data against llama.cpp's logits of a tiny random model of that architecture."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from engine.errors import UnsupportedModelError
from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.kernels.reference import ReferenceBackend
from engine.model import load_plan
from engine.model.architectures import ROWS, UNTIED, refusal, table
from tests import tiny_models, tiny_models_second
from tests.golden_models import gelu_tolerance, golden_names, golden_of, write_golden_model

OWN = sorted({*tiny_models.RECIPES, *tiny_models_second.RECIPES})
REFUSED = {
    "glm-dsa": "an indexer",
    "deepseek32": "an indexer",
    "kimi-k3": "sums of earlier layers",
    **dict.fromkeys(
        ("mamba", "mamba-bcdt-rms", "rwkv7", "rwkv7-2heads_q8", "jamba", "kimi-linear"), "another kind"
    ),
    **dict.fromkeys(("bailingmoe3", "plamo2"), "another kind"),
}
# A fused layout of the first conversions, which nobody makes any more.
OLD_LAYOUT = "qwen3next-ssm_in"


def _check(name: str, path: Path) -> None:
    golden = golden_of(name)
    with open_model(path) as file:
        model, plan = load_plan(file, golden.context_length)
        backend = ReferenceBackend(plan, num_blocks=2, max_batch_tokens=24)
        logits = backend.run([SequenceSlice(golden.token_ids, 0, np.array([1, 0], np.int32), logits="all")])
        backend.close()
        del plan, backend
    for position, expected in golden.logits.items():
        np.testing.assert_allclose(logits[position], expected, atol=gelu_tolerance(model))
    assert logits.argmax(axis=-1).tolist() == golden.argmax


@pytest.mark.parametrize("name", OWN)
def test_logits_are_llama_cpps(name: str, tmp_path: Path) -> None:
    module = tiny_models if name in tiny_models.RECIPES else tiny_models_second
    path = module.write_tiny_model(name, tmp_path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == golden_of(name).sha256
    _check(name, path)


@pytest.mark.parametrize("name", sorted({*golden_names("tiny", "tiny2", "hybrid")} - {*OWN, *REFUSED, OLD_LAYOUT}))
def test_logits_of_models_written_by_the_tools_are_llama_cpps(name: str, tmp_path: Path) -> None:
    _check(name, write_golden_model(name, tmp_path))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_mechanism_without_an_op_is_refused_by_name(name: str, tmp_path: Path) -> None:
    path = write_golden_model(name, tmp_path)
    with open_model(path) as file, pytest.raises(UnsupportedModelError, match=REFUSED[name]) as caught:
        load_plan(file)
    assert "the file itself is fine" in str(caught.value)


def test_an_old_layout_is_refused_by_the_tensor_it_lacks(tmp_path: Path) -> None:
    path = write_golden_model(OLD_LAYOUT, tmp_path)
    with open_model(path) as file, pytest.raises(UnsupportedModelError, match=r"attn_qkv\.weight is absent"):
        load_plan(file)


@pytest.mark.parametrize("name", sorted({*golden_names("hybrid")} - {*REFUSED, OLD_LAYOUT}))
def test_a_hybrid_carries_its_state_through_150_tokens_in_chunks(name: str, tmp_path: Path) -> None:
    golden = golden_of(name)
    assert golden.long_token_ids is not None
    with open_model(write_golden_model(name, tmp_path)) as file:
        _, plan = load_plan(file, golden.context_length)
        backend = ReferenceBackend(plan, num_blocks=10, max_batch_tokens=64)
        table = np.arange(10, dtype=np.int32)
        parts = [
            backend.run([SequenceSlice(golden.long_token_ids[start : start + 37], start, table, logits="all")])
            for start in range(0, len(golden.long_token_ids), 37)
        ]
        backend.close()
        del plan, backend
    logits = np.concatenate(parts)
    np.testing.assert_allclose(logits[-1], golden.long_last, atol=1e-4)
    assert logits.argmax(axis=-1).tolist() == golden.long_argmax


def test_no_architecture_is_both_supported_and_refused() -> None:
    names = {row.name for row in ROWS}
    assert not [name for name in names if refusal(name)]
    assert names >= UNTIED
    by_name = [(row.name, row.only_with_layers) for row in ROWS]
    assert len(by_name) == len(set(by_name))


def test_the_table_of_what_is_supported_is_that_of_the_rows() -> None:
    path = Path(table.__file__).with_name("SUPPORTED.md")
    assert path.read_text(encoding="utf-8") == table.table(), "run python -m engine.model.architectures.table"
