"""Recurrent layers: a short convolution, the scan of Mamba 2, a gated delta net."""

from __future__ import annotations

from engine.model.graph.graph import Graph
from engine.model.plan import (
    Activate,
    Activation,
    Buffer,
    CausalConv,
    Copy,
    DeltaRule,
    GatedActivation,
    SelectiveScan,
    Tensor,
)
from engine.model.weights.parts import ConvWeights, DeltaWeights, ScanWeights


def build_recurrence(graph: Graph, source: Buffer, weights: ConvWeights | ScanWeights | DeltaWeights) -> Buffer:
    """What a layer's recurrence adds to the stream."""
    match weights:
        case ConvWeights():
            return _short_conv(graph, source, weights)
        case ScanWeights():
            return _scan(graph, source, weights)
        case DeltaWeights():
            return _delta_net(graph, source, weights)


def _short_conv(graph: Graph, source: Buffer, weights: ConvWeights) -> Buffer:
    inputs = graph.matmul(source, weights.inputs, "conv_inputs")
    first = graph.matmul(source, weights.first, "conv_first")
    graph.emit(GatedActivation(first, inputs, inputs, Activation.IDENTITY))
    convolved = graph.buffer("convolved", inputs.width)
    graph.emit(_conv(graph, inputs, weights, convolved, Activation.IDENTITY))
    second = graph.matmul(source, weights.second, "conv_first")
    graph.emit(GatedActivation(second, convolved, convolved, Activation.IDENTITY))
    return graph.matmul(convolved, weights.output, "part")


def _scan(graph: Graph, source: Buffer, weights: ScanWeights) -> Buffer:
    sizes = graph.model.recurrence
    assert sizes is not None, "the model has a recurrence"
    gate = graph.matmul(source, weights.gate, "scan_gate")
    inputs = graph.matmul(source, weights.inputs, "scan_inputs")
    step = graph.matmul(source, weights.step, "scan_step")
    convolved = graph.buffer("convolved", inputs.width)
    scanned = graph.buffer("scanned", sizes.inner_dim)
    graph.emit(
        Activate(step, step, Activation.SOFTPLUS),
        _conv(graph, inputs, weights, convolved, Activation.SILU, weights.conv_bias),
        SelectiveScan(
            x=convolved,
            step=step,
            out=scanned,
            decay=weights.decay,
            skip=weights.skip,
            num_groups=sizes.num_groups,
            state_dim=sizes.state_dim,
            state=graph.state(sizes.inner_dim * sizes.state_dim),
        ),
        GatedActivation(gate, scanned, scanned, Activation.SILU),
    )
    if weights.norm is not None:
        graph.norm(scanned, weights.norm, scanned, groups=sizes.num_groups)
    return graph.matmul(scanned, weights.output, "part")


def _delta_net(graph: Graph, source: Buffer, weights: DeltaWeights) -> Buffer:
    sizes = graph.model.recurrence
    assert sizes is not None, "the model has a recurrence"
    inputs = graph.matmul(source, weights.inputs, "scan_inputs")
    gate = graph.matmul(source, weights.gate, "scan_gate")
    rate, step = _rate_and_step(graph, source, weights, sizes.num_heads, sizes.num_groups)
    convolved = graph.buffer("convolved", inputs.width)
    scanned = graph.buffer("scanned", sizes.inner_dim)
    graph.emit(
        Activate(rate, rate, Activation.SIGMOID),
        Activate(step, step, Activation.SOFTPLUS),
        _conv(graph, inputs, weights, convolved, Activation.SILU),
        DeltaRule(
            x=convolved,
            step=step,
            rate=rate,
            out=scanned,
            decay=weights.decay,
            num_key_heads=sizes.num_groups,
            dim=sizes.state_dim,
            eps=graph.model.norm_eps,
            has_grouped_heads=graph.row.has_grouped_heads,
            state=graph.state(sizes.inner_dim * sizes.state_dim),
        ),
    )
    graph.norm(scanned, weights.norm, scanned, groups=sizes.num_heads)
    graph.emit(GatedActivation(gate, scanned, scanned, Activation.SILU))
    return graph.matmul(scanned, weights.output, "part")


def _rate_and_step(
    graph: Graph, source: Buffer, weights: DeltaWeights, num_heads: int, num_groups: int
) -> tuple[Buffer, Buffer]:
    rate, step = graph.buffer("scan_rate", num_heads), graph.buffer("scan_step", num_heads)
    if weights.rate_and_step is not None:
        both = graph.matmul(source, weights.rate_and_step, "rate_and_step")
        count = num_heads // num_groups
        graph.emit(Copy(both, rate, count, num_groups), Copy(both, step, count, num_groups, first=count))
        return rate, step
    assert weights.rate is not None, "there is a matrix of both, or one of each"
    assert weights.step is not None, "there is a matrix of both, or one of each"
    return graph.matmul(source, weights.rate, "scan_rate"), graph.matmul(source, weights.step, "scan_step")


def _conv(
    graph: Graph,
    x: Buffer,
    weights: ConvWeights | ScanWeights | DeltaWeights,
    out: Buffer,
    activation: Activation,
    bias: Tensor | None = None,
) -> CausalConv:
    num_taps, channels = weights.conv.shape
    return CausalConv(x, weights.conv, out, graph.state((num_taps - 1) * channels), bias, activation)
