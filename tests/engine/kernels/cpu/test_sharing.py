"""Buffers that lie in the same memory: never needed together, waited for, and none is read before it is written."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.gguf import open_model
from engine.gguf.tensor_types import TensorType
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.kernels.cpu.control import ROW_WAITS
from engine.kernels.cpu.jit import KernelSource
from engine.kernels.cpu.lowering import LoweredOp, assemble
from engine.kernels.cpu.lowering.sharing import share_memory
from engine.kernels.cpu.memory import Memory
from engine.model import load_plan
from engine.model.plan import Activation, Buffer, Copy, GatedActivation, MatMul, Norm, Plan, SelectRows, Tensor
from tests.engine.model.test_architectures import OLD_LAYOUT, REFUSED
from tests.golden_models import golden_names, golden_of, write_golden_model


def weights(rows: int, columns: int) -> Tensor:
    num_bytes = TensorType.Q8_0.row_bytes(columns) * rows
    return Tensor("w", TensorType.Q8_0, (rows, columns), np.zeros(num_bytes, np.uint8))


STREAM, NORMED, GATE, UP, DOWN, PARTS, LOGITS = (
    Buffer(name, width, "logits" if name == "logits" else "tokens")
    for name, width in (
        ("stream", 64), ("normed", 64), ("gate", 256), ("up", 256), ("down", 64), ("parts", 64), ("logits", 64)
    )
)  # fmt: skip


def plan_of_a_layer() -> Plan:
    ops = (
        Norm(STREAM, None, NORMED, 1e-5),
        MatMul(NORMED, weights(256, 64), GATE),
        MatMul(NORMED, weights(256, 64), UP),
        GatedActivation(GATE, UP, UP, Activation.SILU),
        MatMul(UP, weights(64, 256), DOWN),
        Copy(DOWN, PARTS, 32),
        Norm(PARTS, None, PARTS, 1e-5),
        SelectRows(PARTS, LOGITS),
    )
    return Plan(ops, (STREAM, NORMED, GATE, UP, DOWN, PARTS, LOGITS), (), LOGITS, 64)


def memory_of(plan: Plan) -> Memory:
    return Memory(max_batch_tokens=8, max_logit_rows=2, num_blocks=1, num_counters=len(plan.ops))


def test_what_is_needed_together_lies_apart_and_the_rest_shares() -> None:
    plan = plan_of_a_layer()
    places = share_memory(plan, memory_of(plan)).places
    form = next(key[1] for key in places if isinstance(key, tuple))
    for together in ((NORMED, GATE, UP), (NORMED, (NORMED, form), GATE), (UP, (UP, form), DOWN)):
        assert not any(places[x].overlaps(places[y]) for x, y in combinations(together, 2))
    assert places[(UP, form)].overlaps(places[GATE])  # which is done with when the product is quantised
    assert max(place.end for place in places.values()) < sum(end - start for start, end in places.values())


def test_what_may_be_filled_before_a_step_and_what_is_left_after_it_have_places_of_their_own() -> None:
    plan = plan_of_a_layer()
    places = share_memory(plan, memory_of(plan)).places
    assert STREAM not in places  # read before an op writes it
    assert PARTS not in places  # of which an op keeps a part
    assert LOGITS not in places


@pytest.mark.parametrize("name", sorted({*golden_names("tiny", "tiny2", "hybrid")} - {*REFUSED, OLD_LAYOUT}))
def test_a_step_reads_nothing_that_it_did_not_write(name: str, tmp_path: Path) -> None:
    golden = golden_of(name)
    with open_model(write_golden_model(name, tmp_path)) as file:
        plan = load_plan(file, golden.context_length)[1]
        backend = CpuBackend(plan, num_blocks=2, max_batch_tokens=24, num_threads=2)
        try:
            results = []
            for fill in (0, 255, 127):
                logits = []
                for start, stop in ((0, 11), (11, 12), (12, 24)):
                    backend._memory._shared[:] = fill  # NaN, or very large
                    tokens = golden.token_ids[start:stop]
                    part = SequenceSlice(tokens, start, np.array([1, 0], np.int32), logits="all")
                    logits.append(backend.run([part]).copy())
                results.append(np.concatenate(logits))
                if backend.state_bytes:
                    backend.write_state(0, None)
        finally:
            backend.close()
            del plan
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_an_op_waits_for_whoever_still_needs_what_it_replaces() -> None:
    source = KernelSource("norm", "rms_norm")
    reads_gate = LoweredOp(source, {}, frozenset({GATE}), frozenset({UP}), "tokens")
    writes_down = LoweredOp(source, {}, frozenset(), frozenset({DOWN}), "tokens")
    in_its_place = replace(writes_down, replaces=frozenset({GATE}))
    kernels: Any = {source: SimpleNamespace(address=1)}
    assert assemble([reads_gate, writes_down], kernels)[:, ROW_WAITS].tolist() == [0, 0]
    assert assemble([reads_gate, in_its_place], kernels)[:, ROW_WAITS].tolist() == [0, 1]
