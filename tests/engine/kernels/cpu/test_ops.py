"""Single ops on the CPU backend: random ones beside their definitions, and values that were wrong once."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.model.plan import Buffer, Combine, Dispatch, ExpertMatMul, Gating, Route
from tests.engine.kernels.cpu.op_fuzz import KINDS, Case, check_case
from tests.engine.kernels.cpu.support import fill, vector


@pytest.mark.parametrize("kind", KINDS)
def test_random_ops_are_as_defined(kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(4):
        check_case(kind, rng.randrange(1 << 30))


def test_threads_without_a_share_cap_no_logits_again() -> None:
    """15 of them on three threads, in place."""
    check_case("output", 6000056)


@pytest.mark.parametrize("is_normalized", [False, True])
def test_weights_of_the_chosen_experts_add_up_to_one_already(is_normalized: bool) -> None:
    """A file may ask for both; to divide by the sum of the chosen logits would make the weights any number."""
    logits, x, pairs = Buffer("logits of experts", 3), Buffer("x", 1), Buffer("pairs", 1, "pairs")
    products, out = Buffer("products", 1, "pairs"), Buffer("out", 1)
    weight = vector(np.array([1.0, 2.0, 4.0], np.float32).reshape(3, 1, 1))
    case = Case(
        [
            Route(logits, Gating.SOFTMAX_OF_CHOSEN, is_normalized=is_normalized),
            Dispatch(x, pairs),
            ExpertMatMul(pairs, weight, products),
            Combine(products, out),
        ],
        out,
        {},
        num_experts_used=2,
    )
    backend = CpuBackend(case.plan, num_blocks=1, max_batch_tokens=4, num_threads=1)
    try:
        contents = {logits: np.array([[0.0, math.log(3), -9.0]], np.float32), x: np.ones((1, 1), np.float32)}
        fill(backend, contents)
        found = backend.run([SequenceSlice(np.zeros(1, np.int32), 0, np.zeros(1, np.int32), "all")])
        np.testing.assert_allclose(found, [[0.25 * 1 + 0.75 * 2]], rtol=1e-6)
    finally:
        backend.close()
