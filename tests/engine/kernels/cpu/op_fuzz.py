"""Random ops beside their NumPy definitions: any width, number of tokens, tensor type, and sequences side by side.

    python -m tests.engine.kernels.cpu.op_fuzz [--cases 2000] [--seed 1] [--only KIND]

All but attention, which ``attention_fuzz`` has. Weights end where a page ends that nobody may read; each case is
two steps, the second going on where the first ended, read as prompts or not. Activations that meet quantised
weights are rounded in the reference, too. Each case is printed that fails; the tests run a few, and
``FIRESIDE_ISA`` chooses the instruction set.
"""

from __future__ import annotations

import argparse
import random
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.gguf.tensor_types import TensorType
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.kernels.cpu.formats import MATMUL_TYPES
from engine.kernels.reference import _Step
from engine.model import plan as ops
from engine.model.plan import Activation, Buffer, Gating, Op, Plan, RopeTable, SelectRows, Tensor
from tests.engine.kernels.cpu.matmul_oracle import at_end_of_page, random_weights
from tests.engine.kernels.cpu.rounded_reference import RoundedReference
from tests.engine.kernels.cpu.support import Floats, fill, vector

WIDTHS = (1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 48, 64, 100, 130, 257)
LENGTHS = (1, 1, 1, 2, 3, 7, 8, 9, 16, 17, 33, 40)
MAX_TOKENS = 128
NUM_BLOCKS = 32
VOCAB_SIZE = 50  # rows of an embedding
TOLERANCE = 1e-4
PLAIN = [each for each in Activation if each is not Activation.XIELU]


@dataclass
class Case:
    """One or a few ops and what they read.

    Attributes:
        ops: in order.
        result: the buffer that is compared.
        inputs: buffers that are filled before each step, and how: a function of normal numbers.
        state_sizes, num_experts_used: of the plan.
        tolerance: a share of the largest result.
    """

    ops: Sequence[Op]
    result: Buffer
    inputs: dict[Buffer, Callable[[Floats], Floats]]
    state_sizes: tuple[int, ...] = ()
    num_experts_used: int = 0
    tolerance: float = TOLERANCE

    @property
    def plan(self) -> Plan:
        selects = self.result.rows == "tokens"
        logits = Buffer("logits", self.result.width, "logits") if selects else self.result
        return Plan(
            (*self.ops, SelectRows(self.result, logits)) if selects else tuple(self.ops),
            (self.result, logits),
            (),
            logits,
            VOCAB_SIZE,
            self.num_experts_used,
            self.state_sizes,
        )


class Draw:
    """What a kind of case is made of; it holds the memory of the weights, and must live as long."""

    def __init__(self, seed: int) -> None:
        self.rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self._memory: list[object] = []

    def width(self) -> int:
        return self.rng.choice(WIDTHS)

    def flag(self) -> bool:
        return self.rng.random() < 0.5

    def vector(self, count: int, mean: float = 0.0) -> Tensor:
        return vector(self.numbers.standard_normal(count).astype(np.float32) + np.float32(mean))

    def maybe_vector(self, count: int) -> Tensor | None:
        return self.vector(count) if self.flag() else None

    def columns(self, tensor_type: TensorType) -> int:
        if tensor_type.block_size == 1:
            return self.width()
        return tensor_type.block_size * self.rng.randint(1, 9 if tensor_type.block_size < 64 else 3)

    def type(self) -> TensorType:
        return self.rng.choice(sorted(MATMUL_TYPES))

    def matrix(self, tensor_type: TensorType, *shape: int) -> Tensor:
        rows = int(np.prod(shape[:-1]))
        data, memory = at_end_of_page(random_weights(tensor_type, rows, shape[-1], self.rng.randrange(1 << 30)))
        self._memory.append(memory)
        return Tensor("weight", tensor_type, shape, data.reshape(-1))


def _plain(x: Floats) -> Floats:
    return x


def _norm(d: Draw) -> Case:
    groups, width = d.rng.choice((1, 1, 2, 5)), d.width()
    x, out = Buffer("x", groups * width), Buffer("out", groups * width)
    own = width * groups if d.flag() else width
    weight = d.maybe_vector(own)
    op = ops.Norm(x, weight, x if d.flag() else out, 1e-5, groups, d.maybe_vector(own), d.flag())
    return Case([op], op.out, {x: _plain})


def _gated(d: Draw) -> Case:
    width, run = d.width(), d.rng.choice((1, 1, 3, 16))
    gate, up, out = Buffer("gate", width), Buffer("up", width * run), Buffer("out", width * run)
    options = {"limit": 0.7, "is_limit_early": d.flag(), "up_offset": 1.0} if run == 1 and d.flag() else {}
    op = ops.GatedActivation(gate, up, d.rng.choice((up, out)), d.rng.choice(PLAIN), **options)
    return Case([op], op.out, {gate: lambda x: 3 * x, up: _plain})


def _on_values(d: Draw) -> Case:
    width = d.width()
    x, y, out = Buffer("x", width), Buffer("y", width), Buffer("out", width)
    made = d.rng.choice(
        (
            lambda: ops.Add(x, y, d.rng.choice((x, y, out))),
            lambda: ops.Scale(x, d.rng.choice((x, out)), 0.3),
            lambda: ops.ScaleByPosition(x, 0.1, 4, d.rng.randint(0, 3)),
            lambda: ops.Clamp(x, d.rng.choice((x, out)), 0.8),
            lambda: ops.SoftCap(x, d.rng.choice((x, out)), 1.5),
            lambda: ops.ScaleColumns(x, d.vector(width), d.rng.choice((x, out))),
            lambda: ops.Activate(x, d.rng.choice((x, out)), d.rng.choice(PLAIN)),
            lambda: ops.Activate(x, out, Activation.XIELU, (0.8, 0.9, 0.5, -1e-6)),
        )
    )()
    return Case([made], getattr(made, "out", x), {x: lambda v: 3 * v, y: _plain})


def _streams(d: Draw) -> Case:
    width, inputs, outputs = d.width(), d.rng.randint(1, 5), d.rng.randint(1, 5)
    x, like, out = Buffer("x", width * inputs), Buffer("like", width), Buffer("out", width * outputs)
    weights = Buffer("weights", inputs * outputs)
    if d.flag():
        return Case([ops.MixStreams(x, weights, out, inputs)], out, {x: _plain, weights: _plain})
    return Case([ops.MatchLength(x, like, x, inputs)], x, {x: _plain, like: _plain})


def _keep_largest(d: Draw) -> Case:
    x = Buffer("x", d.width() + 1)
    return Case([ops.KeepLargest(x, x, d.rng.choice((0.0, 0.5, 1.6)))], x, {x: _plain})


def _copy(d: Draw) -> Case:
    heads, count = d.rng.randint(1, 4), d.width()
    first, out_first = d.rng.randint(0, 5), d.rng.randint(0, 5)
    is_shared = d.flag()
    x = Buffer("x", (first + count + d.rng.randint(0, 3)) * (1 if is_shared else heads))
    out = Buffer("out", (out_first + count + d.rng.randint(0, 3)) * heads)
    return Case([ops.Copy(x, out, count, heads, first, out_first, is_shared)], out, {x: _plain, out: _plain})


def _rope(d: Draw) -> Case:
    heads, pairs, first = d.rng.randint(1, 5), d.rng.choice((1, 2, 7, 8, 16, 20, 32)), d.rng.choice((0, 0, 3))
    head_dim = first + 2 * pairs + d.rng.choice((0, 0, 5))
    x = Buffer("x", heads * head_dim)
    table = RopeTable(1e4 ** (-np.arange(pairs) / pairs), d.rng.choice((1.0, 1.2)), d.flag())
    return Case([ops.Rope(x, heads, head_dim, table, first)], x, {x: _plain})


def _matmul(d: Draw) -> Case:
    tensor_type = d.type()
    width, rows = d.columns(tensor_type), d.width()
    x, out, residual = Buffer("x", width), Buffer("out", rows), Buffer("residual", rows)
    made: list[Op] = [ops.MatMul(x, d.matrix(tensor_type, rows, width), out, d.maybe_vector(rows))]
    if d.flag():  # which the kernel adds itself
        made.append(ops.Add(residual, out, residual))
        return Case(made, residual, {x: _plain, residual: _plain})
    return Case(made, out, {x: _plain})


def _output(d: Draw) -> Case:
    """What comes after the last layer, of the wanted rows alone: they are few, however many tokens a step has."""
    tensor_type = d.type()
    width, rows = d.columns(tensor_type), d.width()
    x, chosen = Buffer("x", width), Buffer("chosen", width, "logits")
    out = Buffer("out", rows, "logits")
    made = [
        SelectRows(x, chosen),
        ops.MatMul(chosen, d.matrix(tensor_type, rows, width), out, d.maybe_vector(rows)),
    ]
    return Case([*made, ops.SoftCap(out, out, 30.0)] if d.flag() else made, out, {x: _plain})


def _head_matmul(d: Draw) -> Case:
    tensor_type, heads = d.type(), d.rng.randint(1, 5)
    width, rows = d.columns(tensor_type), d.width()
    x, out = (
        Buffer("x", heads * (width + d.rng.choice((0, 3)))),
        Buffer("out", heads * (rows + d.rng.choice((0, 3)))),
    )
    op = ops.HeadMatMul(x, d.matrix(tensor_type, heads, rows, width), out, heads)
    return Case([op], out, {x: _plain, out: _plain})


def _embed(d: Draw) -> Case:
    tensor_type = d.type()
    width = d.columns(tensor_type)
    out = Buffer("out", width)
    by_position = d.flag()
    rows = NUM_BLOCKS * 16 if by_position else VOCAB_SIZE
    return Case([ops.Embed(d.matrix(tensor_type, rows, width), out, 1.5, by_position)], out, {})


def _experts(d: Draw) -> Case:
    tensor_type, groups = d.type(), d.rng.choice((1, 1, 4))
    experts = groups * d.rng.choice((2, 3, 5, 16))
    used_groups = d.rng.randint(1, groups)
    used = d.rng.randint(1, min(experts // groups * used_groups, 6))
    width, rows, first_row = d.columns(tensor_type), d.width(), d.rng.choice((0, 0, 5))
    logits, x, pairs = Buffer("logits of experts", experts), Buffer("x", width), Buffer("pairs", width, "pairs")
    products, out = Buffer("products", rows, "pairs"), Buffer("out", rows)
    weight = d.matrix(tensor_type, experts, first_row + rows, width)
    gating = d.rng.choice(list(Gating))
    bias = d.vector(experts) if groups > 1 or (d.flag() and gating is not Gating.SOFTMAX_OF_CHOSEN) else None
    is_weighted = d.flag()
    made: list[Op] = [
        ops.Route(logits, gating, bias, groups, used_groups, d.flag(), 1.7),
        ops.Dispatch(x, pairs, not is_weighted),
        ops.ExpertMatMul(pairs, weight, products, d.maybe_vector(experts * rows), first_row),
        ops.Combine(products, out, is_weighted),
    ]
    # A last bit of a weight may round an activation after it to the next integer.
    tolerance = TOLERANCE if is_weighted or tensor_type.block_size == 1 else 1e-2
    return Case(made, out, {logits: lambda v: 2 * v, x: _plain}, num_experts_used=used, tolerance=tolerance)


def _conv(d: Draw) -> Case:
    taps, channels = d.rng.randint(2, 5), d.width()
    x, out = Buffer("x", channels), Buffer("out", channels)
    weight = vector(d.numbers.standard_normal((taps, channels)).astype(np.float32))
    activation = d.rng.choice((Activation.SILU, Activation.IDENTITY))
    op = ops.CausalConv(x, weight, out, 0, d.maybe_vector(channels), activation)
    return Case([op], out, {x: _plain}, ((taps - 1) * channels,))


def _scan(d: Draw) -> Case:
    groups, dim, state_dim = d.rng.choice((1, 2, 3)), d.rng.choice((1, 4, 17, 32)), d.rng.choice((1, 8, 16, 20))
    heads = groups * d.rng.randint(1, 3)
    x, step = Buffer("x", heads * dim + 2 * groups * state_dim), Buffer("step", heads)
    out = Buffer("out", heads * dim)
    decay = vector(-np.abs(d.numbers.standard_normal(heads)).astype(np.float32))
    op = ops.SelectiveScan(x, step, out, decay, d.vector(heads), groups, state_dim, 0)
    return Case([op], out, {x: _plain, step: np.abs}, (heads * dim * state_dim,))


def _delta_rule(d: Draw) -> Case:
    key_heads, dim = d.rng.randint(1, 3), d.rng.choice((1, 8, 16, 20, 33))
    heads = key_heads * d.rng.randint(1, 3)
    x, step, rate = Buffer("x", (2 * key_heads + heads) * dim), Buffer("step", heads), Buffer("rate", heads)
    out = Buffer("out", heads * dim)
    decay = vector(-np.abs(d.numbers.standard_normal(heads)).astype(np.float32))
    op = ops.DeltaRule(x, step, rate, out, decay, key_heads, dim, 1e-6, d.flag(), 0)
    inputs = {x: _plain, step: np.abs, rate: lambda v: (1 / (1 + np.exp(-v))).astype(np.float32)}
    return Case([op], out, inputs, (heads * dim * dim,))


KINDS: dict[str, Callable[[Draw], Case]] = {
    "norm": _norm,
    "gated": _gated,
    "values": _on_values,
    "streams": _streams,
    "largest": _keep_largest,
    "copy": _copy,
    "rope": _rope,
    "matmul": _matmul,
    "output": _output,
    "head matmul": _head_matmul,
    "embed": _embed,
    "experts": _experts,
    "conv": _conv,
    "scan": _scan,
    "delta rule": _delta_rule,
}


class _Filled(RoundedReference):
    """The reference with contents of buffers that no op has written."""

    contents: dict[Buffer, Floats]

    def _prepare(self, slices: Sequence[SequenceSlice]) -> _Step:
        step = super()._prepare(slices)
        step.buffers.update({buffer.name: rows.copy() for buffer, rows in self.contents.items()})
        return step


def check_case(kind: str, seed: int) -> None:
    """Raises AssertionError where the backend differs from the definitions."""
    draw = Draw(seed)
    case = KINDS[kind](draw)
    sizes = {"num_blocks": NUM_BLOCKS, "max_batch_tokens": MAX_TOKENS}
    reference = _Filled(case.plan, num_states=3, **sizes)
    backend = CpuBackend(case.plan, num_states=3, num_threads=draw.rng.choice((1, 2, 3)), **sizes)
    try:
        starts = [draw.rng.choice((0, 1, 15, 40)) for _ in range(draw.rng.randint(1, 3))]
        for _ in range(2):
            slices, is_prompt = [], draw.flag()
            for sequence, start in enumerate(starts):
                count = draw.rng.choice(LENGTHS)
                tokens = draw.numbers.integers(0, VOCAB_SIZE, count).astype(np.int32)
                table = np.arange(sequence * 8, sequence * 8 + 8, dtype=np.int32)
                wanted = draw.rng.choice(("all", "last", "none")) if sequence else "all"
                slices.append(SequenceSlice(tokens, start, table, wanted, sequence, is_prompt=is_prompt))
                starts[sequence] += count
            total = sum(len(part.token_ids) for part in slices)
            reference.contents = {
                buffer: make(draw.numbers.standard_normal((total, buffer.width)).astype(np.float32))
                for buffer, make in case.inputs.items()
            }
            fill(backend, reference.contents)
            expected, found = reference.run(slices), backend.run(slices)
            assert np.isfinite(expected).all()
            tolerance = case.tolerance * max(float(np.abs(expected).max()), 1e-3)
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
        for slot in range(len(starts) if case.state_sizes else 0):
            states = [each.read_state(slot).view(np.float32) for each in (backend, reference)]
            np.testing.assert_allclose(*states, rtol=TOLERANCE, atol=TOLERANCE * max(np.abs(states[1]).max(), 1e-3))
    finally:
        backend.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Random ops.")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=KINDS)
    arguments = parser.parse_args()
    kinds = [arguments.only] if arguments.only else list(KINDS)
    outcomes: Counter[str] = Counter()
    for number in range(arguments.cases):
        kind, seed = kinds[number % len(kinds)], arguments.seed * 1_000_003 + number
        try:
            check_case(kind, seed)
            outcomes["right"] += 1
        except Exception:
            outcomes["wrong"] += 1
            print(f"check_case({kind!r}, {seed})", traceback.format_exc(limit=-1)[-900:], sep="\n", flush=True)
    print(dict(outcomes))


if __name__ == "__main__":
    main()
