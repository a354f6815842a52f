"""The numbers of a model, read from the header alone and checked before any weight is touched.

Every number has a cap and is held against the tensors that are there, so that a hostile or damaged header cannot
make later stages allocate or loop by it. An architecture or layout this version does not know is said to be
unsupported, never damaged.
"""

from __future__ import annotations

import math
import re

from engine.errors import CorruptFileError, UnsupportedModelError
from engine.gguf import ArraySummary, GGUFFile
from engine.model.architectures import Architecture, has_row, refusal, row_of
from engine.model.architectures.vocabulary import NormKind, Residual
from engine.model.header.experts import read_experts
from engine.model.header.keys import ArchitectureKeys, shown
from engine.model.header.latent import read_latent
from engine.model.header.layers import read_layers
from engine.model.header.limits import MAX_CONTEXT_LENGTH, MAX_LAYERS, MAX_STREAMS, MAX_VOCAB_SIZE, MAX_WIDTH
from engine.model.header.recurrence import read_recurrence
from engine.model.hyperparameters import Hyperparameters, LayerHyperparameters

_LAYER_NAME = re.compile(r"blk\.(\d{1,9})\.")
_OTHERWISE_FINE = "the file itself is fine, so choose another model or a newer version."


def read_hyperparameters(file: GGUFFile) -> Hyperparameters:
    """Read and check the header of ``file``.

    Raises UnsupportedModelError for an architecture or layout that has no row, MetadataError for a key that is
    absent or out of its range, CorruptFileError where header and tensors contradict each other.
    """
    if not has_row(file.architecture):
        mechanism = refusal(file.architecture)
        needs = f" (it needs {mechanism})" if mechanism else ""
        raise UnsupportedModelError(
            file.path,
            f"the architecture {shown(file.architecture)} is not supported by this version{needs}; "
            f"{_OTHERWISE_FINE}",
        )
    keys = ArchitectureKeys(file, file.architecture)
    num_blocks = keys.integer("block_count", maximum=MAX_LAYERS)
    num_extra = keys.integer("nextn_predict_layers", default=0, minimum=0, maximum=num_blocks - 1)
    num_layers = num_blocks - num_extra
    row = row_of(file.architecture, num_layers)
    if row is None:
        raise UnsupportedModelError(
            file.path,
            f"the architecture {file.architecture!r} with {num_layers} layers is not supported by this version; "
            f"{_OTHERWISE_FINE}",
        )
    embedding_dim = keys.integer("embedding_length", maximum=MAX_WIDTH)
    experts = read_experts(file, keys, row)
    latent = read_latent(keys) if row.has_latent_attention else None
    layers = read_layers(keys, row, num_layers, embedding_dim, experts, latent)
    _check_layers(file, layers, num_blocks)
    if not any(layer.has_experts for layer in layers):
        experts = None
    eps, is_centered = _read_norm(keys, row)
    embedding_scale, residual_scale, logit_scale = _read_scales(keys, row, num_layers, embedding_dim)
    return Hyperparameters(
        row=row,
        context_length=keys.integer("context_length", maximum=MAX_CONTEXT_LENGTH),
        vocab_size=_read_vocab_size(file, keys),
        embedding_dim=embedding_dim,
        norm_eps=eps,
        layers=layers,
        has_centered_norms=is_centered,
        experts=experts,
        latent=latent,
        recurrence=read_recurrence(keys, row),
        embedding_scale=embedding_scale,
        residual_scale=residual_scale,
        logit_scale=logit_scale,
        attention_soft_cap=_read_attention_soft_cap(keys, row),
        logit_soft_cap=(
            keys.optional_positive("final_logit_softcapping") or row.logit_soft_cap
            if row.has_logit_soft_cap
            else None
        ),
        qkv_limit=keys.optional_positive("attention.clamp_kqv") if row.has_qkv_clamp else None,
        alibi_bias=_read_alibi_bias(keys, row),
        value_scale=keys.positive("attention.value_scale", default=1.0) if row.has_value_scale else 1.0,
        layer_embedding_dim=(
            keys.integer("embedding_length_per_layer_input", minimum=0, maximum=MAX_WIDTH)
            if row.has_layer_embeddings
            else 0
        ),
        num_streams=_read_num_streams(keys) if row.has_streams else 1,
        is_parallel=_read_residual(keys, row),
        num_loops=keys.integer("num_loops", default=1, maximum=MAX_LAYERS // num_layers) if row.can_loop else 1,
        has_norm_between_loops=not keys.boolean("skip_loop_final_norm", default=False),
        num_extra_layers=num_extra,
    )


def _read_norm(keys: ArchitectureKeys, row: Architecture) -> tuple[float, bool]:
    """Epsilon of the stream's norms, and whether they are layer norms."""
    rms, centered = "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
    is_centered = row.norm is NormKind.LAYER or (row.norm is NormKind.EITHER and centered in keys)
    return keys.number(centered if is_centered else rms, minimum=0.0, maximum=1.0), is_centered


def _read_num_streams(keys: ArchitectureKeys) -> int:
    """Residual streams, the first of which is the active one."""
    keys.integer("altup.active_idx", default=0, minimum=0, maximum=0)
    return keys.integer("altup.num_inputs", default=4, minimum=2, maximum=MAX_STREAMS)


def _read_residual(keys: ArchitectureKeys, row: Architecture) -> bool | None:
    match row.residual:
        case Residual.SEQUENTIAL:
            return False
        case Residual.PARALLEL:
            return True
        case Residual.BY_KEY:
            return keys.boolean("use_parallel_residual", default=True)
        case Residual.BY_NORM:
            return None


def _read_attention_soft_cap(keys: ArchitectureKeys, row: Architecture) -> float | None:
    if row.attention_soft_cap is None:
        return None
    return keys.positive("attn_logit_softcapping", default=row.attention_soft_cap)


def _read_alibi_bias(keys: ArchitectureKeys, row: Architecture) -> float | None:
    if row.alibi_bias is None:
        return None
    return keys.number("attention.max_alibi_bias", minimum=0.0, maximum=1e3, default=row.alibi_bias) or None


def _read_scales(
    keys: ArchitectureKeys, row: Architecture, num_layers: int, embedding_dim: int
) -> tuple[float, float, float]:
    """Factors on the embedding, on what each part adds, and on the logits."""
    if row.scales is None:
        return math.sqrt(embedding_dim) if row.scales_embedding else 1.0, 1.0, 1.0
    depth, width = row.scales.residual_by_depth, row.scales.logit_by_width
    embedding = keys.optional_positive("embedding_scale") or row.scales.embedding
    residual = keys.positive("residual_scale", default=1.0 if depth is None else depth / math.sqrt(num_layers))
    logit = keys.optional_positive("logit_scale") or (1.0 if width is None else width / embedding_dim)
    return embedding, residual, logit if row.scales.is_logit_multiplied else 1.0 / logit


def _read_vocab_size(file: GGUFFile, keys: ArchitectureKeys) -> int:
    """Rows of the token embedding, which must be as many as the vocabulary has tokens."""
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise UnsupportedModelError(
            file.path,
            f"it has no token embedding as the architecture {keys.prefix!r} needs it, so it is not a complete "
            "language model of a layout this version knows.",
        )
    vocab_size = embedding.shape[0]
    if not 1 <= vocab_size <= MAX_VOCAB_SIZE:
        raise CorruptFileError(file.path, f"a vocabulary of {vocab_size:,} tokens is out of range.")
    tokens = file.metadata.raw("tokenizer.ggml.tokens") if "tokenizer.ggml.tokens" in file.metadata else None
    if isinstance(tokens, ArraySummary) and tokens.length != vocab_size:
        raise CorruptFileError(
            file.path,
            f"the vocabulary has {tokens.length:,} tokens but the embedding {vocab_size:,} rows; "
            "download the file again or choose another.",
        )
    return vocab_size


def _check_layers(file: GGUFFile, layers: tuple[LayerHyperparameters, ...], num_blocks: int) -> None:
    """Hold ``block_count`` against the layers that have tensors; layers beyond ``layers`` need none."""
    present = {int(match.group(1)) for name in file.tensors if (match := _LAYER_NAME.match(name))}
    expected = {
        index
        for index, layer in enumerate(layers)
        if layer.num_heads or layer.feed_forward_dim or layer.has_experts or layer.is_recurrent
    }
    if missing := expected - present:
        reason = f"layer {min(missing)} has no tensors ({len(present):,} layers have some)"
    elif unexpected := present - expected - set(range(len(layers), num_blocks)):
        reason = f"there are tensors of layer {max(unexpected):,}"
    else:
        return
    raise CorruptFileError(
        file.path,
        f"the header promises {num_blocks:,} layers but {reason}; download the file again or choose another.",
    )
