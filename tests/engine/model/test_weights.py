"""Binding: names, shapes, types, fused and tied matrices, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine.errors import UnsupportedModelError
from engine.gguf import TensorType, open_model
from engine.kernels.dequantize import dequantize_vector
from engine.model import bind_weights, read_hyperparameters
from engine.model.rope import RopeParameters, RopeScaling
from engine.model.weights.binder import Binder
from engine.model.weights.parts import AttentionWeights
from tests.engine.model.small_file import small_metadata, small_tensors, write_small_file
from tests.gguf_writer import RawTensor
from tests.tiny_models import write_tiny_model


def check(
    folder: Path, tensor_changes: dict[str, Any], metadata_changes: dict[str, Any] | None = None
) -> dict[str, npt.NDArray[np.float32]]:
    """Binds the small file, bent, and returns copies of the first layer's matrices and of the ends."""
    metadata = small_metadata() | (metadata_changes or {})
    with open_model(write_small_file(folder, metadata, small_tensors() | tensor_changes)) as file:
        weights = bind_weights(file, read_hyperparameters(file))
        attention = weights.layers[0].attention
        assert isinstance(attention, AttentionWeights)
        assert attention.key is not None
        assert attention.value is not None
        bound = {
            "query": attention.query.weight,
            "key": attention.key.weight,
            "value": attention.value.weight,
            "key_bias": attention.key.bias,
            "output": weights.output.weight,
            "output_norm": weights.output_norm.weight,
        }
        copies = {
            name: dequantize_vector(tensor).reshape(tensor.shape).copy()
            for name, tensor in bound.items()
            if tensor is not None
        }
        if weights.rope_factors is not None:
            copies["rope_factors"] = weights.rope_factors.copy()
        del weights, attention, bound
        return copies


def test_without_an_output_matrix_the_embedding_is_it(tmp_path: Path) -> None:
    tensors = small_tensors()
    np.testing.assert_array_equal(check(tmp_path, {})["output"], tensors["token_embd.weight"])
    own = np.ones((24, 32), np.float32)
    np.testing.assert_array_equal(check(tmp_path, {"output.weight": own})["output"], own)


@pytest.mark.parametrize("stored", [np.float32, np.float16])
def test_a_fused_matrix_is_cut_into_rows(tmp_path: Path, stored: type) -> None:
    tensors = small_tensors()
    parts = [tensors[f"blk.0.attn_{name}.weight"].astype(stored) for name in "qkv"]
    bias = np.arange(64, dtype=np.float32)
    bound = check(
        tmp_path,
        {f"blk.0.attn_{name}.weight": None for name in "qkv"}
        | {"blk.0.attn_qkv.weight": np.concatenate(parts), "blk.0.attn_qkv.bias": bias},
    )
    for name, part in zip(("query", "key", "value"), parts, strict=True):
        np.testing.assert_array_equal(bound[name], part.astype(np.float32))
    np.testing.assert_array_equal(bound["key_bias"], bias[32:48])


def test_a_fused_quantized_matrix_is_cut_without_copying(tmp_path: Path) -> None:
    with open_model(write_tiny_model("phi3_q8", tmp_path)) as file:
        weights = bind_weights(file, read_hyperparameters(file))
        attention = weights.layers[0].attention
        assert isinstance(attention, AttentionWeights)
        assert attention.key is not None
        whole = file.tensor_data("blk.0.attn_qkv.weight")
        key = attention.key.weight
        assert (key.type, key.shape) == (TensorType.Q8_0, (32, 64))
        assert np.shares_memory(key.data, whole)
        np.testing.assert_array_equal(key.data, whole[64 * 68 : 96 * 68])
        del weights, attention, whole, key


def test_vectors_of_other_float_types_become_float32(tmp_path: Path) -> None:
    norm = np.linspace(0.5, 2.0, 32, dtype=np.float32)
    halves = norm.astype(np.float16)
    np.testing.assert_array_equal(check(tmp_path, {"output_norm.weight": halves})["output_norm"], halves)
    upper = (norm.view(np.uint32) >> 16).astype(np.uint16)
    stored = RawTensor(TensorType.BF16, (32,), upper.view(np.uint8))
    expected = (upper.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(check(tmp_path, {"output_norm.weight": stored})["output_norm"], expected)


def test_the_logit_scale_goes_into_the_output_norm(tmp_path: Path) -> None:
    metadata = {key.replace("llama.", "granite."): value for key, value in small_metadata().items()}
    metadata |= {"general.architecture": "granite", "granite.logit_scale": 8.0}
    bound = check(tmp_path, {}, metadata)
    np.testing.assert_allclose(bound["output_norm"], small_tensors()["output_norm.weight"] / 8, rtol=1e-6)


def test_rope_factors_are_read_and_must_divide(tmp_path: Path) -> None:
    factors = np.array([1, 2, 4, 8], np.float32)
    np.testing.assert_array_equal(check(tmp_path, {"rope_freqs.weight": factors})["rope_factors"], factors)
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(UnsupportedModelError, match=r"rope_freqs\.weight"):
            check(tmp_path, {"rope_freqs.weight": np.array([1, bad, 4, 8], np.float32)})


@pytest.mark.parametrize("num_pairs", [4, 8])
def test_factors_may_leave_out_what_only_layers_that_follow_none_turn(tmp_path: Path, num_pairs: int) -> None:
    factors = np.arange(1, num_pairs + 1, dtype=np.float32)
    ropes = [RopeParameters(8, 1e4, RopeScaling()), RopeParameters(16, 1e4, RopeScaling(), has_factors=False)]
    path = write_small_file(tmp_path, small_metadata(), {"rope_freqs.weight": factors})
    with open_model(path) as file:
        bound = Binder(file, "llama").rope_factors("rope_freqs.weight", ropes)
        assert bound is not None
        np.testing.assert_array_equal(bound.copy(), factors)
        with pytest.raises(UnsupportedModelError, match=f"shape {num_pairs}, not"):
            Binder(file, "llama").rope_factors(
                "rope_freqs.weight", [replace(rope, rotated_dims=20) for rope in ropes]
            )
        del bound


def test_scales_of_inputs_are_left(tmp_path: Path) -> None:
    """Beside NVFP4 weights, for activations of four bits."""
    check(
        tmp_path, {"blk.0.ffn_up.input_scale": np.ones(1, np.float32), "blk.0.ffn_up.scale": np.ones(1, np.float32)}
    )


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "absent": ({"blk.1.ffn_gate.weight": None}, r"blk\.1\.ffn_gate\.weight is absent"),
    "absent norm": ({"output_norm.weight": None}, r"output_norm\.weight is absent"),
    "transposed": (
        {"blk.0.ffn_up.weight": np.zeros((32, 48), np.float32)},
        r"blk\.0\.ffn_up\.weight has the shape 32 x 48, not 48 x 32",
    ),
    "three dimensions": ({"blk.0.ffn_up.weight": np.zeros((4, 48, 32), np.float32)}, "shape 4 x 48 x 32"),
    "unknown": ({"blk.0.attn_q_norm.weight": np.ones(8, np.float32)}, r"attn_q_norm\.weight' is no part of it"),
    "scale of a norm": ({"blk.0.attn_norm.scale": np.ones(1, np.float32)}, r"attn_norm\.scale' is no part of it"),
    "wide scale": ({"blk.0.attn_q.scale": np.ones(2, np.float32)}, r"attn_q\.scale has the shape 2, not 1"),
    "scale that is no number": (
        {"blk.0.attn_q.scale": np.full(1, np.nan, np.float32)},
        r"attn_q\.scale is no number",
    ),
    "integers": (
        {"blk.0.attn_k.weight": RawTensor(TensorType.I8, (16, 32), bytes(16 * 32))},
        r"type I8 of blk\.0\.attn_k\.weight",
    ),
    "double norm": (
        {"blk.0.attn_norm.weight": RawTensor(TensorType.F64, (32,), bytes(32 * 8))},
        r"type F64 of blk\.0\.attn_norm\.weight",
    ),
    "one bit": (
        {"output.weight": RawTensor(TensorType.Q8_K, (24, 256), bytes(24 * 292))},
        r"output\.weight has the shape 24 x 256",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_another_layout_is_unsupported_and_never_called_damaged(tmp_path: Path, case: str) -> None:
    changes, message = REFUSED[case]
    with pytest.raises(UnsupportedModelError, match=message) as caught:
        check(tmp_path, changes)
    assert "layout" in str(caught.value)
    assert "download" not in str(caught.value)
    assert "damaged" not in str(caught.value)


def test_leftovers_of_conversion_do_no_harm(tmp_path: Path) -> None:
    check(tmp_path, {"blk.0.attn_rot_embd.weight": np.ones(4, np.float32)})
