"""From hyperparameters and weights to the plan: the one graph that all architectures share.

Reads the row of data where architectures differ; executes nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.gguf import GGUFFile
from engine.model.architectures import RopePairs
from engine.model.hyperparameters import Hyperparameters, LayerHyperparameters, read_hyperparameters
from engine.model.plan import (
    Add,
    Attention,
    Buffer,
    Embed,
    GatedActivation,
    KVLayer,
    MatMul,
    Op,
    Plan,
    RmsNorm,
    Rope,
    RopeTable,
    SelectRows,
    SoftCap,
    Tensor,
    WriteKV,
)
from engine.model.rope import RopeParameters, rope_table
from engine.model.weights import AttentionWeights, LayerWeights, Linear, Weights, bind_weights


def load_plan(file: GGUFFile, context_length: int = 0) -> tuple[Hyperparameters, Plan]:
    """Read, check and bind ``file`` and build its plan; the plan refers to the file's mapped bytes.

    ``context_length`` is what the KV cache will hold, 0 the trained length. Raises what ``read_hyperparameters``
    and ``bind_weights`` raise.
    """
    hyperparameters = read_hyperparameters(file)
    return hyperparameters, build_plan(hyperparameters, bind_weights(file, hyperparameters), context_length)


def build_plan(hyperparameters: Hyperparameters, weights: Weights, context_length: int = 0) -> Plan:
    """The plan of a model; ``context_length``, 0 for the trained one, chooses long or short rope factors."""
    return _Builder(hyperparameters, weights, context_length or hyperparameters.context_length).build()


class _Builder:
    """Collects ops and the buffers they name."""

    def __init__(self, hyperparameters: Hyperparameters, weights: Weights, context_length: int) -> None:
        self._model = hyperparameters
        self._row = hyperparameters.row
        self._weights = weights
        self._context_length = context_length
        self._ops: list[Op] = []
        self._buffers: dict[str, Buffer] = {}
        self._kv_layers: list[KVLayer] = []
        self._tables: dict[RopeParameters, RopeTable] = {}
        # With every part scaled by s, the stream x behaves as the stream x / s with parts unscaled, an embedding
        # divided by s, and norms whose epsilon is divided by s squared: no op needs to know of the scale.
        self._stream_scale = hyperparameters.residual_scale
        self._stream_eps = hyperparameters.norm_eps / self._stream_scale**2

    def build(self) -> Plan:
        model, weights = self._model, self._weights
        stream = self._buffer("stream", model.embedding_dim)
        self._ops.append(Embed(weights.token_embedding, stream, model.embedding_scale / self._stream_scale))
        for loop in range(model.num_loops):
            if loop and model.has_norm_between_loops:
                self._ops.append(RmsNorm(stream, weights.output_norm, stream, self._stream_eps))
            for layer, layer_weights in zip(model.layers, weights.layers, strict=True):
                self._attention_part(stream, layer, layer_weights)
                self._feed_forward_part(stream, layer_weights)
        selected = Buffer("selected", model.embedding_dim, rows="logits")
        logits = Buffer("logits", model.vocab_size, rows="logits")
        self._buffers |= {buffer.name: buffer for buffer in (selected, logits)}
        self._ops += [
            SelectRows(stream, selected),
            RmsNorm(selected, weights.output_norm, selected, self._stream_eps),
            MatMul(selected, weights.output.weight, logits, weights.output.bias),
        ]
        if model.logit_soft_cap is not None:
            self._ops.append(SoftCap(logits, logits, model.logit_soft_cap))
        return Plan(
            ops=tuple(self._ops),
            buffers=tuple(self._buffers.values()),
            kv_layers=tuple(self._kv_layers),
            logits=logits,
            vocab_size=model.vocab_size,
        )

    def _attention_part(self, stream: Buffer, layer: LayerHyperparameters, weights: LayerWeights) -> None:
        """stream += output(attention(norm(stream))), as far as the layer has it."""
        if weights.attention_output is None:
            return
        source = self._normed(stream, weights.attention_norm)
        if weights.attention is not None:
            source = self._attention(source, layer, weights.attention)
        self._add_part(stream, self._matmul(source, weights.attention_output, "part"), weights.attention_post_norm)

    def _attention(self, source: Buffer, layer: LayerHyperparameters, weights: AttentionWeights) -> Buffer:
        query = self._matmul(source, weights.query, "query")
        key = self._matmul(source, weights.key, "key")
        value = self._matmul(source, weights.value, "value")
        heads = ((query, layer.num_heads, weights.query_norm), (key, layer.num_kv_heads, weights.key_norm))
        for buffer, num_heads, norm in heads:
            if not self._row.is_query_key_norm_late:
                self._query_key_norm(buffer, norm)
            if layer.rope is not None:
                self._ops.append(Rope(buffer, num_heads, layer.key_dim, self._table(layer.rope)))
            if self._row.is_query_key_norm_late:
                self._query_key_norm(buffer, norm)
        kv_layer = len(self._kv_layers)
        self._kv_layers.append(KVLayer(layer.num_kv_heads, layer.key_dim, layer.value_dim, layer.window))
        attended = self._buffer("attended", layer.num_heads * layer.value_dim)
        self._ops += [
            WriteKV(kv_layer, key, value),
            Attention(
                kv_layer=kv_layer,
                query=query,
                out=attended,
                num_heads=layer.num_heads,
                scale=self._model.attention_scale or layer.key_dim**-0.5,
                window=layer.window,
                soft_cap=self._model.attention_soft_cap,
                sinks=weights.sinks,
            ),
        ]
        return attended

    def _feed_forward_part(self, stream: Buffer, weights: LayerWeights) -> None:
        """stream += down(activation(gate h) * up h), h = norm(stream), where the layer has it."""
        if weights.feed_forward is None:
            return
        source = self._normed(stream, weights.feed_forward_norm)
        gate = self._matmul(source, weights.feed_forward.gate, "gate")
        up = self._matmul(source, weights.feed_forward.up, "up")
        self._ops.append(GatedActivation(gate, up, gate, self._row.activation))
        part = self._matmul(gate, weights.feed_forward.down, "part")
        self._add_part(stream, part, weights.feed_forward_post_norm)

    def _normed(self, stream: Buffer, weight: Tensor | None) -> Buffer:
        if weight is None:
            return stream
        normed = self._buffer("normed", stream.width)
        self._ops.append(RmsNorm(stream, weight, normed, self._stream_eps))
        return normed

    def _query_key_norm(self, x: Buffer, weight: Tensor | None) -> None:
        """Norm of each head, or of the whole row: by the weight's width."""
        if weight is not None:
            self._ops.append(RmsNorm(x, weight, x, self._model.norm_eps, num_groups=x.width // weight.shape[0]))

    def _add_part(self, stream: Buffer, part: Buffer, post_norm: Tensor | None) -> None:
        if post_norm is not None:
            self._ops.append(RmsNorm(part, post_norm, part, self._model.norm_eps))
        self._ops.append(Add(stream, part, stream))

    def _matmul(self, x: Buffer, linear: Linear, name: str) -> Buffer:
        out = self._buffer(name, linear.weight.shape[0])
        self._ops.append(MatMul(x, linear.weight, out, linear.bias))
        return out

    def _buffer(self, name: str, width: int) -> Buffer:
        """The buffer of that role; layers of another width get one of their own."""
        buffer = self._buffers.setdefault(name, Buffer(name, width))
        if buffer.width == width:
            return buffer
        return self._buffers.setdefault(f"{name}_{width}", Buffer(f"{name}_{width}", width))

    def _table(self, rope: RopeParameters) -> RopeTable:
        if rope not in self._tables:
            # A rotation in several dimensions always pairs halves.
            is_interleaved = self._row.rope is RopePairs.ADJACENT and not rope.sections
            self._tables[rope] = rope_table(rope, is_interleaved=is_interleaved, factors=self._rope_factors(rope))
        return self._tables[rope]

    def _rope_factors(self, rope: RopeParameters) -> npt.NDArray[np.float32] | None:
        weights = self._weights
        if weights.rope_factors is not None:
            return weights.rope_factors[: rope.rotated_dims // 2]
        is_long = self._context_length > rope.scaling.original_context_length
        return weights.long_rope_factors if is_long else weights.short_rope_factors
