"""The table of what is supported, made from the rows.

    python -m engine.model.architectures.table > engine/model/architectures/SUPPORTED.md

A test holds the file equal to what this prints.
"""

from __future__ import annotations

from engine.model.architectures import ROWS, Architecture
from engine.model.architectures.refused import MECHANISMS
from engine.model.architectures.vocabulary import (
    EmbeddingNorm,
    FeedForward,
    NormKind,
    QueryKeyNorm,
    RecurrentLayers,
    Residual,
    RopeLayers,
    RopePairs,
    Sinks,
    Temperature,
)

_HEAD = """# Supported architectures

Made from the rows in this folder by `python -m engine.model.architectures.table`; do not edit. The name is
`general.architecture` of a file's metadata; `python -m engine inspect MODEL` shows it.

| architecture | positions | attention or what stands for it | feed-forward | norms |
|---|---|---|---|---|
"""
_ROPE = {RopePairs.ADJACENT: "rope (pairs)", RopePairs.HALVES: "rope (halves)"}


def table() -> str:
    """The whole file."""
    lines = [_line(row) for row in sorted(ROWS, key=lambda row: (row.name, row.only_with_layers or 0))]
    refused = [f"- {mechanism}: {', '.join(f'`{name}`' for name in names)}" for mechanism, names in _refused()]
    tail = "\n\n## Refused by name\n\nThey would need something that the plan has no op for:\n\n"
    return _HEAD + "\n".join(lines) + tail + "\n".join(refused) + "\n"


def _refused() -> list[tuple[str, list[str]]]:
    return [(mechanism, sorted(names)) for mechanism, names in MECHANISMS.items()]


def _line(row: Architecture) -> str:
    name = f"`{row.name}`" + (f" ({row.only_with_layers} layers)" if row.only_with_layers else "")
    cells = (name, _positions(row), _mixer(row), _feed_forward(row), _norms(row))
    return "| " + " | ".join(cells) + " |"


def _positions(row: Architecture) -> str:
    parts = [_ROPE[row.rope]] if row.rope in _ROPE else []
    if row.rope_layers is not RopeLayers.ALL and parts:
        parts[0] += f", layers: {row.rope_layers.value}"
    if row.alibi_bias is not None:
        parts.append("bias by distance")
    if row.has_position_embedding:
        parts.append("learned")
    if row.temperature is not Temperature.NONE:
        parts.append("temperature")
    return "; ".join(parts) or "none"


def _attention(row: Architecture) -> str:
    features = {
        "latent (MLA)": row.has_latent_attention,
        "sliding window": row.window is not None,
        "in runs": row.chunk is not None,
        "sinks": row.sinks is not Sinks.NONE,
        "gate": row.attention_gate is not None or row.has_query_gate,
        "q/k norm": row.query_key_norm is not QueryKeyNorm.NONE,
        "v norm": row.has_value_norm,
        "clamp": row.has_qkv_clamp,
        "soft cap": row.attention_soft_cap is not None,
        "shared keys and values": row.can_share_kv,
    }
    return ", ".join(name for name, has in features.items() if has) or "plain"


def _mixer(row: Architecture) -> str:
    if row.recurrence is None:
        return _attention(row)
    if row.recurrent_layers is RecurrentLayers.ALL:
        return row.recurrence.value
    return f"{row.recurrence.value} ({row.recurrent_layers.value}); {_attention(row)}"


def _feed_forward(row: Architecture) -> str:
    kind = "" if row.feed_forward is FeedForward.PLAIN else "gated "
    text = kind + row.activation.value
    if row.experts is not None:
        text += f"; experts ({row.experts.gating.value}, {row.experts.beside.value})"
    return text


def _norms(row: Architecture) -> str:
    parts = ["RMS" if row.norm is NormKind.RMS else "layer" if row.norm is NormKind.LAYER else "RMS or layer"]
    places = (["before"] if row.has_pre_norms else []) + (["after"] if row.has_post_norms else [])
    parts.append(" and ".join(places))
    if row.residual is not Residual.SEQUENTIAL:
        parts.append("parallel" if row.residual is Residual.PARALLEL else f"parallel {row.residual.value}")
    if row.embedding_norm is not EmbeddingNorm.NONE:
        parts.append("embedding")
    if row.has_streams:
        parts.append("several streams (AltUp)")
    return ", ".join(parts)


if __name__ == "__main__":
    print(table(), end="")
