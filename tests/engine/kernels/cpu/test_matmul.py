"""Matmuls and embeddings of all weight types against ``gguf.quants``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.gguf import open_model
from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu import formats, operands, step_state
from engine.kernels.cpu.jit import load_kernels
from engine.model.weights import MATRIX_TYPES
from tests.engine.kernels.cpu.matmul_oracle import (
    HALVES,
    Harness,
    at_end_of_page,
    check_matmul,
    dequantize,
    extreme_weights,
    kernel_source,
    matmul_error,
    random_weights,
)

ALL_TYPES = sorted(formats.MATMUL_TYPES)


@pytest.mark.parametrize("tensor_type", ALL_TYPES, ids=lambda t: t.name)
def test_an_embedding_is_the_dequantised_row(tensor_type: TensorType) -> None:
    width, rows, scale = max(tensor_type.block_size, 5) * 2, 7, np.float32(1.5)
    weights, _memory = at_end_of_page(random_weights(tensor_type, rows, width))
    source = kernel_source("embed_kernel", tensor_type)
    kernel = load_kernels([source])[source]
    token_ids = np.array([6, 0, 3, 3, 1], np.int32)
    out = np.zeros((len(token_ids), width), np.float32)
    harness = Harness()
    harness.step[step_state.NUM_TOKENS] = len(token_ids)
    harness.step[step_state.TOKEN_IDS] = token_ids.ctypes.data
    harness.run(
        kernel,
        {
            operands.EMBED_WEIGHT: weights.ctypes.data,
            operands.EMBED_ROW_BYTES: weights.shape[1],
            operands.EMBED_WIDTH: width,
            operands.EMBED_OUT: out.ctypes.data,
            operands.EMBED_SCALE: int(scale.view(np.uint32)),
            operands.EMBED_IDS: step_state.TOKEN_IDS,
        },
    )
    expected = dequantize(tensor_type, weights)[token_ids] * scale
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("tensor_type", ALL_TYPES, ids=lambda t: t.name)
def test_a_matmul_is_exact_on_rounded_activations(tensor_type: TensorType) -> None:
    """Near-ternary types lose most to the bias of signed weights: 128 where the weights are -1, 0 and 1."""
    assert check_matmul(tensor_type) < (1e-4 if tensor_type.name.startswith("TQ") else 3e-5)


def _widths(tensor_type: TensorType) -> list[int]:
    """Wider than a slice, with all ends that a row may have in units of 256 of which rows share some."""
    widths = range(2560, 2560 + 32 * 6, 32) if tensor_type.block_size > 1 else [165]
    return [width for width in widths if width % tensor_type.block_size == 0]


@pytest.mark.parametrize(
    ("tensor_type", "width"),
    [(t, width) for t in ALL_TYPES for width in _widths(t)],
    ids=lambda v: getattr(v, "name", v),
)
def test_few_tokens_give_the_same_bits_together_as_one_by_one(tensor_type: TensorType, width: int) -> None:
    """What speculation accepts is then what the model would have said."""
    rows = 23
    weights, _memory = at_end_of_page(random_weights(tensor_type, rows, width))
    activation = formats.activation_format(tensor_type)
    wanted = [kernel_source("quantize_kernel", activation), kernel_source("matmul_kernel", tensor_type)]
    quantize, matmul = (load_kernels(wanted)[source] for source in wanted)
    x = np.random.default_rng(2).standard_normal((formats.MATVEC_TOKENS, width)).astype(np.float32)

    def product(first: int, end: int) -> np.ndarray:
        harness, part, out = Harness(), x[first:end].copy(), np.zeros((end - first, rows), np.float32)
        harness.matmul(matmul, harness.quantize(quantize, activation, part), weights, width, None, out)
        return out

    one_by_one = np.concatenate([product(n, n + 1) for n in range(len(x))])
    for count in range(2, len(x) + 1):
        np.testing.assert_array_equal(product(0, count), one_by_one[:count])


@pytest.mark.parametrize("tensor_type", ALL_TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("num_tokens", [2, formats.MATVEC_TOKENS + 4])
def test_a_nan_spoils_all_results_of_its_token_and_no_others(tensor_type: TensorType, num_tokens: int) -> None:
    """So that damage in the middle of a model reaches the logits, where it is told."""
    rows, width = 19, max(tensor_type.block_size, 32) * 3
    weights = random_weights(tensor_type, rows, width)
    activation = formats.activation_format(tensor_type)
    wanted = [kernel_source("quantize_kernel", activation), kernel_source("matmul_kernel", tensor_type)]
    quantize, matmul = (load_kernels(wanted)[source] for source in wanted)
    x = np.random.default_rng(3).standard_normal((num_tokens, width)).astype(np.float32)

    def product() -> np.ndarray:
        harness, out = Harness(), np.zeros((num_tokens, rows), np.float32)
        harness.matmul(matmul, harness.quantize(quantize, activation, x), weights, width, None, out)
        return out

    sound = product()
    x[1, width // 2] = np.nan
    spoilt = product()
    assert np.isnan(spoilt[1]).all()
    np.testing.assert_array_equal(np.delete(spoilt, 1, 0), np.delete(sound, 1, 0))


@pytest.mark.parametrize("tensor_type", sorted(TensorType[name] for name in HALVES), ids=lambda t: t.name)
@pytest.mark.parametrize("num_tokens", [1, 3, formats.MATVEC_TOKENS + 4])
def test_the_largest_values_overflow_nothing(tensor_type: TensorType, num_tokens: int) -> None:
    width = max(tensor_type.block_size, 64)
    weights = extreme_weights(tensor_type, 17, width)
    x = np.ones((num_tokens, width), np.float32)
    x[1::3] = -1
    x[2::3, ::2] = -1
    assert matmul_error(tensor_type, weights, width, num_tokens, x) < 1e-4


@pytest.mark.parametrize("model", ["smollm2_path", "gemma3_path"])
def test_real_tensors(model: str, request: pytest.FixtureRequest) -> None:
    """The last matrix of each type and width, read from the mapping; every row of the smaller ones."""
    path: Path = request.getfixturevalue(model)
    with open_model(path) as file:
        matrices = {(t.type, t.shape[1]): t for t in file.tensors.values() if len(t.shape) == 2}
        assert len(matrices) >= 3
        for (tensor_type, width), tensor in matrices.items():
            weights = file.tensor_data(tensor.name).reshape(tensor.shape[0], -1)[-1024:]
            for num_tokens in (1, 3, formats.MATVEC_TOKENS + 4):
                assert matmul_error(tensor_type, weights, width, num_tokens) < 1e-5, tensor
            del weights


def test_every_type_that_a_file_may_bring_has_kernels() -> None:
    assert formats.MATMUL_TYPES == MATRIX_TYPES


def test_an_unknown_type_is_refused() -> None:
    from engine.kernels.cpu.matmul import matmul_kernel

    with pytest.raises(KeyError):
        matmul_kernel(TensorType.I8)
