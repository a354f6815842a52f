"""Writes tiny random models, one for each architecture, byte for byte those whose logits the goldens hold.

    path = write_tiny_model("qwen3", folder)     # tests/data/goldens/tiny_logits.json has its SHA-256

A recipe names the parts a model has. Weights are seeded by the model's name: matrices normal with a deviation of
fan_in ** -0.5, norms 1 + 0.1 * normal, biases 0.1 * normal. The order of the draws is part of the format.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, RopeScalingType
from gguf.quants import quantize

VOCAB_SIZE = 320
NORMAL, CONTROL = 1, 3
F32 = GGMLQuantizationType.F32

YARN = {"rope_scaling_type": RopeScalingType.YARN, "rope_scaling_factor": 4.0}
LINEAR = {"rope_scaling_type": RopeScalingType.LINEAR}


@dataclass(frozen=True)
class Recipe:
    """Parts and sizes of a tiny model; ``keys`` are further metadata, by the names of the writer's methods."""

    architecture: str
    num_layers: int = 2
    embedding_dim: int = 64
    head_dim: int = 16
    rotated_dims: int | None = None
    feed_forward_dim: int = 128
    is_tied: bool = False
    biases: str = ""  # "qkv" or "all"
    is_qkv_fused: bool = False
    is_gate_up_fused: bool = False
    query_key_norm: str = ""  # "head" or "row"
    has_pre_norms: bool = True
    has_post_norms: bool = False
    feed_forward_norm: str = "ffn_norm"
    has_rope_freqs: bool = False
    long_rope_context: int = 0
    tensor_type: GGMLQuantizationType = F32
    keys: Mapping[str, Any] = field(default_factory=dict)


_GEMMA3 = Recipe(
    "gemma3",
    num_layers=7,
    head_dim=32,
    feed_forward_dim=96,
    is_tied=True,
    query_key_norm="head",
    has_post_norms=True,
    keys={"sliding_window": 8, "rope_freq_base": 1e6, "rope_freq_base_swa": 1e4},
)
_SCALED = {"residual_scale": 0.22, "embedding_scale": 12.0}

RECIPES: dict[str, Recipe] = {
    "llama": Recipe("llama", is_tied=True, has_rope_freqs=True),
    "llama-untied-bias": Recipe("llama", biases="all"),
    "llama-linear-rope": Recipe("llama", keys=LINEAR | {"rope_scaling_factor": 4.0}),
    "mistral3": Recipe(
        "mistral3",
        keys=YARN
        | {
            "rope_scaling_orig_ctx_len": 16,
            "rope_scaling_yarn_beta_fast": 32.0,
            "rope_scaling_yarn_beta_slow": 1.0,
            "rope_scaling_yarn_log_mul": 1.0,
        },
    ),
    "qwen2": Recipe("qwen2", is_tied=True, biases="qkv"),
    "qwen2-yarn": Recipe("qwen2", biases="qkv", keys=YARN | {"rope_scaling_orig_ctx_len": 64}),
    "qwen3": Recipe("qwen3", head_dim=32, is_tied=True, query_key_norm="head"),
    "gemma": Recipe("gemma", head_dim=32, is_tied=True),
    "gemma2": Recipe(
        "gemma2",
        num_layers=4,
        head_dim=32,
        is_tied=True,
        has_post_norms=True,
        keys={"sliding_window": 8, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    ),
    "gemma3": _GEMMA3,
    "gemma3-linear-rope": replace(_GEMMA3, keys={**_GEMMA3.keys, **LINEAR, "rope_scaling_factor": 8.0}),
    "phi3": Recipe("phi3", is_qkv_fused=True, is_gate_up_fused=True, long_rope_context=4096),
    "phi3-longrope": Recipe("phi3", is_qkv_fused=True, is_gate_up_fused=True, long_rope_context=16),
    "olmo2": Recipe("olmo2", query_key_norm="row", has_pre_norms=False, has_post_norms=True),
    "granite": Recipe("granite", is_tied=True, keys={"logit_scale": 8.0} | _SCALED | {"attention_scale": 0.0625}),
    "minicpm": Recipe(
        "minicpm", is_tied=True, keys={"logit_scale": 0.5, "residual_scale": 0.3, "embedding_scale": 12.0}
    ),
    "smollm3": Recipe("smollm3", num_layers=5, is_tied=True),
    "internlm2": Recipe("internlm2"),
    "exaone4": Recipe("exaone4", query_key_norm="head", has_pre_norms=False, has_post_norms=True),
    "glm4": Recipe("glm4", rotated_dims=8, is_gate_up_fused=True, has_post_norms=True, biases="qkv"),
    "seed_oss": Recipe("seed_oss", biases="qkv", feed_forward_norm="post_attention_norm"),
    "ernie4_5": Recipe("ernie4_5", is_tied=True),
}
RECIPES |= {
    f"{base}_q8": replace(RECIPES[base], tensor_type=GGMLQuantizationType.Q8_0)
    for base in ("llama", "qwen3", "gemma3", "phi3")
}
# Wide enough for blocks of 256 values.
_WIDE = {"embedding_dim": 256, "feed_forward_dim": 256, "num_layers": 1, "head_dim": 64}
_WIDE_TYPES = ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
_WIDE_TYPES += ["IQ4_NL", "IQ4_XS", "MXFP4"]
RECIPES |= {
    f"llama-256_{name.lower()}": replace(RECIPES["llama"], tensor_type=GGMLQuantizationType[name], **_WIDE)
    for name in _WIDE_TYPES
}
RECIPES["qwen2-256_q4_k"] = replace(RECIPES["qwen2"], tensor_type=GGMLQuantizationType.Q4_K, **_WIDE)


def write_tiny_model(name: str, folder: Path) -> Path:
    """Writes the model of that recipe to ``folder`` and returns its path."""
    path = folder / f"{name}.gguf"
    recipe = RECIPES[name]
    random = np.random.default_rng(zlib.crc32(name.encode()))
    _TinyModel(recipe, TensorDraws(GGUFWriter(str(path), recipe.architecture), random, recipe.tensor_type)).write()
    return path


class TensorDraws:
    """Draws tensors and writes them with a vocabulary of bytes and fillers.

    Attributes:
        writer: of the file.
        random: source of all values, in the order of the calls.
        tensor_type: of the matrices.
    """

    def __init__(self, writer: GGUFWriter, random: np.random.Generator, tensor_type: GGMLQuantizationType) -> None:
        self.writer = writer
        self.random = random
        self.tensor_type = tensor_type

    def vocabulary(self) -> None:
        fillers = [f"t{index}" for index in range(VOCAB_SIZE - 258)]
        self.writer.add_tokenizer_model("gpt2")
        self.writer.add_tokenizer_pre("gpt-2")
        self.writer.add_token_list([*_byte_tokens(), *fillers, "<|bos|>", "<|eos|>"])
        self.writer.add_token_types([NORMAL] * (VOCAB_SIZE - 2) + [CONTROL] * 2)
        self.writer.add_token_merges(["t h", "th e"])
        self.writer.add_bos_token_id(VOCAB_SIZE - 2)
        self.writer.add_eos_token_id(VOCAB_SIZE - 1)
        self.writer.add_add_bos_token(False)

    def vector(self, name: str, width: int, mean: float = 0.0, deviation: float = 0.1) -> None:
        values = mean + deviation * self.random.standard_normal(width)
        self.writer.add_tensor(name, values.astype(np.float32))

    def matrix(self, name: str, num_rows: int, num_columns: int, scale: float = 1.0) -> None:
        deviation = scale * num_columns**-0.5
        values = self.random.standard_normal((num_rows, num_columns), np.float32) * np.float32(deviation)
        if self.tensor_type == F32:
            self.writer.add_tensor(name, values)
            return
        try:
            stored = quantize(values, self.tensor_type)
        except NotImplementedError:  # the package reads this type but cannot write it
            num_blocks = values.size // GGML_QUANT_SIZES[self.tensor_type][0]
            blocks = random_blocks(self.tensor_type, num_blocks, num_columns**-0.5, self.random)
            stored = blocks.reshape(num_rows, -1)
        self.writer.add_tensor(name, stored, raw_dtype=self.tensor_type)

    def finish(self) -> None:
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


class _TinyModel:
    """One model being written."""

    def __init__(self, recipe: Recipe, draws: TensorDraws) -> None:
        self.recipe = recipe
        self.draws = draws
        self.rotated_dims = recipe.rotated_dims or recipe.head_dim

    def write(self) -> None:
        self._header()
        self.draws.vocabulary()
        self._ends()
        for index in range(self.recipe.num_layers):
            self._attention(f"blk.{index}.")
            self._feed_forward(f"blk.{index}.")
        self.draws.finish()

    def _header(self) -> None:
        recipe, writer = self.recipe, self.draws.writer
        writer.add_name("tiny")
        writer.add_context_length(128)
        writer.add_embedding_length(recipe.embedding_dim)
        writer.add_block_count(recipe.num_layers)
        writer.add_feed_forward_length(recipe.feed_forward_dim)
        writer.add_head_count(4)
        writer.add_head_count_kv(2)
        writer.add_vocab_size(VOCAB_SIZE)
        writer.add_key_length(recipe.head_dim)
        writer.add_value_length(recipe.head_dim)
        writer.add_rope_dimension_count(self.rotated_dims)
        writer.add_rope_freq_base(recipe.keys.get("rope_freq_base", 1e4))
        writer.add_layer_norm_rms_eps(1e-5)
        for key, value in recipe.keys.items():
            if key != "rope_freq_base":
                getattr(writer, f"add_{key}")(value)
        if recipe.long_rope_context:
            writer.add_rope_scaling_orig_ctx_len(recipe.long_rope_context)
            writer.add_rope_scaling_attn_factors(1.19)

    def _ends(self) -> None:
        """What comes before and after the layers."""
        recipe, width = self.recipe, self.recipe.embedding_dim
        is_scaled = "embedding_scale" in recipe.keys or "gemma" in recipe.architecture
        deviation = 0.06 if is_scaled else 0.25
        self.draws.matrix("token_embd.weight", VOCAB_SIZE, width, scale=width**0.5 * deviation)
        self._norm("output_norm")
        if not recipe.is_tied:
            self.draws.matrix("output.weight", VOCAB_SIZE, width)
        if recipe.has_rope_freqs:
            self.draws.writer.add_tensor("rope_freqs.weight", _llama3_rope_freqs(recipe.head_dim))
        if recipe.long_rope_context:
            for slope, kind in ((2, "long"), (1, "short")):
                factors = 1 + slope * np.linspace(0, 1, self.rotated_dims // 2)
                self.draws.writer.add_tensor(f"rope_factors_{kind}.weight", factors.astype(np.float32))

    def _attention(self, prefix: str) -> None:
        recipe, width = self.recipe, self.recipe.embedding_dim
        query, key = 4 * recipe.head_dim, 2 * recipe.head_dim
        if recipe.has_pre_norms:
            self._norm(prefix + "attn_norm")
        parts = {"qkv": query + 2 * key} if recipe.is_qkv_fused else {"q": query, "k": key, "v": key}
        for part, num_rows in parts.items():
            self.draws.matrix(f"{prefix}attn_{part}.weight", num_rows, width)
            if recipe.biases:
                self.draws.vector(f"{prefix}attn_{part}.bias", num_rows)
        self.draws.matrix(prefix + "attn_output.weight", width, query)
        if recipe.biases == "all":
            self.draws.vector(prefix + "attn_output.bias", width)
        if recipe.query_key_norm:
            is_by_head = recipe.query_key_norm == "head"
            self._norm(prefix + "attn_q_norm", recipe.head_dim if is_by_head else query)
            self._norm(prefix + "attn_k_norm", recipe.head_dim if is_by_head else key)
        if recipe.has_post_norms:
            self._norm(prefix + "post_attention_norm")
            self._norm(prefix + "post_ffw_norm")

    def _feed_forward(self, prefix: str) -> None:
        recipe, width, hidden = self.recipe, self.recipe.embedding_dim, self.recipe.feed_forward_dim
        if recipe.has_pre_norms:
            self._norm(prefix + recipe.feed_forward_norm)
        if not recipe.is_gate_up_fused:
            self.draws.matrix(prefix + "ffn_gate.weight", hidden, width)
        self.draws.matrix(prefix + "ffn_up.weight", 2 * hidden if recipe.is_gate_up_fused else hidden, width)
        self.draws.matrix(prefix + "ffn_down.weight", width, hidden)
        if recipe.biases == "all":
            self.draws.vector(prefix + "ffn_up.bias", hidden)
            self.draws.vector(prefix + "ffn_down.bias", width)
            self.draws.vector(prefix + "ffn_gate.bias", hidden)

    def _norm(self, name: str, width: int | None = None) -> None:
        self.draws.vector(name + ".weight", width or self.recipe.embedding_dim, mean=1.0)


def random_blocks(
    tensor_type: GGMLQuantizationType, num_blocks: int, deviation: float, random: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """Random bits, with scales that give the values about that deviation and a mean near 0."""
    blocks = random.integers(0, 256, (num_blocks, GGML_QUANT_SIZES[tensor_type][1]), np.uint8)
    match tensor_type.name:
        case "Q2_K":
            low = random.integers(4, 16, (num_blocks, 16)).astype(np.uint8)
            blocks[:, :16] = low | low << 4
            step = deviation / (10 * 1.12)
            blocks[:, 80:82], blocks[:, 82:84] = _halves(step), _halves(1.5 * step)
        case "Q3_K":
            blocks[:, 108:110] = _halves(deviation / (2.3 * 18.5))
        case "Q4_K" | "Q5_K":
            top = 15 if tensor_type.name == "Q4_K" else 31
            scales = random.integers(20, 64, (num_blocks, 8)).astype(np.uint8)
            step = deviation / (43.5 * (top + 1) / 12**0.5)
            blocks[:, :2], blocks[:, 2:4] = _halves(step), _halves(step * top / 2)
            blocks[:, 4:8] = scales[:, :4] | (scales[:, 4:] >> 4 << 6)
            blocks[:, 8:12] = blocks[:, 4:8]
            blocks[:, 12:16] = (scales[:, 4:] & 15) | (scales[:, 4:] & 15) << 4
        case "Q6_K":
            blocks[:, 192:208] = random.integers(20, 64, (num_blocks, 16)).astype(np.uint8)
            blocks[:, 208:210] = _halves(deviation / (18.5 * 43.5))
        case "IQ4_NL":
            blocks[:, :2] = _halves(deviation / 71)
        case "IQ4_XS":
            blocks[:, :2] = _halves(deviation / (71 * 18.5))
        case name:
            raise ValueError(f"no random blocks of type {name}")
    return blocks


def _halves(value: float) -> npt.NDArray[np.uint8]:
    """The two bytes of a float16."""
    return np.full(1, value, np.float16).view(np.uint8)


def _byte_tokens() -> list[str]:
    """The printable stand-ins that byte-level vocabularies use for the 256 bytes."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _llama3_rope_freqs(head_dim: int) -> npt.NDArray[np.float32]:
    """Divisors of the frequencies as Llama 3 files have them, for an original context of 64 and a factor of 32."""
    frequencies = 1e4 ** (-np.arange(0, head_dim, 2) / head_dim)
    smooth = np.clip((64 / (2 * np.pi / frequencies) - 1.0) / 3.0, 0, 1)
    return (1 / ((1 - smooth) / 32.0 + smooth)).astype(np.float32)
