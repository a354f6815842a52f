"""Compressed keys and values (multi-head latent attention)."""

from __future__ import annotations

from engine.errors import UnsupportedModelError
from engine.model.header.keys import ArchitectureKeys
from engine.model.header.limits import MAX_LATENT_WIDTH, MAX_WIDTH
from engine.model.hyperparameters import LatentHyperparameters


def read_latent(keys: ArchitectureKeys) -> LatentHyperparameters:
    """The ranks and widths; files for an absorbed computation name the uncompressed widths by keys of their own."""
    rank = keys.integer("attention.kv_lora_rank", maximum=MAX_WIDTH)
    is_absorbed = "attention.key_length_mla" in keys
    suffix = "_mla" if is_absorbed else ""
    key_name = f"attention.key_length{suffix}"
    key_dim = keys.integer(key_name, maximum=MAX_WIDTH)
    rotated_dim = keys.integer("rope.dimension_count", maximum=MAX_WIDTH)
    if rotated_dim >= key_dim:
        raise keys.error(key_name, f"{key_dim} values of a head leave none beside the {rotated_dim} that turn.")
    widest = max(rank, key_dim - rotated_dim)
    if is_absorbed and widest > MAX_LATENT_WIDTH:
        raise UnsupportedModelError(
            keys.path,
            f"latent attention of {widest:,} values is wider than the {MAX_LATENT_WIDTH:,} that this version can "
            "compute; choose another model or a newer version.",
        )
    return LatentHyperparameters(
        query_rank=keys.integer("attention.q_lora_rank", default=0, minimum=0, maximum=MAX_WIDTH) or None,
        kv_rank=rank,
        plain_dim=key_dim - rotated_dim,
        rotated_dim=rotated_dim,
        value_dim=keys.integer(f"attention.value_length{suffix}", maximum=MAX_WIDTH),
        is_absorbed=is_absorbed,
    )
