"""The shape of each layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.model.architectures import Architecture
from engine.model.architectures.vocabulary import RecurrentLayers, Temperature
from engine.model.header.experts import router_name
from engine.model.header.keys import ArchitectureKeys
from engine.model.header.limits import MAX_CONTEXT_LENGTH, MAX_HEADS, MAX_LAYERS, MAX_WIDTH
from engine.model.header.recurrence import read_recurrent_layers
from engine.model.header.rope import read_rope, read_rope_layers
from engine.model.hyperparameters import (
    ExpertHyperparameters,
    LatentHyperparameters,
    LayerHyperparameters,
    PositionScale,
)
from engine.model.plan import Activation
from engine.model.rope import RopeParameters, RopeScalingKind

_TOP_TWENTIETH = 1.6448536269514715  # deviations above the mean of normally distributed values: probit(0.95)


@dataclass(frozen=True)
class _HeadDims:
    """Widths of a head's key and value."""

    key: int
    value: int


def read_layers(
    keys: ArchitectureKeys,
    row: Architecture,
    num_layers: int,
    embedding_dim: int,
    experts: ExpertHyperparameters | None,
    latent: LatentHyperparameters | None,
) -> tuple[LayerHyperparameters, ...]:
    """One entry a layer."""
    heads, kv_heads = _read_heads(keys, row, num_layers)
    is_recurrent = read_recurrent_layers(keys, row, kv_heads)
    has_experts = [experts is not None and router_name(layer) in keys.tensors for layer in range(num_layers)]
    feed_forward = _read_feed_forward(keys, row, num_layers, all(has_experts))
    if row.has_one_part:
        for layer, width in enumerate(feed_forward):
            is_recurrent[layer] &= not width and not has_experts[layer]
    if row.recurrence is not None and row.recurrent_layers is not RecurrentLayers.BESIDE:
        # These files state the heads of attention for all layers.
        heads = tuple(
            0 if is_recurrent[layer] or not kv_heads[layer] else count for layer, count in enumerate(heads)
        )
        kv_heads = tuple(count if heads[layer] else 0 for layer, count in enumerate(kv_heads))
    windows = _read_windows(keys, row, num_layers)
    full_dims, sliding_dims = _read_head_dims(keys, row, max(1, *heads), embedding_dim)
    num_dense = keys.integer("leading_dense_block_count", default=0, minimum=0, maximum=num_layers)
    turns = read_rope_layers(keys, row, windows, num_dense)
    turning = (latent.rotated_dim,) * 2 if latent else (full_dims.key, sliding_dims.key)
    ropes = read_rope(keys, row, *turning)
    kv_layers = _read_kv_layers(keys, row, windows)
    expert_limits = keys.numbers_per_layer("swiglu_clamp_exp", num_layers) or (0.0,) * num_layers
    dense_limits = keys.numbers_per_layer("swiglu_clamp_shexp", num_layers) or (0.0,) * num_layers
    activations = _read_activation_parameters(keys, row, num_layers)
    scales = _read_attention_scales(keys, row, num_layers, embedding_dim)
    layers = []
    for layer, window in enumerate(windows):
        rope = ropes[0 if window is None else 1] if ropes and turns[layer] else None
        dims = full_dims if window is None else sliding_dims
        key_dim = latent.plain_dim + latent.rotated_dim if latent else dims.key
        scale = scales or key_dim**-0.5
        layers.append(
            LayerHyperparameters(
                num_heads=heads[layer],
                num_kv_heads=heads[layer] if latent else kv_heads[layer],
                key_dim=key_dim,
                value_dim=latent.value_dim if latent else dims.value,
                feed_forward_dim=feed_forward[layer],
                window=window,
                rope=rope,
                attention_scale=scale * _magnitude_on_scores(rope),
                chunk=row.chunk if rope is not None else None,
                kv_layer=kv_layers[layer],
                position_scale=_read_position_scale(keys, row, rope),
                has_experts=has_experts[layer],
                is_recurrent=is_recurrent[layer],
                expert_limit=expert_limits[layer] or row.gate_limit,
                dense_limit=dense_limits[layer] or row.gate_limit,
                activation_parameters=activations[layer],
                gate_cutoff=_TOP_TWENTIETH if layer < row.num_sparse_layers else None,
            )
        )
    return tuple(layers)


def _read_heads(
    keys: ArchitectureKeys, row: Architecture, num_layers: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    least = 0 if row.can_omit_parts or row.recurrence is not None else 1
    heads = keys.per_layer("attention.head_count", num_layers, minimum=least, maximum=MAX_HEADS)
    key = "attention.head_count_kv"
    kv_heads = keys.per_layer(key, num_layers, minimum=least, maximum=MAX_HEADS, default=heads)
    for count, kv_count in zip(heads, kv_heads, strict=True):
        if kv_count and count % kv_count:
            raise keys.error(key, f"{kv_count} KV heads cannot serve {count} heads.")
    return heads, kv_heads


def _read_feed_forward(
    keys: ArchitectureKeys, row: Architecture, num_layers: int, has_only_experts: bool
) -> tuple[int, ...]:
    """Width of each layer's dense feed-forward, which a model of experts alone need not state."""
    least = 0 if row.can_omit_parts or row.recurrence is not None or has_only_experts else 1
    default = (0,) * num_layers if has_only_experts else None
    key = "feed_forward_length"
    return keys.per_layer(key, num_layers, minimum=least, maximum=MAX_WIDTH, default=default)


def _read_head_dims(
    keys: ArchitectureKeys, row: Architecture, most_heads: int, embedding_dim: int
) -> tuple[_HeadDims, _HeadDims]:
    """Widths of the heads of full and of sliding layers."""
    if "attention.key_length" not in keys and embedding_dim % most_heads:
        raise keys.error("attention.head_count", f"{most_heads} heads do not divide a width of {embedding_dim}.")
    key_dim = keys.integer("attention.key_length", default=embedding_dim // most_heads, maximum=MAX_WIDTH)
    value_dim = keys.integer("attention.value_length", default=key_dim, maximum=MAX_WIDTH)
    full = sliding = _HeadDims(key_dim, value_dim)
    if row.window is not None:
        sliding = _HeadDims(
            keys.integer("attention.key_length_swa", default=key_dim, maximum=MAX_WIDTH),
            keys.integer("attention.value_length_swa", default=value_dim, maximum=MAX_WIDTH),
        )
    widest = max(full.key, full.value, sliding.key, sliding.value)
    if most_heads * widest > MAX_WIDTH:
        raise keys.error("attention.head_count", f"{most_heads} heads of {widest} are too many.")
    return full, sliding


def _read_windows(keys: ArchitectureKeys, row: Architecture, num_layers: int) -> tuple[int | None, ...]:
    """Window of each layer: the file's pattern (a flag a layer, or a period), else the row's period."""
    if row.window is None:
        return (None,) * num_layers
    window = keys.integer("attention.sliding_window", default=0, minimum=0, maximum=MAX_CONTEXT_LENGTH)
    if not window:
        return (None,) * num_layers
    pattern = "attention.sliding_window_pattern"
    if row.window.period is None or keys.is_array(pattern):
        flags = keys.flags(pattern, num_layers)
    else:
        period = keys.integer(pattern, default=row.window.period, maximum=MAX_LAYERS)
        full = 0 if row.window.is_full_first else period - 1
        flags = [layer % period != full for layer in range(num_layers)]
    return tuple((row.window.size or window) if flag else None for flag in flags)


def _read_kv_layers(keys: ArchitectureKeys, row: Architecture, windows: Sequence[int | None]) -> list[int | None]:
    """The last layers may use the keys and values of the last earlier layer of their kind."""
    num_layers = len(windows)
    key = "attention.shared_kv_layers"
    usual = 0 if row.first_sharing_layer is None else max(0, num_layers - row.first_sharing_layer)
    num_shared = keys.integer(key, default=usual, minimum=0, maximum=num_layers) if row.can_share_kv else 0
    first_shared = num_layers - num_shared
    sources: list[int | None] = [None] * first_shared
    for window in windows[first_shared:]:
        same = [layer for layer in range(first_shared) if (windows[layer] is None) == (window is None)]
        if not same:
            raise keys.error(key, f"{num_shared} of {num_layers} layers leave none whose keys they could use.")
        sources.append(same[-1])
    return sources


def _read_attention_scales(
    keys: ArchitectureKeys, row: Architecture, num_layers: int, embedding_dim: int
) -> float | None:
    """Factor on q.k of all layers; None is 1 / sqrt(key_dim) of each."""
    if row.width_scaled_at == num_layers:
        heads = keys.per_layer("attention.head_count", num_layers, minimum=1, maximum=MAX_HEADS)
        return 1.0 / math.sqrt(embedding_dim / heads[0])
    if row.attention_scale is not None:
        return row.attention_scale
    return keys.optional_positive("attention.scale") or keys.optional_positive("attention.output_scale")


def _magnitude_on_scores(rope: RopeParameters | None) -> float:
    """YaRN's magnitude of queries times that of keys, where it is not in cos and sin."""
    if rope is None or rope.scaling.kind is not RopeScalingKind.YARN or not rope.scaling.is_on_scores:
        return 1.0
    return (1.0 + rope.scaling.log_multiplier * math.log(rope.scaling.factor)) ** 2


def _read_position_scale(
    keys: ArchitectureKeys, row: Architecture, rope: RopeParameters | None
) -> PositionScale | None:
    match row.temperature:
        case Temperature.NONE:
            return None
        case Temperature.WITHOUT_ROPE:
            return None if rope is not None else PositionScale(scale=0.1, length=8192, offset=1)
        case Temperature.BY_ORIGINAL_CONTEXT:
            length = rope.scaling.original_context_length if rope is not None else 1
        case Temperature.BY_LENGTH:
            length = keys.integer("attention.temperature_length", default=1, maximum=MAX_CONTEXT_LENGTH)
    scale = keys.optional_positive("attention.temperature_scale")
    return PositionScale(scale, length) if scale else None


def _read_activation_parameters(
    keys: ArchitectureKeys, row: Architecture, num_layers: int
) -> list[tuple[float, float, float, float] | None]:
    """Parameters of xIELU: its slopes are stored before a softplus."""
    if row.activation is not Activation.XIELU:
        return [None] * num_layers
    names = (".xielu.alpha_n", ".xielu.alpha_p", ".xielu.beta", ".xielu.eps")
    read = [keys.numbers_per_layer(name, num_layers) for name in names]
    for name, values in zip(names, read, strict=True):
        if values is None:
            raise keys.error(name, "is missing from the file, which cannot be used without it.")
    columns = [values for values in read if values is not None]
    return [
        (beta + _softplus(alpha_n), _softplus(alpha_p), beta, eps)
        for alpha_n, alpha_p, beta, eps in zip(*columns, strict=True)
    ]


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
