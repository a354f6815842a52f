"""Gemma 3n beyond what its golden of two layers holds: borrowed keys, thinned-out layers, other tensor types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import MetadataError, UnsupportedModelError
from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.kernels.reference import ReferenceBackend
from engine.model import load_plan
from engine.model.plan import KeepLargest
from tests.engine.kernels.cpu.support import Floats
from tests.gguf_writer import Value, write_gguf

WIDTH, NARROW, HIDDEN, HEAD, VOCABULARY = 32, 8, 48, 16, 24
PREFIX = "gemma3n."
MATRICES = {
    "attn_q": (2 * HEAD, WIDTH),
    "attn_k": (HEAD, WIDTH),
    "attn_v": (HEAD, WIDTH),
    "attn_output": (WIDTH, 2 * HEAD),
    "ffn_gate": (HIDDEN, WIDTH),
    "ffn_up": (HIDDEN, WIDTH),
    "ffn_down": (WIDTH, HIDDEN),
    "inp_gate": (NARROW, WIDTH),
    "proj": (WIDTH, NARROW),
    "altup_router": (4, WIDTH),
    "altup_predict_coef": (16, 4),
    "altup_correct_coef": (4, 4),
    "laurel_l": (8, WIDTH),
    "laurel_r": (WIDTH, 8),
}
VECTORS = {
    **dict.fromkeys(("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm", "post_norm"), WIDTH),
    **dict.fromkeys(("altup_router_norm", "altup_correct_scale", "laurel_post_norm"), WIDTH),
    **dict.fromkeys(("attn_q_norm", "attn_k_norm"), HEAD),
}
TOKENS = np.array([1, 5, 9, 2, 2, 17, 23, 4, 11, 8, 3, 20], np.int32)


def metadata(num_layers: int) -> dict[str, Any]:
    keys = {
        "block_count": num_layers,
        "context_length": 64,
        "embedding_length": WIDTH,
        "embedding_length_per_layer_input": NARROW,
        "feed_forward_length": HIDDEN,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
        "attention.key_length": HEAD,
        "attention.value_length": HEAD,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.sliding_window": 4,
        "rope.freq_base": 1e6,
    }
    tokens = Value("string", [f"t{index}" for index in range(VOCABULARY)])
    named = {PREFIX + key: value for key, value in keys.items()}
    return {"general.architecture": "gemma3n", "tokenizer.ggml.tokens": tokens} | named


def tensors(num_layers: int, stored: type = np.float32) -> dict[str, Any]:
    random = np.random.default_rng(5)
    wide = num_layers * NARROW
    matrices = {
        "token_embd": (VOCABULARY, WIDTH),
        "per_layer_token_embd": (VOCABULARY, wide),
        "per_layer_model_proj": (wide, WIDTH),
        "altup_proj": (3, WIDTH, WIDTH),
        "altup_unembd_proj": (3, WIDTH, WIDTH),
    }
    vectors = {"output_norm": WIDTH, "per_layer_proj_norm": NARROW}
    for layer in range(num_layers):
        matrices |= {f"blk.{layer}.{name}": shape for name, shape in MATRICES.items()}
        vectors |= {f"blk.{layer}.{name}": width for name, width in VECTORS.items()}
    made: dict[str, Any] = {
        f"{name}.weight": (random.standard_normal(shape) / shape[-1] ** 0.5).astype(stored)
        for name, shape in matrices.items()
    }
    for name, width in vectors.items():
        made[f"{name}.weight"] = (1.0 + 0.1 * random.standard_normal(width)).astype(np.float32)
    return made


def logits_of(path: Path, kind: type[ReferenceBackend] | type[CpuBackend]) -> Floats:
    with open_model(path) as file:
        plan = load_plan(file)[1]
        backend = kind(plan, num_blocks=1, max_batch_tokens=16)
        try:
            table = np.array([0], np.int32)
            return backend.run([SequenceSlice(TOKENS, 0, table, logits="all")]).copy()
        finally:
            backend.close()
            del plan, backend


def test_layers_from_the_twentieth_on_borrow_keys_and_need_none_of_their_own(tmp_path: Path) -> None:
    all_tensors = tensors(26)
    borrowed = [f"blk.{layer}.{name}.weight" for layer in range(20, 26) for name in ("attn_k", "attn_v")]
    own = write_gguf(tmp_path / "own.gguf", metadata(26), all_tensors)
    kept = {name: values for name, values in all_tensors.items() if name not in borrowed}
    stated = metadata(26) | {f"{PREFIX}attention.shared_kv_layers": 6}
    without = write_gguf(tmp_path / "without.gguf", stated, kept)
    with open_model(own) as file:
        model, plan = load_plan(file)
        assert [layer.kv_layer for layer in model.layers[19:]] == [None, 18, 18, 18, 18, 19, 18]
        assert len(plan.kv_layers) == 20
        del plan
    np.testing.assert_array_equal(logits_of(own, ReferenceBackend), logits_of(without, ReferenceBackend))


def test_the_first_ten_layers_thin_out_their_gates(tmp_path: Path) -> None:
    with open_model(write_gguf(tmp_path / "model.gguf", metadata(12), tensors(12))) as file:
        plan = load_plan(file)[1]
        factors = [op.factor for op in plan.ops if isinstance(op, KeepLargest)]
        del plan
    assert factors == pytest.approx([1.6448536] * 10)


@pytest.mark.parametrize("stored", [np.float32, np.float16])
def test_both_backends_agree_on_streams_of_narrow_matrices(tmp_path: Path, stored: type) -> None:
    path = write_gguf(tmp_path / "model.gguf", metadata(2), tensors(2, stored))
    expected = logits_of(path, ReferenceBackend)
    assert expected.std() > 0.1
    np.testing.assert_allclose(logits_of(path, CpuBackend), expected, atol=0.02)


def test_another_active_stream_and_other_coefficients_are_refused(tmp_path: Path) -> None:
    changed = metadata(2) | {f"{PREFIX}altup.active_idx": 1}
    with (
        open_model(write_gguf(tmp_path / "active.gguf", changed, tensors(2))) as file,
        pytest.raises(MetadataError, match=r"altup\.active_idx"),
    ):
        load_plan(file)
    odd = tensors(2) | {"blk.1.altup_predict_coef.weight": np.zeros((9, 4), np.float32)}
    with (
        open_model(write_gguf(tmp_path / "odd.gguf", metadata(2), odd)) as file,
        pytest.raises(UnsupportedModelError, match=r"blk\.1\.altup_predict_coef\.weight has the shape 9 x 4"),
    ):
        load_plan(file)
