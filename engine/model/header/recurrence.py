"""Recurrent layers: their sizes, and which layers they are."""

from __future__ import annotations

from engine.model.architectures import Architecture
from engine.model.architectures.vocabulary import Recurrence, RecurrentLayers
from engine.model.header.keys import ArchitectureKeys
from engine.model.header.limits import MAX_HEADS, MAX_LAYERS, MAX_STATE_VALUES, MAX_WIDTH
from engine.model.hyperparameters import RecurrenceHyperparameters

MAX_TAPS = 64


def read_recurrence(keys: ArchitectureKeys, row: Architecture) -> RecurrenceHyperparameters | None:
    """Sizes of the recurrence; None where the architecture has none."""
    if row.recurrence is None:
        return None
    if row.recurrence is Recurrence.CONV:
        return RecurrenceHyperparameters(keys.integer("shortconv.l_cache", minimum=2, maximum=MAX_TAPS))
    num_heads = keys.integer("ssm.time_step_rank", maximum=MAX_HEADS)
    sizes = RecurrenceHyperparameters(
        num_taps=keys.integer("ssm.conv_kernel", minimum=2, maximum=MAX_TAPS),
        inner_dim=keys.integer("ssm.inner_size", maximum=MAX_WIDTH),
        state_dim=keys.integer("ssm.state_size", maximum=MAX_WIDTH),
        num_groups=keys.integer("ssm.group_count", maximum=num_heads),
        num_heads=num_heads,
    )
    if num_heads % sizes.num_groups:
        raise keys.error("ssm.group_count", f"{sizes.num_groups} groups cannot serve {num_heads} heads.")
    is_delta = row.recurrence is Recurrence.DELTA_NET
    if sizes.inner_dim % num_heads or (is_delta and sizes.inner_dim != num_heads * sizes.state_dim):
        raise keys.error("ssm.inner_size", f"{sizes.inner_dim} does not fit {num_heads} heads.")
    if sizes.inner_dim * sizes.state_dim > MAX_STATE_VALUES:
        raise keys.error("ssm.state_size", f"{sizes.state_dim} is too large for a width of {sizes.inner_dim}.")
    return sizes


def read_recurrent_layers(keys: ArchitectureKeys, row: Architecture, kv_heads: tuple[int, ...]) -> list[bool]:
    """Which layers have the recurrence; of architectures with one part a layer, where there is no other either."""
    num_layers = len(kv_heads)
    if row.recurrence is None:
        return [False] * num_layers
    match row.recurrent_layers:
        case RecurrentLayers.ALL | RecurrentLayers.BESIDE:
            return [True] * num_layers
        case RecurrentLayers.WITHOUT_KV:
            return [not count for count in kv_heads]
        case RecurrentLayers.NOT_EVERY_FOURTH:
            if "attention.recurrent_layers" in keys:
                return keys.flags("attention.recurrent_layers", num_layers)
            interval = keys.integer("full_attention_interval", default=4, maximum=MAX_LAYERS)
            return [(layer + 1) % interval != 0 for layer in range(num_layers)]
