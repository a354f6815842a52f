"""Matmuls and embeddings of all weight types against ``gguf.quants``."""

from __future__ import annotations

import numpy as np
import pytest

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu import formats, operands, step_state
from engine.kernels.cpu.jit import load_kernels
from tests.engine.kernels.cpu.matmul_oracle import (
    Harness,
    at_end_of_page,
    check_matmul,
    dequantize,
    kernel_source,
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
        },
    )
    expected = dequantize(tensor_type, weights)[token_ids] * scale
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("tensor_type", ALL_TYPES, ids=lambda t: t.name)
def test_a_matmul_is_exact_on_rounded_activations(tensor_type: TensorType) -> None:
    """Near-ternary types lose most to the bias of signed weights: 128 where the weights are -1, 0 and 1."""
    assert check_matmul(tensor_type) < (1e-4 if tensor_type.name.startswith("TQ") else 3e-5)


def test_an_unknown_type_is_refused() -> None:
    from engine.kernels.cpu.matmul import matmul_kernel

    with pytest.raises(KeyError):
        matmul_kernel(TensorType.I8)
