"""The rotation of full and of sliding layers."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import UnsupportedModelError
from engine.model.architectures import Architecture
from engine.model.architectures.vocabulary import RopeLayers, RopePairs, RopeSections
from engine.model.header.keys import ArchitectureKeys, shown
from engine.model.header.limits import MAX_CONTEXT_LENGTH, MAX_WIDTH
from engine.model.rope import RopeParameters, RopeScaling, RopeScalingKind


def read_rope(
    keys: ArchitectureKeys, row: Architecture, full_dim: int, sliding_dim: int
) -> tuple[RopeParameters, RopeParameters] | None:
    """Rotation of full layers, whose heads have ``full_dim`` values that can turn, and of sliding ones."""
    if row.rope is RopePairs.NONE:
        return None
    dims = keys.integer("rope.dimension_count", default=full_dim, maximum=MAX_WIDTH)
    divisor = row.window.full_rope_divisor if row.window else 1
    _check_dims(keys, "rope.dimension_count", dims // divisor, full_dim)
    base = keys.number("rope.freq_base", minimum=1.0, maximum=1e12, default=10000.0, is_open=True)
    if dims > 2:
        base *= keys.positive("rope.scaling.alpha", default=1.0) ** (dims / (dims - 2))
    full = RopeParameters(
        dims // divisor,
        base,
        _read_scaling(keys, row),
        _read_sections(keys, dims),
        row.rope_sections is RopeSections.INTERLEAVED,
    )
    if row.window is None:
        return full, full
    sliding_base = keys.number(
        "rope.freq_base_swa", minimum=1.0, maximum=1e12, default=row.window.rope_base or base, is_open=True
    )
    key = "rope.dimension_count_swa"
    sliding_dims = keys.integer(key, default=min(dims, sliding_dim), maximum=MAX_WIDTH)
    _check_dims(keys, key, sliding_dims, sliding_dim)
    return full, replace(
        full,
        rotated_dims=sliding_dims,
        base=sliding_base,
        scaling=full.scaling if row.window.is_rope_scaled else RopeScaling(),
        has_factors=row.window.has_rope_factors,
    )


def read_rope_layers(
    keys: ArchitectureKeys, row: Architecture, windows: tuple[int | None, ...], num_dense: int
) -> list[bool]:
    """Which layers turn their queries and keys."""
    match row.rope_layers:
        case RopeLayers.ALL:
            return [True] * len(windows)
        case RopeLayers.NOT_EVERY_FOURTH:
            return [(layer + 1) % 4 != 0 for layer in range(len(windows))]
        case RopeLayers.SLIDING:
            has_windows = keys.integer("attention.sliding_window", default=0, minimum=0, maximum=MAX_CONTEXT_LENGTH)
            return [window is not None or not has_windows for window in windows]
        case RopeLayers.SLIDING_OR_DENSE:
            return [window is not None or layer < num_dense for layer, window in enumerate(windows)]
        case RopeLayers.TRAINED:
            return [keys.boolean("rope.scaling.finetuned", default=True)] * len(windows)
        case RopeLayers.PATTERN:
            return keys.flags("attention.rope_pattern", len(windows))


def _check_dims(keys: ArchitectureKeys, key: str, dims: int, head_dim: int) -> None:
    if not 0 < dims <= head_dim or dims % 2:
        raise keys.error(key, f"{dims} of {head_dim} values of a head cannot turn.")


def _read_scaling(keys: ArchitectureKeys, row: Architecture) -> RopeScaling:
    name = keys.metadata.string(f"{keys.prefix}.rope.scaling.type", default="linear")
    try:
        kind = RopeScalingKind(name)
    except ValueError:
        raise UnsupportedModelError(
            keys.path, f"the rope scaling {shown(name)} is not supported by this version; choose another model."
        ) from None
    # Old files name the linear factor ``rope.scale_linear``; a factor of 0 means 1.
    old_factor = keys.number("rope.scale_linear", minimum=0.0, maximum=1e6, default=0.0)
    factor = keys.number("rope.scaling.factor", minimum=0.0, maximum=1e6, default=old_factor) or 1.0
    if kind is RopeScalingKind.LINEAR and factor == 1.0:
        kind = RopeScalingKind.NONE
    context = keys.integer("context_length", maximum=MAX_CONTEXT_LENGTH)
    if kind is RopeScalingKind.YARN and factor < 1.0:
        raise keys.error("rope.scaling.factor", f"{factor} is out of range.")
    return RopeScaling(
        kind=kind,
        factor=factor,
        original_context_length=keys.integer(
            "rope.scaling.original_context_length", default=context, maximum=MAX_CONTEXT_LENGTH
        ),
        beta_fast=keys.positive("rope.scaling.yarn_beta_fast", default=32.0),
        beta_slow=keys.positive("rope.scaling.yarn_beta_slow", default=1.0),
        attention_factor=keys.positive("rope.scaling.attn_factor", default=1.0, maximum=1e3),
        log_multiplier=keys.number("rope.scaling.yarn_log_multiplier", minimum=0.0, maximum=1e3, default=0.0),
        is_on_scores=row.is_yarn_on_scores,
    )


def _read_sections(keys: ArchitectureKeys, rotated_dims: int) -> tuple[int, ...]:
    key = "rope.dimension_sections"
    if key not in keys:
        return ()
    sections = keys.metadata.integers(f"{keys.prefix}.{key}", minimum=0, maximum=MAX_WIDTH).tolist()
    if len(sections) not in {3, 4} or not any(sections):
        raise keys.error(key, f"must be three or four counts of the {rotated_dims // 2} pairs.")
    return tuple(sections)
