"""A small llama file to bend: its metadata and its tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.gguf_writer import Value, write_gguf


def small_metadata(num_layers: int = 2) -> dict[str, Any]:
    """Width 32, 4 heads of 8 on 2 KV heads, 24 tokens."""
    return {
        "general.architecture": "llama",
        "llama.block_count": num_layers,
        "llama.context_length": 64,
        "llama.embedding_length": 32,
        "llama.feed_forward_length": 48,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.tokens": Value("string", [f"t{index}" for index in range(24)]),
    }


def small_tensors(num_layers: int = 2) -> dict[str, Any]:
    shapes = {"token_embd.weight": (24, 32), "output_norm.weight": (32,)}
    for layer in range(num_layers):
        shapes |= {
            f"blk.{layer}.attn_norm.weight": (32,),
            f"blk.{layer}.attn_q.weight": (32, 32),
            f"blk.{layer}.attn_k.weight": (16, 32),
            f"blk.{layer}.attn_v.weight": (16, 32),
            f"blk.{layer}.attn_output.weight": (32, 32),
            f"blk.{layer}.ffn_norm.weight": (32,),
            f"blk.{layer}.ffn_gate.weight": (48, 32),
            f"blk.{layer}.ffn_up.weight": (48, 32),
            f"blk.{layer}.ffn_down.weight": (32, 48),
        }
    random = np.random.default_rng(1)
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def write_small_file(folder: Path, metadata: dict[str, Any], tensors: dict[str, Any]) -> Path:
    """A value of None takes the key or tensor away."""
    kept = [{key: value for key, value in items.items() if value is not None} for items in (metadata, tensors)]
    return write_gguf(folder / "small.gguf", *kept)
