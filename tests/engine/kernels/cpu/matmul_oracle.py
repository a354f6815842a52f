"""Random weights of every type, and what the kernels must make of them by ``gguf.quants``.

Also a program: ``python -m tests.engine.kernels.cpu.matmul_oracle [--few] [NAME ...]`` checks the matmuls of the
named types, or of all, so that a test can run it with another ``FIRESIDE_ISA``.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, quants

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu import formats, operands, step_state
from engine.kernels.cpu.formats import ActivationFormat
from engine.kernels.cpu.isa import ISA
from engine.kernels.cpu.jit import Kernel, KernelSource, load_kernels
from engine.kernels.dequantize import dequantize_q1_0

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

NUM_THREADS = 2
SCRATCH_BYTES = step_state.MIN_SCRATCH_BYTES
HALVES = {  # byte offsets of the float16 in a block
    **dict.fromkeys(["Q4_0", "Q5_0", "Q8_0", "IQ4_NL", "IQ4_XS"], (0,)),
    **dict.fromkeys(["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "Q1_0"], (0,)),
    **dict.fromkeys(["Q4_1", "Q5_1", "Q4_K", "Q5_K"], (0, 2)),
    **{"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,)},
}


def random_weights(tensor_type: TensorType, rows: int, width: int, seed: int = 0) -> Bytes:
    """(rows, row bytes): any bytes where any are valid, moderate scales."""
    random = np.random.default_rng(seed)
    if tensor_type.block_size == 1:
        values = random.standard_normal((rows, width)).astype(np.float32)
        if tensor_type is TensorType.BF16:
            return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        return values.astype(np.float16 if tensor_type is TensorType.F16 else np.float32).view(np.uint8)
    shape = (rows, width // tensor_type.block_size)
    blocks = random.integers(0, 256, (*shape, tensor_type.block_bytes), dtype=np.uint8)
    scales = (random.uniform(0.001, 0.02, shape) * random.choice([-1, 1], shape)).astype(np.float16)
    for offset in HALVES.get(tensor_type.name, ()):
        blocks[..., offset : offset + 2] = scales[..., None].view(np.uint8)
    if tensor_type is TensorType.MXFP4:
        blocks[..., 0] = random.integers(0, 130, shape)
    if tensor_type is TensorType.IQ1_M:  # a float16 in the upper nibbles of four uint16
        bits = np.abs(scales).view(np.uint16)
        for index in range(4):
            nibble = ((bits >> (4 * index)) & 15).astype(np.uint8)
            blocks[..., 49 + 2 * index] = (blocks[..., 49 + 2 * index] & 15) | nibble << 4
    return blocks.reshape(rows, -1)


def dequantize(tensor_type: TensorType, weights: Bytes) -> Floats:
    """(rows, width) float32 by the gguf package."""
    if tensor_type is TensorType.F32:
        return weights.view(np.float32)
    if tensor_type is TensorType.Q1_0:
        return dequantize_q1_0(weights)
    return np.asarray(quants.dequantize(weights, GGMLQuantizationType(int(tensor_type))), np.float32)


def at_end_of_page(data: Bytes) -> tuple[Bytes, mmap.mmap]:
    """A copy that ends where a page ends that is followed by one nobody may read (where the system can do so)."""
    used = -(-data.size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, used + mmap.PAGESIZE)
    array = np.frombuffer(memory, np.uint8)
    if sys.platform != "win32":
        address = ctypes.c_void_p(array.ctypes.data + used)
        assert ctypes.CDLL(None).mprotect(address, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    copy = array[used - data.size : used]
    copy[:] = data.ravel()
    return copy.reshape(data.shape), memory


def aligned(num_bytes: int) -> Bytes:
    """Uninitialised on purpose: filled with NaN patterns, at a multiple of 64."""
    memory = np.full(num_bytes + 64, 255, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + num_bytes]


class Harness:
    """Step state and scratch for calling single kernels as the threads of a step would."""

    def __init__(self) -> None:
        self._scratch = aligned(NUM_THREADS * SCRATCH_BYTES)
        self._guard = aligned(64)
        self.step = np.zeros(step_state.NUM_SLOTS, np.int64)
        self.step[step_state.SCRATCH] = self._scratch.ctypes.data
        self.step[step_state.SCRATCH_BYTES] = SCRATCH_BYTES

    def run(self, kernel: Kernel, slots: dict[int, int]) -> None:
        op = np.zeros(max(slots) + 1, np.int64)
        for slot, value in slots.items():
            op[slot] = value
        for thread in range(NUM_THREADS):
            kernel(op.ctypes.data, self.step.ctypes.data, thread, NUM_THREADS)

    def quantize(self, kernel: Kernel, activation: ActivationFormat, x: Floats) -> Bytes:
        """Activation buffer of ``x`` (tokens, width)."""
        num_tokens, width = x.shape
        size = formats.activation_bytes(activation, width, num_tokens)
        buffer = aligned(size + 64)
        self.step[step_state.NUM_TOKENS] = num_tokens
        self.run(
            kernel,
            {
                operands.QUANTIZE_X: x.ctypes.data,
                operands.QUANTIZE_ACTIVATION: buffer.ctypes.data,
                operands.QUANTIZE_WIDTH: width,
                operands.QUANTIZE_ROWS_KIND: operands.ROWS_TOKENS,
            },
        )
        assert (buffer[size:] == 255).all(), "the quantise kernel wrote past its buffer"
        return buffer

    def matmul(
        self, kernel: Kernel, activation: Bytes, weights: Bytes, width: int, bias: Floats | None, out: Floats
    ) -> None:
        """``out`` (tokens, out stride) is added to where ``bias`` is None, else overwritten."""
        counter = np.zeros(1, np.int64)
        self.run(
            kernel,
            {
                operands.MATMUL_ACTIVATION: activation.ctypes.data,
                operands.MATMUL_WEIGHT: weights.ctypes.data,
                operands.MATMUL_OUT: out.ctypes.data,
                operands.MATMUL_ROWS: len(weights),
                operands.MATMUL_WIDTH: width,
                operands.MATMUL_ROW_BYTES: weights.shape[1],
                operands.MATMUL_OUT_STRIDE: out.shape[1],
                operands.MATMUL_BIAS: 0 if bias is None else bias.ctypes.data,
                operands.MATMUL_ACCUMULATE: int(bias is None),
                operands.MATMUL_ROWS_KIND: operands.ROWS_TOKENS,
                operands.MATMUL_CAPACITY: len(out),
                operands.MATMUL_COUNTER: counter.ctypes.data,
            },
        )


def kernel_source(factory: str, argument: object) -> KernelSource:
    return KernelSource("matmul", factory, (argument,))


def rounded_activations(x: Floats) -> npt.NDArray[np.float64]:
    """What INT8 keeps of ``x``: multiples of max / 127 in blocks of 32."""
    blocks = x.reshape(len(x), -1, 32)
    largest = np.abs(blocks).max(-1, keepdims=True)
    inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 0)
    q = np.rint(blocks * inverse).astype(np.float64)
    rounded: npt.NDArray[np.float64] = (q * (largest * np.float32(1 / 127))).reshape(x.shape)
    return rounded


def cases(tensor_type: TensorType) -> Iterator[tuple[int, int, int]]:
    """(rows, width, tokens): no multiples of the tiles, one block, more than a slice of a panel."""
    block = tensor_type.block_size
    small = 576 // block * block
    widths = (7, 165, 2100) if block == 1 else (block, max(small, 5 * block), 4608 if block > 32 else 4192)
    for width, rows in zip(widths, (37, 50, 16), strict=True):
        for num_tokens in (*range(1, 9), formats.MATVEC_TOKENS, formats.MATVEC_TOKENS + 1, 21):
            yield rows, width, num_tokens


def few_cases(tensor_type: TensorType) -> Iterator[tuple[int, int, int]]:
    """The same, one of a kind: one token, some, and the first number that ``gemm`` takes."""
    for rows, num_blocks in ((37, 1), (18, 5)):
        for num_tokens in (1, 3, formats.MATVEC_TOKENS + 1):
            yield rows, num_blocks * max(tensor_type.block_size, 21), num_tokens


def check_matmul(
    tensor_type: TensorType, shapes: Callable[[TensorType], Iterator[tuple[int, int, int]]] = cases
) -> float:
    """Largest error over ``shapes``, as a share of the largest result."""
    worst = 0.0
    for rows, width, num_tokens in shapes(tensor_type):
        weights, _memory = at_end_of_page(random_weights(tensor_type, rows, width, num_tokens))
        worst = max(worst, matmul_error(tensor_type, weights, width, num_tokens))
    return worst


def extreme_weights(tensor_type: TensorType, rows: int, width: int) -> Bytes:
    """Rows whose integers are all bits 0 and all bits 1 in turn, and one that has some of each."""
    weights = random_weights(tensor_type, rows, width)
    blocks = weights.reshape(rows, -1, tensor_type.block_bytes)
    kept = {offset + index for offset in HALVES[tensor_type.name] for index in range(2)}
    integers = [index for index in range(tensor_type.block_bytes) if index not in kept]
    blocks[0::2, :, integers], blocks[1::2, :, integers] = 0, 255
    blocks[-1, :, integers[::2]] = 0
    return weights


def matmul_error(
    tensor_type: TensorType, weights: Bytes, width: int, num_tokens: int, x: Floats | None = None
) -> float:
    """Largest error of one matmul, as a share of the largest result; asserts what must hold exactly."""
    activation = formats.activation_format(tensor_type)
    wanted = [kernel_source("quantize_kernel", activation), kernel_source("matmul_kernel", tensor_type)]
    kernels = load_kernels(wanted)
    quantize, matmul = (kernels[source] for source in wanted)
    harness, random, rows = Harness(), np.random.default_rng(num_tokens), len(weights)
    x = random.standard_normal((num_tokens, width)).astype(np.float32) if x is None else x
    bias = random.standard_normal(rows).astype(np.float32) if num_tokens % 2 else None
    out = random.standard_normal((num_tokens, rows + 3)).astype(np.float32)
    before = out.copy()
    harness.matmul(matmul, harness.quantize(quantize, activation, x), weights, width, bias, out)
    exact = x.astype(np.float64) if activation is ActivationFormat.FLOAT32 else rounded_activations(x)
    expected = exact @ dequantize(tensor_type, weights).astype(np.float64).T
    expected += before[:, :rows] if bias is None else bias
    assert (out[:, rows:] == before[:, rows:]).all(), "the matmul wrote past its rows"
    return float(np.abs(out[:, :rows] - expected).max() / np.abs(expected).max())


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--few"]
    chosen = [TensorType[name] for name in names] or sorted(formats.MATMUL_TYPES)
    shapes = few_cases if "--few" in sys.argv else cases
    load_kernels([kernel_source("matmul_kernel", tensor_type) for tensor_type in chosen])  # several at a time
    for tensor_type in chosen:
        error = check_matmul(tensor_type, shapes)
        print(ISA.value, tensor_type.name, error)
        assert error < 1e-4, (tensor_type.name, error)


if __name__ == "__main__":
    main()
