"""The numbers of a model, read from the header alone and checked before any weight is touched.

Every number has a cap and is held against the tensors that are there, so that a hostile or damaged header cannot
make later stages allocate or loop by it. An architecture or layout this version does not know is said to be
unsupported, never damaged.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from engine.errors import CorruptFileError, UnsupportedModelError
from engine.gguf import ArraySummary, GGUFFile
from engine.model.architectures import ARCHITECTURES, Architecture, RopeLayers, RopeSections
from engine.model.keys import ArchitectureKeys
from engine.model.rope import RopeParameters, RopeScaling, RopeScalingKind

MAX_LAYERS = 1024
MAX_HEADS = 4096
MAX_WIDTH = 1 << 20
MAX_CONTEXT_LENGTH = 1 << 30
MAX_VOCAB_SIZE = 1 << 24

_LAYER_NAME = re.compile(r"blk\.(\d{1,9})\.")


@dataclass(frozen=True)
class LayerHyperparameters:
    """Shape of one layer.

    Attributes:
        num_heads, num_kv_heads: query heads, and the heads of keys and values they share. No heads is no attention
            in this layer; heads without KV heads is one matrix in its place.
        key_dim, value_dim: width of one head.
        feed_forward_dim: width inside the feed-forward; 0 is none in this layer.
        window: tokens a token sees, itself included; None is all.
        rope: rotation of queries and keys; None is none.
    """

    num_heads: int
    num_kv_heads: int
    key_dim: int
    value_dim: int
    feed_forward_dim: int
    window: int | None
    rope: RopeParameters | None


@dataclass(frozen=True)
class Hyperparameters:
    """The numbers of a model.

    Attributes:
        architecture: the row that applies.
        context_length: tokens the model was trained for.
        vocab_size: rows of the token embedding.
        embedding_dim: width of the residual stream.
        norm_eps: epsilon of the RMS norms.
        layers: one entry a layer, in order.
        embedding_scale: factor on the embedding.
        residual_scale: factor on what attention and feed-forward add.
        logit_scale: factor on the logits.
        attention_scale: factor on q.k; None is 1 / sqrt(key_dim) of the layer.
        attention_soft_cap, logit_soft_cap: caps c of ``c * tanh(x / c)``; None is none.
        num_loops: how often the layers run, one after the other.
        has_norm_between_loops: the output norm also stands between two runs.
    """

    architecture: str
    context_length: int
    vocab_size: int
    embedding_dim: int
    norm_eps: float
    layers: tuple[LayerHyperparameters, ...]
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    attention_scale: float | None = None
    attention_soft_cap: float | None = None
    logit_soft_cap: float | None = None
    num_loops: int = 1
    has_norm_between_loops: bool = True

    @property
    def num_layers(self) -> int:
        """Layers of the model."""
        return len(self.layers)

    @property
    def row(self) -> Architecture:
        """The row of data of this architecture."""
        return ARCHITECTURES[self.architecture]


def read_hyperparameters(file: GGUFFile) -> Hyperparameters:
    """Read and check the header of ``file``.

    Raises UnsupportedModelError for an architecture or layout that has no row, MetadataError for a key that is
    absent or out of its range, CorruptFileError where header and tensors contradict each other.
    """
    row = ARCHITECTURES.get(file.architecture)
    if row is None:
        raise UnsupportedModelError(
            file.path,
            f"the architecture {_shown(file.architecture)} is not supported by this version; "
            "the file itself is fine, so choose another model or a newer version.",
        )
    keys = ArchitectureKeys(file, row.name)
    if keys.integer("expert_count", default=0, maximum=MAX_WIDTH):
        raise UnsupportedModelError(
            file.path,
            f"a mixture of experts in the architecture {row.name!r} is not supported by this version; "
            "the file itself is fine, so choose another model or a newer version.",
        )
    if keys.optional_positive("attention.temperature_scale"):
        raise UnsupportedModelError(
            file.path,
            "attention that grows with the position is not supported by this version; "
            "the file itself is fine, so choose another model or a newer version.",
        )
    num_layers = keys.integer("block_count", maximum=MAX_LAYERS)
    if row.only_with_layers not in {None, num_layers}:
        raise UnsupportedModelError(
            file.path,
            f"the architecture {row.name!r} with {num_layers} layers is not supported by this version; "
            "the file itself is fine, so choose another model or a newer version.",
        )
    embedding_dim = keys.integer("embedding_length", maximum=MAX_WIDTH)
    layers = _read_layers(keys, row, num_layers, embedding_dim)
    _check_layers(file, layers)
    embedding_scale, residual_scale, logit_scale = _read_scales(keys, row, num_layers, embedding_dim)
    return Hyperparameters(
        architecture=row.name,
        context_length=keys.integer("context_length", maximum=MAX_CONTEXT_LENGTH),
        vocab_size=_read_vocab_size(file, keys),
        embedding_dim=embedding_dim,
        norm_eps=keys.number("attention.layer_norm_rms_epsilon", minimum=0.0, maximum=1.0),
        layers=layers,
        embedding_scale=embedding_scale,
        residual_scale=residual_scale,
        logit_scale=logit_scale,
        attention_scale=_read_attention_scale(keys, row, layers, embedding_dim),
        attention_soft_cap=(
            keys.positive("attn_logit_softcapping", default=row.attention_soft_cap)
            if row.attention_soft_cap is not None
            else None
        ),
        logit_soft_cap=keys.optional_positive("final_logit_softcapping") if row.has_logit_soft_cap else None,
        num_loops=keys.integer("num_loops", default=1, maximum=MAX_LAYERS // num_layers) if row.can_loop else 1,
        has_norm_between_loops=not keys.boolean("skip_loop_final_norm", default=False),
    )


def _read_layers(
    keys: ArchitectureKeys, row: Architecture, num_layers: int, embedding_dim: int
) -> tuple[LayerHyperparameters, ...]:
    least = 0 if row.can_omit_parts else 1
    heads = keys.per_layer("attention.head_count", num_layers, minimum=least, maximum=MAX_HEADS)
    kv_heads = keys.per_layer(
        "attention.head_count_kv", num_layers, minimum=least, maximum=MAX_HEADS, default=heads
    )
    feed_forward = keys.per_layer("feed_forward_length", num_layers, minimum=least, maximum=MAX_WIDTH)
    most_heads = max(1, *heads)
    if "attention.key_length" not in keys and embedding_dim % most_heads:
        raise keys.error("attention.head_count", f"{most_heads} heads do not divide a width of {embedding_dim}.")
    key_dim = keys.integer("attention.key_length", default=embedding_dim // most_heads, maximum=MAX_WIDTH)
    value_dim = keys.integer("attention.value_length", default=key_dim, maximum=MAX_WIDTH)
    for count, kv_count in zip(heads, kv_heads, strict=True):
        if kv_count and count % kv_count:
            raise keys.error("attention.head_count_kv", f"{kv_count} KV heads cannot serve {count} heads.")
    if most_heads * max(key_dim, value_dim) > MAX_WIDTH:
        raise keys.error("attention.head_count", f"{most_heads} heads of {max(key_dim, value_dim)} are too many.")
    windows = _read_windows(keys, row, num_layers)
    has_rope = _read_rope_layers(keys, row, windows)
    full, sliding = _read_rope(keys, row, key_dim)
    return tuple(
        LayerHyperparameters(
            num_heads=heads[layer],
            num_kv_heads=kv_heads[layer],
            key_dim=key_dim,
            value_dim=value_dim,
            feed_forward_dim=feed_forward[layer],
            window=windows[layer],
            rope=(full if windows[layer] is None else sliding) if has_rope[layer] else None,
        )
        for layer in range(num_layers)
    )


def _read_rope_layers(keys: ArchitectureKeys, row: Architecture, windows: tuple[int | None, ...]) -> list[bool]:
    """Which layers turn their queries and keys."""
    match row.rope_layers:
        case RopeLayers.ALL:
            return [True] * len(windows)
        case RopeLayers.NOT_EVERY_FOURTH:
            return [(layer + 1) % 4 != 0 for layer in range(len(windows))]
        case RopeLayers.SLIDING:
            return [window is not None or not any(windows) for window in windows]
        case RopeLayers.PATTERN:
            return keys.flags("attention.rope_pattern", len(windows))


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
        flags = [layer % period < period - 1 for layer in range(num_layers)]
    return tuple(window if flag else None for flag in flags)


def _read_rope(keys: ArchitectureKeys, row: Architecture, key_dim: int) -> tuple[RopeParameters, RopeParameters]:
    """Rotation of full layers and of sliding layers."""
    rotated_dims = keys.integer("rope.dimension_count", default=key_dim, maximum=MAX_WIDTH)
    if rotated_dims > key_dim or rotated_dims % 2:
        raise keys.error("rope.dimension_count", f"{rotated_dims} of {key_dim} values of a head cannot turn.")
    base = keys.number("rope.freq_base", minimum=1.0, maximum=1e12, default=10000.0, is_open=True)
    if rotated_dims > 2:
        base *= keys.positive("rope.scaling.alpha", default=1.0) ** (rotated_dims / (rotated_dims - 2))
    full = RopeParameters(
        rotated_dims,
        base,
        _read_rope_scaling(keys),
        _read_rope_sections(keys, rotated_dims),
        row.rope_sections is RopeSections.INTERLEAVED,
    )
    if row.window is None:
        return full, full
    window_base = keys.number(
        "rope.freq_base_swa", minimum=1.0, maximum=1e12, default=row.window.rope_base or base, is_open=True
    )
    scaling = full.scaling if row.window.is_rope_scaled else RopeScaling()
    return full, replace(full, base=window_base, scaling=scaling)


def _read_rope_scaling(keys: ArchitectureKeys) -> RopeScaling:
    name = keys.metadata.string(f"{keys.prefix}.rope.scaling.type", default="linear")
    try:
        kind = RopeScalingKind(name)
    except ValueError:
        raise UnsupportedModelError(
            keys.path, f"the rope scaling {_shown(name)} is not supported by this version; choose another model."
        ) from None
    # Old files name the linear factor ``rope.scale_linear``; a factor of 0 means 1.
    old_factor = keys.number("rope.scale_linear", minimum=0.0, maximum=1e6, default=0.0)
    factor = keys.number("rope.scaling.factor", minimum=0.0, maximum=1e6, default=old_factor) or 1.0
    if kind is RopeScalingKind.LINEAR and factor == 1.0:
        kind = RopeScalingKind.NONE
    context = keys.integer("context_length", maximum=MAX_CONTEXT_LENGTH)
    beta_slow = keys.positive("rope.scaling.yarn_beta_slow", default=1.0)
    if kind is RopeScalingKind.YARN and factor < 1.0:
        raise keys.error("rope.scaling.factor", f"{factor} is out of range.")
    return RopeScaling(
        kind=kind,
        factor=factor,
        original_context_length=keys.integer(
            "rope.scaling.original_context_length", default=context, maximum=MAX_CONTEXT_LENGTH
        ),
        beta_fast=keys.positive("rope.scaling.yarn_beta_fast", default=32.0),
        beta_slow=beta_slow,
        attention_factor=keys.positive("rope.scaling.attn_factor", default=1.0, maximum=1e3),
        log_multiplier=keys.number("rope.scaling.yarn_log_multiplier", minimum=0.0, maximum=1e3, default=0.0),
    )


def _read_rope_sections(keys: ArchitectureKeys, rotated_dims: int) -> tuple[int, ...]:
    key = "rope.dimension_sections"
    if key not in keys:
        return ()
    sections = keys.metadata.integers(f"{keys.prefix}.{key}", minimum=0, maximum=MAX_WIDTH).tolist()
    if len(sections) not in {3, 4} or not any(sections):
        raise keys.error(key, f"must be three or four counts of the {rotated_dims // 2} pairs.")
    return tuple(sections)


def _read_scales(
    keys: ArchitectureKeys, row: Architecture, num_layers: int, embedding_dim: int
) -> tuple[float, float, float]:
    """Factors on the embedding, on what each part adds, and on the logits."""
    if row.scales is None:
        return math.sqrt(embedding_dim) if row.scales_embedding else 1.0, 1.0, 1.0
    depth, width = row.scales.residual_by_depth, row.scales.logit_by_width
    embedding = keys.positive("embedding_scale", default=row.scales.embedding)
    residual = keys.positive("residual_scale", default=1.0 if depth is None else depth / math.sqrt(num_layers))
    divisor = keys.positive("logit_scale", default=1.0 if width is None else width / embedding_dim)
    return embedding, residual, 1.0 / divisor


def _read_attention_scale(
    keys: ArchitectureKeys, row: Architecture, layers: tuple[LayerHyperparameters, ...], embedding_dim: int
) -> float | None:
    if row.width_scaled_at == len(layers):
        return 1.0 / math.sqrt(embedding_dim / layers[0].num_heads)
    return keys.optional_positive("attention.scale")


def _read_vocab_size(file: GGUFFile, keys: ArchitectureKeys) -> int:
    """Rows of the token embedding, which must be as many as the vocabulary has tokens."""
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise UnsupportedModelError(
            file.path,
            f"it has no token embedding as the architecture {keys.prefix!r} needs it, so it is not a complete "
            "language model of a layout this version knows.",
        )
    vocab_size = embedding.shape[0]
    if not 1 <= vocab_size <= MAX_VOCAB_SIZE:
        raise CorruptFileError(file.path, f"a vocabulary of {vocab_size:,} tokens is out of range.")
    tokens = file.metadata.raw("tokenizer.ggml.tokens") if "tokenizer.ggml.tokens" in file.metadata else None
    if isinstance(tokens, ArraySummary) and tokens.length != vocab_size:
        raise CorruptFileError(
            file.path,
            f"the vocabulary has {tokens.length:,} tokens but the embedding {vocab_size:,} rows; "
            "download the file again or choose another.",
        )
    return vocab_size


def _check_layers(file: GGUFFile, layers: tuple[LayerHyperparameters, ...]) -> None:
    """Hold ``block_count`` against the layers that have tensors."""
    present = {int(match.group(1)) for name in file.tensors if (match := _LAYER_NAME.match(name))}
    expected = {index for index, layer in enumerate(layers) if layer.num_heads or layer.feed_forward_dim}
    if missing := expected - present:
        reason = f"layer {min(missing)} has no tensors ({len(present):,} layers have some)"
    elif len(present - expected) > 0:
        reason = f"there are tensors of layer {max(present - expected):,}"
    else:
        return
    raise CorruptFileError(
        file.path,
        f"the header promises {len(layers):,} layers but {reason}; download the file again or choose another.",
    )


def _shown(text: str) -> str:
    """Text of a file as an error shows it: quoted, escaped and short."""
    return repr(text if len(text) <= 60 else text[:60] + "…")
