"""``inspect`` and ``tokenize``: looking into a model file without loading its weights."""

from __future__ import annotations

import argparse
import math

from engine.errors import ModelFileError
from engine.gguf import ArraySummary, GGUFFile, open_model
from engine.loader import active_weight_bytes, tensor_type_name
from engine.terminal.arguments import read_text
from engine.terminal.models import find_model
from engine.terminal.output import Output

MAX_VALUE_LENGTH = 100  # of a metadata value on a line


def inspect(arguments: argparse.Namespace, output: Output) -> int:
    """Print the header: facts, metadata, chat template, tensors."""
    with open_model(find_model(arguments.model)) as file:
        metadata = {key: file.metadata.raw(key) for key in file.metadata}
        template = file.metadata.string("tokenizer.chat_template", None)
        facts = _facts(file)
        output.json(
            {
                **facts,
                "metadata": metadata,
                "chat_template": template,
                "tensors": [
                    {
                        "name": tensor.name,
                        "type": tensor.type.name,
                        "shape": tensor.shape,
                        "num_bytes": tensor.num_bytes,
                        "shard": tensor.shard,
                        "offset": tensor.offset,
                    }
                    for tensor in file.tensors.values()
                ],
            }
        )
        for key, fact in facts.items():
            output.text(f"{key + ':':20} {fact:,}" if isinstance(fact, int) else f"{key + ':':20} {fact}")
        output.text("\nMetadata")
        for key, value in metadata.items():
            output.text(f"  {key} = {_shortened(value)}")
        output.text("\nChat template")
        output.text("  none" if template is None else template)
        output.text("\nTensors")
        for tensor in file.tensors.values():
            shape = " x ".join(f"{size}" for size in tensor.shape)
            output.text(f"  {tensor.name:40} {tensor.type.name:8} {shape:>16} {tensor.num_bytes:>14,} bytes")
    return 0


def tokenize(arguments: argparse.Namespace, output: Output) -> int:
    """Print the tokens of a text."""
    from engine.tokenizer import load_tokenizer

    text = read_text(arguments.text)
    with open_model(find_model(arguments.model)) as file:
        tokenizer = load_tokenizer(file.metadata)
        if arguments.prompt:
            token_ids = tokenizer.encode_prompt([(text, arguments.specials)])
        elif arguments.specials:
            token_ids = tokenizer.encode_with_specials(text)
        else:
            token_ids = tokenizer.encode(text)
        pieces = [
            tokenizer.token_bytes(token_id) or tokenizer.token_text(token_id).encode() for token_id in token_ids
        ]
    tokens = [piece.decode("utf-8", errors="backslashreplace") for piece in pieces]
    output.json({"num_tokens": len(token_ids), "token_ids": token_ids, "tokens": tokens})
    for token_id, token, piece in zip(token_ids, tokens, pieces, strict=True):
        shown = repr(token) if token.encode() == piece else repr(piece).removeprefix("b")
        output.text(f"{token_id:>8}  {shown}")
    output.text(f"{len(token_ids):,} tokens")
    return 0


def _facts(file: GGUFFile) -> dict[str, str | int]:
    return {
        "path": str(file.path),
        "name": file.metadata.string("general.name", file.path.stem),
        "architecture": file.architecture,
        "tensor_type": tensor_type_name(file),
        "num_parameters": sum(math.prod(tensor.shape) for tensor in file.tensors.values()),
        "num_tensors": len(file.tensors),
        "file_bytes": file.file_bytes,
        "weight_bytes": sum(tensor.num_bytes for tensor in file.tensors.values()),
        "active_weight_bytes": active_weight_bytes(file),
        "gguf_version": file.version,
        "num_shards": len(file.paths),
        "can_run": _can_run(file),
    }


def _can_run(file: GGUFFile) -> str:
    """``yes``, or why this version cannot run the model."""
    from engine.model import load_plan
    from engine.tokenizer import load_tokenizer

    try:
        load_plan(file)
        load_tokenizer(file.metadata)
    except ModelFileError as error:
        return f"no, {str(error).partition(': ')[2]}"
    return "yes"


def _shortened(value: str | int | float | bool | ArraySummary) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 4] + " ..."
