"""The mixture of experts."""

from __future__ import annotations

from engine.errors import UnsupportedModelError
from engine.gguf import GGUFFile
from engine.model.architectures import Architecture
from engine.model.architectures.vocabulary import Experts, Normalization
from engine.model.header.keys import ArchitectureKeys
from engine.model.header.limits import MAX_EXPERTS, MAX_EXPERTS_USED, MAX_WIDTH
from engine.model.hyperparameters import ExpertHyperparameters
from engine.model.plan import Gating

# ``expert_gating_func``
_GATINGS = {1: Gating.SOFTMAX, 2: Gating.SIGMOID, 3: Gating.SOFTMAX_OF_CHOSEN}


def router_name(layer: int) -> str:
    """Name of a layer's router matrix, whose presence makes a layer one with experts."""
    return f"blk.{layer}.ffn_gate_inp.weight"


def read_experts(file: GGUFFile, keys: ArchitectureKeys, row: Architecture) -> ExpertHyperparameters | None:
    """Numbers of the mixture, or None where the file has none."""
    num_experts = keys.integer("expert_count", default=0, minimum=0, maximum=MAX_EXPERTS)
    if not num_experts:
        return None
    if row.experts is None:
        raise UnsupportedModelError(
            file.path,
            f"a mixture of experts in the architecture {row.name!r} is not supported by this version; "
            "the file itself is fine, so choose another model or a newer version.",
        )
    num_used = keys.integer("expert_used_count", maximum=min(num_experts, MAX_EXPERTS_USED))
    num_groups = keys.integer("expert_group_count", default=0, minimum=0, maximum=num_experts) or 1
    num_used_groups = (
        keys.integer("expert_group_used_count", default=0, minimum=0, maximum=num_groups) or num_groups
    )
    if num_experts % num_groups or num_used > num_experts // num_groups * num_used_groups:
        raise keys.error("expert_group_count", f"{num_groups} groups do not fit {num_experts} experts.")
    if num_groups > 1 and num_experts // num_groups < 2:
        raise keys.error("expert_group_count", f"{num_groups} groups of {num_experts} experts are too small.")
    # A few architectures state the width of an expert as that of the feed-forward.
    expert_width = keys.integer("expert_feed_forward_length", default=0, minimum=0, maximum=MAX_WIDTH)
    if not expert_width:
        expert_width = keys.integer("feed_forward_length", maximum=MAX_WIDTH)
    shared = ("expert_shared_count", "expert_shared_feed_forward_length")
    has_chunks = row.experts.has_chunks
    return ExpertHyperparameters(
        num_experts=num_experts,
        num_used=num_used,
        width=expert_width,
        gating=_read_gating(keys, row.experts),
        is_normalized=_read_normalization(keys, row.experts),
        scale=keys.number("expert_weights_scale", minimum=0.0, maximum=1e6, default=1.0) or 1.0,
        num_groups=num_groups,
        num_used_groups=num_used_groups,
        has_shared=any(keys.integer(key, default=0, minimum=0, maximum=MAX_WIDTH) for key in shared),
        chunk_divisor=keys.integer("experts_per_group", maximum=num_experts) if has_chunks else 1,
        chunk_width=keys.integer("expert_chunk_feed_forward_length", maximum=MAX_WIDTH) if has_chunks else 0,
        chunk_scale=keys.number("expert_group_scale", minimum=-1e6, maximum=1e6) if has_chunks else 1.0,
    )


def _read_gating(keys: ArchitectureKeys, row: Experts) -> Gating:
    number = keys.integer("expert_gating_func", default=0, minimum=0, maximum=255)
    if row.is_gating_fixed or not number:
        return row.gating
    if number not in _GATINGS:
        raise UnsupportedModelError(
            keys.path, f"the routing function {number} is not supported by this version; choose another model."
        )
    return _GATINGS[number]


def _read_normalization(keys: ArchitectureKeys, row: Experts) -> bool:
    if row.normalization is Normalization.BY_KEY:
        return keys.boolean("expert_weights_norm", default=False)
    return row.normalization is Normalization.ALWAYS
