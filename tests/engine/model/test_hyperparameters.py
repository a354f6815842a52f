"""The header's numbers: what is read, what is refused, and in which words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CorruptFileError, EngineError, MetadataError, UnsupportedModelError
from engine.gguf import open_model
from engine.model import Hyperparameters, read_hyperparameters
from tests.engine.model.small_file import small_metadata, small_tensors, write_small_file
from tests.gguf_writer import Value


def read(
    folder: Path, changes: dict[str, Any] | None = None, tensor_changes: dict[str, Any] | None = None
) -> Hyperparameters:
    path = write_small_file(folder, small_metadata() | (changes or {}), small_tensors() | (tensor_changes or {}))
    with open_model(path) as file:
        return read_hyperparameters(file)


def as_gemma3(**changes: Any) -> dict[str, Any]:
    """The small file's keys under another architecture's prefix, with six layers claimed by the caller."""
    metadata = {key.replace("llama.", "gemma3."): value for key, value in small_metadata(7).items()}
    renamed = {key.replace("__", "."): value for key, value in changes.items()}
    return dict.fromkeys(small_metadata()) | metadata | {"general.architecture": "gemma3"} | renamed


def test_smollm2(smollm2_path: Path) -> None:
    with open_model(smollm2_path) as file:
        model = read_hyperparameters(file)
    assert (model.architecture, model.num_layers, model.embedding_dim) == ("llama", 30, 576)
    assert (model.vocab_size, model.context_length) == (49152, 8192)
    assert model.norm_eps == pytest.approx(1e-5)
    layer = model.layers[29]
    assert (layer.num_heads, layer.num_kv_heads, layer.key_dim, layer.value_dim) == (9, 3, 64, 64)
    assert layer.rope is not None
    assert (layer.rope.base, layer.rope.rotated_dims) == (100000.0, 64)


def test_gemma3_slides_in_five_of_six_layers_with_a_base_of_their_own(gemma3_path: Path) -> None:
    with open_model(gemma3_path) as file:
        model = read_hyperparameters(file)
    assert [layer.window for layer in model.layers] == [512, 512, 512, 512, 512, None] * 3
    bases = {layer.window: layer.rope.base for layer in model.layers if layer.rope}
    assert bases == {512: 1e4, None: 1e6}
    assert model.embedding_scale == pytest.approx(math.sqrt(640))


def test_defaults_that_files_leave_out(tmp_path: Path) -> None:
    model = read(tmp_path, {"llama.attention.head_count_kv": None}, {"blk.0.attn_k.weight": None})
    layer = model.layers[0]
    assert (layer.num_kv_heads, layer.key_dim, layer.value_dim) == (4, 8, 8)
    assert layer.rope is not None
    assert (layer.rope.base, layer.rope.rotated_dims) == (10000.0, 8)


def test_an_old_files_linear_factor_counts(tmp_path: Path) -> None:
    layer = read(tmp_path, {"llama.rope.scale_linear": 4.0}).layers[0]
    assert layer.rope is not None
    assert (layer.rope.scaling.kind.value, layer.rope.scaling.factor) == ("linear", 4.0)


def test_a_pattern_of_the_file_overrides_the_rows(tmp_path: Path) -> None:
    tensors = small_tensors(7)
    flags = [False, True, True, False, True, False, True]
    for pattern, expected in ((Value("bool", flags), flags), (3, [True, True, False] * 2 + [True])):
        metadata = as_gemma3(gemma3__attention__sliding_window=8, gemma3__attention__sliding_window_pattern=pattern)
        model = read(tmp_path, metadata, tensors)
        assert [layer.window is not None for layer in model.layers] == expected


@pytest.mark.parametrize("architecture", ["rwkv7", "a" * 5000, "", "llama\x1b[2J"])
def test_an_unknown_architecture_is_named_and_never_called_damaged(tmp_path: Path, architecture: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        read(tmp_path, {"general.architecture": architecture})
    message = str(caught.value)
    assert architecture[:5] in message
    assert "not supported" in message
    assert "download" not in message
    assert len(message) < 300
    assert "\x1b" not in message


def test_experts_where_the_architecture_has_none_are_unsupported(tmp_path: Path) -> None:
    metadata = {key.replace("llama.", "qwen2."): value for key, value in small_metadata().items()}
    metadata |= {"general.architecture": "qwen2", "qwen2.expert_count": 8}
    with pytest.raises(UnsupportedModelError, match="mixture of experts"):
        read(tmp_path, dict.fromkeys(small_metadata()) | metadata)


def test_blocks_that_predict_several_tokens_are_left_out(tmp_path: Path) -> None:
    assert read(tmp_path, {"llama.nextn_predict_layers": 1}).num_layers == 1


def test_a_hundred_thousand_layers_with_tensors_of_two(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match=r"llama\.block_count.*1024|1,024"):
        read(tmp_path, {"llama.block_count": 100000})


@pytest.mark.parametrize(("claimed", "message"), [(3, "layer 2 has no tensors"), (1, "tensors of layer 1")])
def test_layers_and_tensors_must_agree(tmp_path: Path, claimed: int, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        read(tmp_path, {"llama.block_count": claimed})


def test_a_vocabulary_of_another_size_than_the_embedding(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match="23 tokens but the embedding 24 rows"):
        read(tmp_path, {"tokenizer.ggml.tokens": Value("string", [f"t{index}" for index in range(23)])})


def test_a_file_without_token_embedding_is_no_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="no token embedding"):
        read(tmp_path, {}, {"token_embd.weight": None})


BAD = {
    "block_count": [None, 0, -1, "2", Value("uint32", [2, 2])],
    "context_length": [None, 0, 2**31],
    "embedding_length": [None, 0, 2**32],
    "feed_forward_length": [None, 0, Value("uint32", [48]), Value("uint32", [48, 0]), Value("uint32", [48] * 3)],
    "attention.head_count": [None, 0, 3, 5, 2**20, Value("uint32", [])],
    "attention.head_count_kv": [0, 3, 8, Value("int32", [2, -2])],
    "attention.key_length": [0, 2**30],
    "attention.layer_norm_rms_epsilon": [None, -1e-5, 2.0, math.nan, math.inf],
    "rope.freq_base": [0.0, 1.0, -5.0, math.nan],
    "rope.dimension_count": [0, 7, 16],
    "rope.scaling.factor": [-1.0, math.inf],
    "rope.dimension_sections": [Value("int32", [0, 0, 0, 0]), Value("int32", [4]), Value("int32", [4, -4, 4, 4])],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in BAD.items() for value in values])
def test_a_number_out_of_its_range_is_named(tmp_path: Path, key: str, value: object) -> None:
    with pytest.raises(MetadataError) as caught:
        read(tmp_path, {f"llama.{key}": value})
    assert "small.gguf" in str(caught.value)
    assert caught.value.key.startswith("llama.")


def test_yarn_needs_a_factor_of_at_least_one(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match=r"rope\.scaling\.factor"):
        read(tmp_path, {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 0.5})


@pytest.mark.parametrize(("window", "turns"), [(None, [True] * 3), (0, [True] * 3), (8, [True, True, True])])
def test_where_only_sliding_layers_turn_the_file_decides_whether_any_slide(
    tmp_path: Path, window: int | None, turns: list[bool]
) -> None:
    """Exaone 4 slides in three of four layers; its smaller size has no window, and turns everywhere."""
    metadata = {key.replace("llama.", "exaone4."): value for key, value in small_metadata(3).items()}
    metadata |= {"general.architecture": "exaone4", "exaone4.attention.sliding_window": window}
    model = read(tmp_path, dict.fromkeys(small_metadata()) | metadata, small_tensors(3))
    assert [layer.rope is not None for layer in model.layers] == turns
    assert [layer.window for layer in model.layers] == [window or None] * 3


@pytest.mark.parametrize(
    ("num_layers", "turns"), [(1, [False]), (3, [False, True, True]), (5, [False, True, True, True, False])]
)
def test_a_window_keeps_full_layers_from_turning_even_where_none_slides(
    tmp_path: Path, num_layers: int, turns: list[bool]
) -> None:
    metadata = {key.replace("llama.", "smallthinker."): value for key, value in small_metadata(num_layers).items()}
    metadata |= {"general.architecture": "smallthinker", "smallthinker.attention.sliding_window": 8}
    tensors = dict.fromkeys(small_tensors()) | small_tensors(num_layers)
    model = read(tmp_path, dict.fromkeys(small_metadata()) | metadata, tensors)
    assert [layer.rope is not None for layer in model.layers] == turns


def test_an_unknown_rope_scaling_is_unsupported(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="'spiral'"):
        read(tmp_path, {"llama.rope.scaling.type": "spiral"})


def test_latent_attention_that_is_too_wide_is_unsupported(tmp_path: Path) -> None:
    metadata = {key.replace("llama.", "deepseek2."): value for key, value in small_metadata().items()}
    metadata |= {
        "general.architecture": "deepseek2",
        "deepseek2.attention.key_length_mla": 24,
        "deepseek2.attention.value_length_mla": 16,
        "deepseek2.rope.dimension_count": 8,
    }
    for key, value in (("kv_lora_rank", 8193), ("key_length_mla", 8201)):
        wide = {"deepseek2.attention.kv_lora_rank": 32, f"deepseek2.attention.{key}": value}
        with pytest.raises(UnsupportedModelError, match=r"8,193 values is wider than the 8,192"):
            read(tmp_path, dict.fromkeys(small_metadata()) | metadata | wide)


def test_baichuan_of_another_size_is_refused(tmp_path: Path) -> None:
    metadata = {key.replace("llama.", "baichuan."): value for key, value in small_metadata().items()}
    with pytest.raises(UnsupportedModelError, match="with 2 layers"):
        read(tmp_path, metadata | {"general.architecture": "baichuan"})


def test_every_refusal_is_an_engine_error(tmp_path: Path) -> None:
    """Any one key of any of a few odd values: read or refused, never anything else."""
    odd = [0, 1, 2**32 - 1, -(2**31), math.nan, 3.5, "", True, Value("uint8", []), Value("string", ["x"])]
    keys = [key for key in small_metadata() if key.startswith("llama.")]
    keys += [f"llama.rope.scaling.{name}" for name in ("type", "factor", "original_context_length", "attn_factor")]
    for key in keys:
        for value in odd:
            try:
                outcome = f"read: {read(tmp_path, {key: value}).num_layers} layers of the model"
            except EngineError as error:
                outcome = str(error)
            assert 20 < len(outcome) < 400
