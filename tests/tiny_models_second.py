"""Tiny random models of further architectures: those of ``tests/data/goldens/tiny2_logits.json``, byte for byte.

As ``tiny_models``, but drawn in another order, with sizes that may differ from layer to layer.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter

from tests.tiny_models import F32, VOCAB_SIZE, TensorDraws

Size = TypeVar("Size", int, str)
PerLayer = Size | tuple[Size, ...]

PRE_NORMS = ("attn_norm", "ffn_norm")
POST_NORMS = ("post_attention_norm", "post_ffw_norm")


@dataclass(frozen=True)
class Recipe:
    """Parts and sizes of a tiny model; ``keys`` are further metadata without the architecture's prefix.

    A norm whose name ends in "!" is stored without ".weight". ``mixers`` says what stands where attention may:
    "attention", "linear" (one matrix) or "none".
    """

    architecture: str
    num_layers: int = 2
    embedding_dim: int = 64
    num_heads: PerLayer[int] = 4
    num_kv_heads: PerLayer[int] = 2
    head_dim: int = 16
    rotated_dims: int | None = None
    feed_forward_dim: PerLayer[int] = 128
    norms: tuple[str, ...] = PRE_NORMS
    eps: float = 1e-5
    is_tied: bool = False
    biases: tuple[str, ...] = ()  # of "qkv" and "output"
    is_qkv_fused: bool = False
    is_gate_up_fused: bool = False
    query_key_norm: str = ""  # "head" or "row"
    has_sinks: bool = False
    mixers: PerLayer[str] = "attention"
    embedding_deviation: float = 0.25
    tensor_type: GGMLQuantizationType = F32
    extra_seed: int = 0
    keys: Mapping[str, object] = field(default_factory=dict)


def _sliding(*pattern: int) -> dict[str, object]:
    flags = [bool(flag) for flag in pattern]
    return {"attention.sliding_window": 8, "attention.sliding_window_pattern": flags}


RECIPES: dict[str, Recipe] = {
    "qwen3vl": Recipe(
        "qwen3vl",
        head_dim=32,
        query_key_norm="head",
        is_tied=True,
        keys={"rope.dimension_sections": [6, 5, 5, 0], "n_deepstack_layers": 1},
    ),
    "qwen2vl": Recipe("qwen2vl", eps=0.0, biases=("qkv",), keys={"rope.dimension_sections": [2, 3, 3, 0]}),
    "hunyuan-dense": Recipe("hunyuan-dense", head_dim=32, query_key_norm="head", is_tied=True),
    "hunyuan_vl": Recipe(
        "hunyuan_vl",
        head_dim=32,
        query_key_norm="head",
        is_tied=True,
        keys={"rope.dimension_sections": [4, 4, 4, 4], "rope.scaling.alpha": 4.0},
    ),
    "paddleocr": Recipe("paddleocr", head_dim=32, is_tied=True, keys={"rope.dimension_sections": [4, 6, 6, 0]}),
    "deci": Recipe(
        "deci",
        num_layers=5,
        num_heads=(4, 0, 4, 0, 4),
        num_kv_heads=(2, 0, 0, 0, 1),
        feed_forward_dim=(128, 0, 64, 96, 128),
        mixers=("attention", "none", "linear", "none", "attention"),
    ),
    "xverse": Recipe("xverse", num_kv_heads=4),
    "baichuan-7b": Recipe(
        "baichuan", num_layers=32, embedding_dim=16, num_heads=2, head_dim=8, feed_forward_dim=32
    ),
    "exaone": Recipe("exaone", is_tied=True),
    "granite_swa": Recipe(
        "granite_swa",
        num_layers=3,
        is_tied=True,
        has_sinks=True,
        embedding_deviation=0.06,
        keys=_sliding(1, 0, 1)
        | {
            "attention.rope_pattern": [True, False, True],
            "logit_scale": 0.5,
            "residual_scale": 0.22,
            "embedding_scale": 12.0,
            "attention.scale": 0.0625,
        },
    ),
    "nanbeige": Recipe("nanbeige", is_tied=True, keys={"num_loops": 2}),
    "olmo3": Recipe(
        "olmo2",
        norms=POST_NORMS,
        num_layers=4,
        query_key_norm="row",
        feed_forward_dim=96,
        keys={
            "attention.sliding_window": 8,
            "rope.freq_base": 5e5,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 8.0,
            "rope.scaling.original_context_length": 16,
            "rope.scaling.attn_factor": 1.2,
        },
    ),
    "chatglm": Recipe("chatglm", rotated_dims=8, biases=("qkv",), is_gate_up_fused=True),
    "plamo3": Recipe(
        "plamo3",
        norms=("attn_norm", "post_attention_norm!", "ffn_norm", "post_ffw_norm!"),
        num_layers=3,
        is_tied=True,
        is_qkv_fused=True,
        query_key_norm="head",
        is_gate_up_fused=True,
        keys=_sliding(1, 1, 0) | {"rope.freq_base": 1e6, "rope.freq_base_swa": 1e4},
    ),
    "openelm": Recipe(
        "openelm",
        num_layers=3,
        num_heads=(2, 4, 4),
        num_kv_heads=(1, 1, 2),
        feed_forward_dim=(64, 96, 128),
        is_qkv_fused=True,
        query_key_norm="head",
        is_tied=True,
    ),
    "pangu-embedded": Recipe("pangu-embedded", biases=("qkv", "output")),
}
RECIPES["qwen3vl_q8"] = replace(RECIPES["qwen3vl"], tensor_type=GGMLQuantizationType.Q8_0, extra_seed=1)
# Refused for now: attention that grows with the position.
RECIPES["ministral3"] = Recipe(
    "mistral3",
    head_dim=32,
    keys={
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 16.0,
        "rope.scaling.original_context_length": 8,
        "rope.scaling.yarn_log_multiplier": 1.0,
        "attention.temperature_scale": 0.1,
    },
)


def write_tiny_model(name: str, folder: Path) -> Path:
    """Writes the model of that recipe to ``folder`` and returns its path."""
    path = folder / f"{name}.gguf"
    recipe = RECIPES[name]
    random = np.random.default_rng(zlib.crc32(name.encode()) + recipe.extra_seed)
    _TinyModel(recipe, TensorDraws(GGUFWriter(str(path), recipe.architecture), random, recipe.tensor_type)).write()
    return path


class _TinyModel:
    """One model being written."""

    def __init__(self, recipe: Recipe, draws: TensorDraws) -> None:
        self.recipe = recipe
        self.draws = draws

    def write(self) -> None:
        recipe, draws, width = self.recipe, self.draws, self.recipe.embedding_dim
        draws.writer.add_name("tiny")
        for key, value in (self._base_keys() | dict(recipe.keys)).items():
            self._key(f"{recipe.architecture}.{key}", value)
        draws.vocabulary()
        scale = width**0.5 * recipe.embedding_deviation
        draws.matrix("token_embd.weight", VOCAB_SIZE, width, scale=scale)
        draws.vector("output_norm.weight", width, mean=1.0)
        if not recipe.is_tied:
            draws.matrix("output.weight", VOCAB_SIZE, width)
        for layer in range(recipe.num_layers):
            self._norms(f"blk.{layer}.", layer)
            self._mixer(f"blk.{layer}.", layer)
            self._feed_forward(f"blk.{layer}.", layer)
        draws.finish()

    def _base_keys(self) -> dict[str, object]:
        recipe = self.recipe
        return {
            "context_length": 128,
            "embedding_length": recipe.embedding_dim,
            "block_count": recipe.num_layers,
            "feed_forward_length": recipe.feed_forward_dim,
            "vocab_size": VOCAB_SIZE,
            "attention.head_count": recipe.num_heads,
            "attention.head_count_kv": recipe.num_kv_heads,
            "attention.key_length": recipe.head_dim,
            "attention.value_length": recipe.head_dim,
            "rope.dimension_count": recipe.rotated_dims or recipe.head_dim,
            "rope.freq_base": 1e4,
            "attention.layer_norm_rms_epsilon": recipe.eps,
        }

    def _key(self, key: str, value: object) -> None:
        types = {
            bool: GGUFValueType.BOOL,
            int: GGUFValueType.UINT32,
            float: GGUFValueType.FLOAT32,
            str: GGUFValueType.STRING,
        }
        if not isinstance(value, (list, tuple)):
            self.draws.writer.add_key_value(key, value, types[type(value)])
            return
        item = types[type(value[0])]
        item = GGUFValueType.INT32 if item is GGUFValueType.UINT32 else item
        self.draws.writer.add_key_value(key, list(value), GGUFValueType.ARRAY, sub_type=item)

    def _norms(self, prefix: str, layer: int) -> None:
        for name in self.recipe.norms:
            is_absent = (name == "attn_norm" and not _at(self.recipe.num_heads, layer)) or (
                name == "ffn_norm" and not _at(self.recipe.feed_forward_dim, layer)
            )
            if not is_absent:
                full_name = name.removesuffix("!") if name.endswith("!") else f"{name}.weight"
                self.draws.vector(prefix + full_name, self.recipe.embedding_dim, mean=1.0)

    def _mixer(self, prefix: str, layer: int) -> None:
        recipe, draws, width = self.recipe, self.draws, self.recipe.embedding_dim
        match _at(recipe.mixers, layer):
            case "none":
                return
            case "linear":
                draws.matrix(prefix + "attn_output.weight", width, width)
                return
        query = _at(recipe.num_heads, layer) * recipe.head_dim
        key = _at(recipe.num_kv_heads, layer) * recipe.head_dim
        parts = {"qkv": query + 2 * key} if recipe.is_qkv_fused else {"q": query, "k": key, "v": key}
        for part, num_rows in parts.items():
            draws.matrix(f"{prefix}attn_{part}.weight", num_rows, width)
            if "qkv" in recipe.biases:
                draws.vector(f"{prefix}attn_{part}.bias", num_rows)
        draws.matrix(prefix + "attn_output.weight", width, query)
        if "output" in recipe.biases:
            draws.vector(prefix + "attn_output.bias", width)
        if recipe.query_key_norm:
            is_by_head = recipe.query_key_norm == "head"
            draws.vector(prefix + "attn_q_norm.weight", recipe.head_dim if is_by_head else query, mean=1.0)
            draws.vector(prefix + "attn_k_norm.weight", recipe.head_dim if is_by_head else key, mean=1.0)
        if recipe.has_sinks:
            draws.vector(prefix + "attn_sinks.weight", _at(recipe.num_heads, layer), deviation=1.0)

    def _feed_forward(self, prefix: str, layer: int) -> None:
        recipe, width, hidden = self.recipe, self.recipe.embedding_dim, _at(self.recipe.feed_forward_dim, layer)
        if not hidden:
            return
        if not recipe.is_gate_up_fused:
            self.draws.matrix(prefix + "ffn_gate.weight", hidden, width)
        num_rows = 2 * hidden if recipe.is_gate_up_fused else hidden
        self.draws.matrix(prefix + "ffn_up.weight", num_rows, width)
        self.draws.matrix(prefix + "ffn_down.weight", width, hidden)


def _at(value: PerLayer[Size], layer: int) -> Size:
    return value[layer] if isinstance(value, tuple) else value
