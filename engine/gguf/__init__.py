"""GGUF model files: opened in milliseconds, trusted in nothing.

    with open_model(path) as file:
        file.architecture, file.metadata.integer("llama.block_count"), file.tensor_data("token_embd.weight")

reader (files, shards, mapping) uses header (one pass over one file) uses metadata, values, tensors, tensor_types.
shards, quantizations and content tell from names and first bytes what a file is, also for the library and the
downloads.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.gguf.content import HEAD_BYTES, describe_non_model
    from engine.gguf.metadata import Metadata
    from engine.gguf.reader import GGUFFile, HeaderFile, check_model_file, open_model
    from engine.gguf.shards import (
        RawPart,
        ShardName,
        is_listed_name,
        is_model_file,
        present_shards,
        raw_part_of,
        shard_of,
        shard_paths,
    )
    from engine.gguf.tensor_types import TensorType
    from engine.gguf.tensors import TensorInfo
    from engine.gguf.values import ArraySummary

__all__ = [
    "HEAD_BYTES",
    "ArraySummary",
    "GGUFFile",
    "HeaderFile",
    "Metadata",
    "RawPart",
    "ShardName",
    "TensorInfo",
    "TensorType",
    "check_model_file",
    "describe_non_model",
    "is_listed_name",
    "is_model_file",
    "open_model",
    "present_shards",
    "raw_part_of",
    "shard_of",
    "shard_paths",
]

_HOMES = {
    "content": ("HEAD_BYTES", "describe_non_model"),
    "metadata": ("Metadata",),
    "reader": ("GGUFFile", "HeaderFile", "check_model_file", "open_model"),
    "shards": (
        "RawPart",
        "ShardName",
        "is_listed_name",
        "is_model_file",
        "present_shards",
        "raw_part_of",
        "shard_of",
        "shard_paths",
    ),
    "tensor_types": ("TensorType",),
    "tensors": ("TensorInfo",),
    "values": ("ArraySummary",),
}


def __getattr__(name: str) -> Any:
    """Import the public face when it is asked for: names of files are read long before a file is opened."""
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
