"""Architectures that are known and have no row, by the mechanism that they would need."""

from __future__ import annotations

MECHANISMS = {
    "an indexer that chooses the tokens to attend to": ("deepseek32", "glm-dsa", "glm5-next", "deepseek4"),
    "a recurrence of another kind than the gated delta net, Mamba 2 and short convolutions": (
        *("mamba", "falcon-mamba", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7", "jamba", "plamo2"),
        *("kimi-linear", "bailingmoe3", "minimax-01"),
    ),
    "attention over the sums of earlier layers": ("kimi-k3",),
    "an encoder, which reads text but writes none": (
        *("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3"),
        *("eurobert", "gemma-embedding", "t5encoder"),
    ),
    "an encoder beside the decoder": ("t5",),
    "diffusion, which does not write from left to right": ("dream", "llada", "llada-moe", "rnd1"),
    "sound instead of text": ("wavtokenizer-dec",),
}
_REFUSED = {name: mechanism for mechanism, names in MECHANISMS.items() for name in names}


def refusal(name: str) -> str | None:
    """What the architecture would need; None where it is unknown."""
    return _REFUSED.get(name)
