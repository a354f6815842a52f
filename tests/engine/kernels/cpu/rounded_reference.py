"""The reference backend with activations rounded as the CPU's matmuls round them.

What is left between it and the CPU backend is no rounding of activations: a wrong kernel shows, and what a model
makes of the rounding does not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.kernels.cpu.formats import ActivationFormat, activation_format
from engine.kernels.reference import ReferenceBackend, _Step
from engine.model.plan import ExpertMatMul, HeadMatMul, MatMul, Op, Route, Tensor
from tests.engine.kernels.cpu.matmul_oracle import rounded_activations
from tests.engine.kernels.cpu.support import Floats


class RoundedReference(ReferenceBackend):
    """Rounds what meets quantised weights to 8 bits in blocks of 32, as llama.cpp does, too."""

    def _matmul(self, x: Floats, op: MatMul) -> Floats:
        return super()._matmul(_rounded(x, op.weight), op)

    def _expert_matmul(self, x: Floats, op: ExpertMatMul, experts: npt.NDArray[np.int64]) -> Floats:
        return super()._expert_matmul(_rounded(x, op.weight), op, experts)

    def _head_matmul(self, op: HeadMatMul, step: _Step) -> None:
        x, width = step.buffers[op.x.name], op.weight.shape[2]
        heads = x.reshape(len(x), op.num_heads, -1).copy()
        used = np.ascontiguousarray(heads[..., :width]).reshape(-1, width)
        heads[..., :width] = _rounded(used, op.weight).reshape(len(x), op.num_heads, width)
        step.buffers[op.x.name] = heads.reshape(x.shape)
        super()._head_matmul(op, step)
        step.buffers[op.x.name] = x


class RoutedReference(ReferenceBackend):
    """Keeps what its experts were chosen by.

    Attributes:
        routes: each choice with its logits, (tokens, experts).
    """

    routes: tuple[tuple[Route, Floats], ...] = ()

    def _execute(self, op: Op, step: _Step) -> None:
        super()._execute(op, step)
        if isinstance(op, Route):
            self.routes = (*self.routes, (op, step.buffers[op.logits.name].copy()))


def _rounded(x: Floats, weight: Tensor) -> Floats:
    if activation_format(weight.type) is ActivationFormat.FLOAT32:
        return x
    return rounded_activations(x).astype(np.float32)
