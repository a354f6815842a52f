"""Models of a real one's shape with random weights: as fast and as slow as the real one, and made in seconds.

The bits of the blocks are random; only the floats in them, the scales, are set so that the weights have a deviation
of ``columns ** -0.5`` and activations stay finite. The vocabulary is the bytes and numbered fillers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.cache_folder import cache_folder
from engine.errors import EngineError
from engine.gguf.tensor_types import TensorType
from engine.loader import FILE_TYPES

if TYPE_CHECKING:
    from gguf import GGUFWriter

FORMAT = 2  # part of the file's name: files from another version of this module are not used again


@dataclass(frozen=True)
class Shape:
    """Sizes of a model; ``scaled_rope`` writes Llama 3's frequency factors."""

    architecture: str
    embedding_dim: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    feed_forward_dim: int
    vocab_size: int
    is_tied: bool = True
    rope_base: float = 5e5
    norm_eps: float = 1e-5
    scaled_rope: bool = False


_LLAMA_1B = Shape("llama", 2048, 16, 32, 8, 64, 8192, 128256, scaled_rope=True)
SHAPES: dict[str, Shape] = {
    "1b": _LLAMA_1B,  # Llama 3.2 1B
    "3b": replace(_LLAMA_1B, embedding_dim=3072, num_layers=28, num_heads=24, head_dim=128),
    "8b": replace(  # Llama 3.1 8B
        _LLAMA_1B, embedding_dim=4096, num_layers=32, head_dim=128, feed_forward_dim=14336, is_tied=False
    ),
    "qwen3-0.6b": Shape("qwen3", 1024, 28, 16, 8, 128, 3072, 151936, rope_base=1e6, norm_eps=1e-6),
    "qwen3-1.7b": Shape("qwen3", 2048, 28, 16, 8, 128, 6144, 151936, rope_base=1e6, norm_eps=1e-6),
    "tiny": Shape("llama", 256, 2, 4, 2, 64, 512, 1024, rope_base=1e4),
}

# Where a block holds its float16 scale, and its minimum with the scales' multiple that centres the weights on zero.
_SCALES: dict[TensorType, tuple[int, tuple[int, float] | None]] = {
    TensorType.Q4_0: (0, None),
    TensorType.Q4_1: (0, (2, -7.5)),
    TensorType.Q5_0: (0, None),
    TensorType.Q5_1: (0, (2, -15.5)),
    TensorType.Q8_0: (0, None),
    TensorType.Q2_K: (80, (82, 1.5)),
    TensorType.Q3_K: (108, None),
    TensorType.Q4_K: (0, (2, 7.5)),
    TensorType.Q5_K: (0, (2, 15.5)),
    TensorType.Q6_K: (208, None),
    TensorType.IQ4_NL: (0, None),
    TensorType.IQ4_XS: (0, None),
}
_PLAIN = (TensorType.F32, TensorType.F16)
_MIXES = ("q4_k_m", "q5_k_m")
TYPE_NAMES = (*_MIXES, *(type.name.lower() for type in (*_SCALES, *_PLAIN)))


def parse_spec(spec: str) -> tuple[Shape, str]:
    """``1b-q4_k_m`` as a shape and a type name. Raises EngineError with what there is."""
    shape, _, type_name = spec.lower().rpartition("-")
    if shape not in SHAPES or type_name not in TYPE_NAMES:
        raise EngineError(
            f"{spec!r} is no synthetic model: write SHAPE-TYPE with a shape of {', '.join(SHAPES)} "
            f"and a type of {', '.join(TYPE_NAMES)}."
        )
    return SHAPES[shape], type_name


def cached_model(spec: str, folder: Path | None = None) -> Path:
    """The file for ``spec`` in the cache folder, written when it is not there yet. Raises EngineError."""
    shape, type_name = parse_spec(spec)
    folder = folder or cache_folder() / "bench"
    path = folder / f"synthetic-{spec.lower()}-{FORMAT}.gguf"
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}.part")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_model(unfinished, shape, type_name)
            unfinished.replace(path)
        except OSError as error:
            raise EngineError(f"The synthetic model cannot be written to {folder}: {error.strerror}.") from error
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
    return path


def write_model(path: Path, shape: Shape, type_name: str, seed: int = 1) -> None:
    """Write a model; memory stays at one tensor."""
    from gguf import GGMLQuantizationType, GGUFWriter

    writer = GGUFWriter(path, shape.architecture)
    known = [name for name, each in SHAPES.items() if each == shape]
    writer.add_name(" ".join(["synthetic", *known, type_name]))
    _add_metadata(writer, shape, type_name)
    _add_vocabulary(writer, shape.vocab_size)
    tensors = list(_tensors(shape, type_name))
    for name, dims, type in tensors:
        stored = dims if type in _PLAIN else (*dims[:-1], type.row_bytes(dims[-1]))
        dtype = {TensorType.F32: np.float32, TensorType.F16: np.float16}.get(type, np.uint8)
        raw = None if type in _PLAIN else GGMLQuantizationType(int(type))
        num_bytes = int(np.prod(stored)) * np.dtype(dtype).itemsize
        writer.add_tensor_info(name, stored, np.dtype(dtype), num_bytes, raw)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        rng = np.random.default_rng(seed)
        for name, dims, type in tensors:
            writer.write_tensor_data(_values(name, dims, type, shape, rng))
    finally:
        writer.close()


def _add_metadata(writer: GGUFWriter, shape: Shape, type_name: str) -> None:
    writer.add_file_type(_file_type(type_name))
    writer.add_block_count(shape.num_layers)
    writer.add_context_length(131072)
    writer.add_embedding_length(shape.embedding_dim)
    writer.add_feed_forward_length(shape.feed_forward_dim)
    writer.add_head_count(shape.num_heads)
    writer.add_head_count_kv(shape.num_kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.norm_eps)
    writer.add_vocab_size(shape.vocab_size)


def _file_type(type_name: str) -> int:
    """The id of ``general.file_type``; a K type alone is what people call its small mix."""
    ids = {name: number for number, name in FILE_TYPES.items()}
    name = type_name.upper()
    return ids[name] if name in ids else ids[f"{name}_S"]


def _add_vocabulary(writer: GGUFWriter, vocab_size: int) -> None:
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]  # byte-level BPE moves the others up to 256
    moved = iter(range(256, 512))
    tokens = [chr(byte if byte in printable else next(moved)) for byte in range(256)]
    tokens += ["to", "tok"]
    tokens += [f"tok{index}" for index in range(vocab_size - len(tokens) - 2)]
    tokens += ["<|bos|>", "<|eos|>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (vocab_size - 2) + [3, 3])
    writer.add_token_merges(["t o", "to k"])
    writer.add_bos_token_id(vocab_size - 2)
    writer.add_eos_token_id(vocab_size - 1)
    writer.add_add_bos_token(False)


def _tensors(shape: Shape, type_name: str) -> Iterator[tuple[str, tuple[int, ...], TensorType]]:
    """Name, rows and columns, and type of each tensor in file order."""
    dim, queries = shape.embedding_dim, shape.num_heads * shape.head_dim
    keys = shape.num_kv_heads * shape.head_dim
    yield "token_embd.weight", (shape.vocab_size, dim), _type_of("token_embd", 0, shape, type_name)
    yield "output_norm.weight", (dim,), TensorType.F32
    if not shape.is_tied:
        yield "output.weight", (shape.vocab_size, dim), _type_of("output", 0, shape, type_name)
    if shape.scaled_rope:
        yield "rope_freqs.weight", (shape.head_dim // 2,), TensorType.F32
    matrices = {
        "attn_q": (queries, dim),
        "attn_k": (keys, dim),
        "attn_v": (keys, dim),
        "attn_output": (dim, queries),
        "ffn_gate": (shape.feed_forward_dim, dim),
        "ffn_up": (shape.feed_forward_dim, dim),
        "ffn_down": (dim, shape.feed_forward_dim),
    }
    norms = {"attn_norm": dim, "ffn_norm": dim}
    if shape.architecture == "qwen3":
        norms |= {"attn_q_norm": shape.head_dim, "attn_k_norm": shape.head_dim}
    for layer in range(shape.num_layers):
        for name, width in norms.items():
            yield f"blk.{layer}.{name}.weight", (width,), TensorType.F32
        for name, dims in matrices.items():
            yield f"blk.{layer}.{name}.weight", dims, _type_of(name, layer, shape, type_name)


def _type_of(name: str, layer: int, shape: Shape, type_name: str) -> TensorType:
    """The type llama.cpp's quantiser gives: Q6_K for the output, and in a mix for half of two kinds of matrices."""
    if name in ("token_embd", "output"):
        return TensorType[type_name.upper()] if type_name in ("q8_0", "f16", "f32") else TensorType.Q6_K
    if type_name not in _MIXES:
        return TensorType[type_name.upper()]
    eighth = shape.num_layers // 8
    is_better = layer < eighth or layer >= 7 * shape.num_layers // 8 or (layer - eighth) % 3 == 2
    if name in ("attn_v", "ffn_down") and is_better:
        return TensorType.Q6_K
    return TensorType[type_name[:4].upper()]


def _values(
    name: str, dims: tuple[int, ...], type: TensorType, shape: Shape, rng: np.random.Generator
) -> npt.NDArray[np.generic]:
    if name.startswith("rope_freqs"):
        return _llama3_factors(shape)
    if len(dims) == 1:
        return np.ones(dims, np.float32)
    deviation = dims[-1] ** -0.5
    if type in _PLAIN:
        values = rng.standard_normal(dims, np.float32) * np.float32(deviation)
        return values.astype(np.float16) if type is TensorType.F16 else values
    blocks = random_blocks(type, dims[0] * dims[1] // type.block_size, deviation, rng)
    return blocks.reshape(dims[0], type.row_bytes(dims[1]))


def random_blocks(
    type: TensorType, num_blocks: int, deviation: float, rng: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """(num_blocks, block_bytes) uint8: random bits whose values have about the given deviation and mean zero."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    blocks = np.frombuffer(rng.bytes(num_blocks * type.block_bytes), np.uint8)
    blocks = blocks.reshape(num_blocks, type.block_bytes).copy()
    _set_scale(blocks, type, 1.0)
    # The deviation at scale 1 follows from the type's codebook and scales; a sample tells it for all types alike.
    sample = dequantize(blocks[:2048], GGMLQuantizationType(int(type)))
    _set_scale(blocks, type, deviation / float(sample.std()))
    return blocks


def _set_scale(blocks: npt.NDArray[np.uint8], type: TensorType, scale: float) -> None:
    offset, minimum = _SCALES[type]
    blocks[:, offset : offset + 2] = np.array([scale], np.float16).view(np.uint8)
    if minimum is not None:
        offset, multiple = minimum
        blocks[:, offset : offset + 2] = np.array([scale * multiple], np.float16).view(np.uint8)


def _llama3_factors(shape: Shape) -> npt.NDArray[np.float32]:
    """Frequency factors of Llama 3.2: 1 for short waves, 32 for long ones (of 8192 trained), smooth between."""
    frequencies = shape.rope_base ** (-np.arange(0, shape.head_dim, 2) / shape.head_dim)
    turns = 8192 * frequencies / (2 * np.pi)
    smooth = np.clip((turns - 1) / (4 - 1), 0, 1)
    return (1 / ((1 - smooth) / 32 + smooth)).astype(np.float32)
