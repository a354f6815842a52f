"""Binding of a whole model: the ends and each layer.

What files do differently is made the same here: a tied output matrix becomes the token embedding, and factors on
the logits go into the last norm.
"""

from __future__ import annotations

from engine.gguf import GGUFFile
from engine.model.architectures import UNTIED
from engine.model.architectures.vocabulary import Beside, EmbeddingNorm, LayerEnd, Residual
from engine.model.hyperparameters import Hyperparameters, LayerHyperparameters
from engine.model.weights.attention import bind_attention, bind_latent
from engine.model.weights.binder import Binder, scaled
from engine.model.weights.feed_forward import bind_experts, bind_feed_forward
from engine.model.weights.parts import (
    FeedForwardWeights,
    LayerEmbeddingWeights,
    LayerWeights,
    Linear,
    NormWeights,
    Weights,
)
from engine.model.weights.recurrence import bind_recurrence
from engine.model.weights.streams import bind_stream_ends, bind_streams


def bind_weights(file: GGUFFile, hyperparameters: Hyperparameters) -> Weights:
    """Bind the tensors of ``file``; the result refers to its mapped bytes and lives no longer than they.

    Raises UnsupportedModelError, before any matrix is read, for a tensor that is absent, unknown, or of a shape or
    type this version cannot compute with.
    """
    model, row = hyperparameters, hyperparameters.row
    binder = Binder(file, row.name)
    embedding_dim, vocab_size = model.embedding_dim, model.vocab_size
    token_embedding = binder.matrix("token_embd.weight", vocab_size, embedding_dim)
    if "output.weight" in file.tensors or row.name in UNTIED:
        output = binder.linear("output", vocab_size, embedding_dim)
    else:
        output = Linear(token_embedding, binder.optional_vector("output.bias", vocab_size))
    output_norm = binder.norm(row.output_norm, embedding_dim) if row.has_norm_weights else NormWeights()
    layers = tuple(_bind_layer(binder, model, layer, index) for index, layer in enumerate(model.layers))
    ropes = [layer.rope for layer in model.layers if layer.rope is not None]
    wide = model.layer_embedding_dim * model.num_layers
    weights = Weights(
        token_embedding=token_embedding,
        position_embedding=(
            binder.matrix("position_embd.weight", model.context_length, embedding_dim)
            if row.has_position_embedding
            else None
        ),
        embedding_norm=_bind_embedding_norm(binder, row.embedding_norm, embedding_dim),
        layer_embedding=binder.matrix("per_layer_token_embd.weight", vocab_size, wide) if wide else None,
        layer_projection=binder.linear("per_layer_model_proj", wide, embedding_dim) if wide else None,
        layer_norm=binder.norm("per_layer_proj_norm", model.layer_embedding_dim) if wide else None,
        streams=bind_stream_ends(binder, model.num_streams, embedding_dim) if row.has_streams else None,
        layers=layers,
        output_norm=_scaled_norm(output_norm, model.logit_scale),
        output=output,
        rope_factors=binder.rope_factors("rope_freqs.weight", ropes),
        long_rope_factors=binder.rope_factors("rope_factors_long.weight", ropes),
        short_rope_factors=binder.rope_factors("rope_factors_short.weight", ropes),
    )
    binder.check_all_used(model.num_layers)
    return weights


def _bind_embedding_norm(binder: Binder, kind: EmbeddingNorm, embedding_dim: int) -> NormWeights | None:
    match kind:
        case EmbeddingNorm.NONE:
            return None
        case EmbeddingNorm.PLAIN:
            return NormWeights()
        case EmbeddingNorm.WEIGHTED:
            return binder.norm("token_embd_norm", embedding_dim)


def _scaled_norm(norm: NormWeights, factor: float) -> NormWeights:
    """The norm with its result times ``factor``, where it has weights."""
    if norm.weight is None:
        return norm
    return NormWeights(scaled(norm.weight, factor), None if norm.bias is None else scaled(norm.bias, factor))


def _bind_layer(binder: Binder, model: Hyperparameters, layer: LayerHyperparameters, index: int) -> LayerWeights:
    row, prefix, width = model.row, f"blk.{index}.", model.embedding_dim

    def norm(is_there: bool, name: str) -> NormWeights | None:
        if not is_there:
            return None
        return binder.norm(prefix + name, width) if row.has_norm_weights else NormWeights()

    has_attention = layer.num_heads > 0
    has_mixer = has_attention or layer.is_recurrent
    has_feed_forward = layer.feed_forward_dim > 0 or layer.has_experts
    attention_norm = norm(has_mixer and row.has_pre_norms, "attn_norm")
    feed_forward_norm = norm(
        has_feed_forward and row.has_pre_norms and _has_own_norm(binder, model, prefix),
        "attn_norm" if row.has_one_part else row.feed_forward_norm,
    )
    if f"{prefix}attn_norm_2.weight" in binder and row.residual is Residual.PARALLEL:  # Falcon 40B
        attention_norm, feed_forward_norm = norm(has_attention, "attn_norm_2"), attention_norm
    attended_dim = layer.num_heads * layer.value_dim if layer.num_kv_heads else width
    return LayerWeights(
        attention_norm=attention_norm,
        attention=(
            bind_latent(binder, model.latent, layer.num_heads, prefix, width)
            if model.latent is not None
            else bind_attention(binder, row, layer, prefix, width)
            if layer.num_kv_heads
            else None
        ),
        attention_sub_norm=binder.norm(f"{prefix}attn_sub_norm", attended_dim) if row.has_sub_norms else None,
        attention_output=binder.linear(f"{prefix}attn_output", width, attended_dim) if has_attention else None,
        attention_post_norm=norm(has_attention and row.has_post_norms, row.attention_post_norm),
        feed_forward_norm=feed_forward_norm,
        feed_forward=_bind_dense(binder, model, layer, prefix),
        experts=(
            bind_experts(binder, row, model.experts, prefix, width)
            if layer.has_experts and model.experts is not None
            else None
        ),
        feed_forward_post_norm=norm(
            has_feed_forward and row.has_post_norms,
            "layer_output_norm" if f"{prefix}layer_output_norm.weight" in binder else "post_ffw_norm",
        ),
        recurrence=(
            bind_recurrence(binder, row, model.recurrence, prefix, width)
            if layer.is_recurrent and model.recurrence is not None
            else None
        ),
        layer_embedding=_bind_layer_embedding(binder, model, prefix) if model.layer_embedding_dim else None,
        streams=bind_streams(binder, prefix, model.num_streams, width) if row.has_streams else None,
        output_scale=(
            binder.number(f"{prefix}layer_output_scale.weight") if row.layer_end is not LayerEnd.NONE else 1.0
        ),
    )


def _has_own_norm(binder: Binder, model: Hyperparameters, prefix: str) -> bool:
    """Whether the feed-forward has a norm of its own; some files tell by having its tensor."""
    match model.row.residual:
        case Residual.PARALLEL:
            return False
        case Residual.BY_NORM:
            return f"{prefix}{model.row.feed_forward_norm}.weight" in binder
        case Residual.SEQUENTIAL | Residual.BY_KEY:
            return True


def _bind_dense(
    binder: Binder, model: Hyperparameters, layer: LayerHyperparameters, prefix: str
) -> FeedForwardWeights | None:
    """The dense feed-forward; a layer with experts has one only in some architectures, by its tensors."""
    experts = model.row.experts
    is_beside = experts is not None and experts.beside in {Beside.DENSE, Beside.NORMED_DENSE}
    is_needed = not layer.has_experts or (experts is not None and experts.beside is Beside.NORMED_DENSE)
    if not layer.feed_forward_dim or (layer.has_experts and not is_beside):
        return None
    if not is_needed and f"{prefix}ffn_up.weight" not in binder:
        return None
    return bind_feed_forward(binder, model.row, prefix, model.embedding_dim, layer.feed_forward_dim)


def _bind_layer_embedding(binder: Binder, model: Hyperparameters, prefix: str) -> LayerEmbeddingWeights:
    width, narrow = model.embedding_dim, model.layer_embedding_dim
    return LayerEmbeddingWeights(
        gate=binder.linear(f"{prefix}inp_gate", narrow, width),
        projection=binder.linear(f"{prefix}proj", width, narrow),
        post_norm=binder.norm(f"{prefix}post_norm", width),
    )
