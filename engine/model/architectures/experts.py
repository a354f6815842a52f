"""Rows of the architectures with a mixture of experts; layers without a router are dense.

Gemma 4 is among them for its largest size.
"""

from __future__ import annotations

from engine.model.architectures.vocabulary import (
    Architecture,
    Beside,
    Experts,
    LayerEnd,
    Normalization,
    NormKind,
    QueryKeyNorm,
    Residual,
    RopeLayers,
    RopePairs,
    RopeSections,
    Scales,
    Sinks,
    SlidingWindow,
    Temperature,
)
from engine.model.plan import Activation, Gating

_ADJACENT, _HALVES = RopePairs.ADJACENT, RopePairs.HALVES
_GELU, _SIGMOID = Activation.GELU, Activation.SIGMOID
_HEAD_NORM, _ROW_NORM = QueryKeyNorm.HEAD, QueryKeyNorm.ROW

# Softmax over all logits; the weights divided by their sum always, never, or where the file says so.
_NORMALIZED = Experts()
_AS_CHOSEN = Experts(normalization=Normalization.NEVER)
_BY_KEY = Experts(normalization=Normalization.BY_KEY)
_SIGMOID_BY_KEY = Experts(gating=Gating.SIGMOID, normalization=Normalization.BY_KEY)

_LLAMA_KIN = (
    Architecture("llama", _ADJACENT, experts=_NORMALIZED),  # also Mistral, Mixtral, InternLM 3 and many others
    Architecture("granitemoe", _ADJACENT, scales=Scales(), experts=_NORMALIZED),
    Architecture("ernie4_5-moe", _ADJACENT, experts=_NORMALIZED),
    Architecture("deepseek", _ADJACENT, experts=_AS_CHOSEN),
    Architecture("bailingmoe", _ADJACENT, experts=_BY_KEY),
    Architecture(
        "deepseek2",
        _ADJACENT,
        has_latent_attention=True,
        is_yarn_on_scores=True,
        experts=_BY_KEY,
    ),
    Architecture(
        "mistral4",
        _ADJACENT,
        has_latent_attention=True,
        is_yarn_on_scores=True,
        temperature=Temperature.BY_LENGTH,
        experts=_BY_KEY,
    ),
    Architecture(
        "llama4",
        _ADJACENT,
        rope_layers=RopeLayers.NOT_EVERY_FOURTH,
        query_key_norm=QueryKeyNorm.PLAIN,
        is_query_key_norm_late=True,
        temperature=Temperature.WITHOUT_ROPE,
        chunk=8192,
        experts=Experts(
            gating=Gating.SIGMOID,
            is_gating_fixed=True,
            normalization=Normalization.NEVER,
            weighs_input=True,
        ),
    ),
    Architecture(
        "cohere2moe",
        _ADJACENT,
        rope_layers=RopeLayers.SLIDING_OR_DENSE,
        norm=NormKind.EITHER,
        residual=Residual.PARALLEL,
        scales=Scales(is_logit_multiplied=True),
        window=SlidingWindow(period=4, is_full_first=True),
        experts=Experts(gating=Gating.SIGMOID, normalization=Normalization.BY_KEY, beside=Beside.SHARED_MEAN),
    ),
)

_QWEN_KIN = (
    Architecture("qwen2moe", _HALVES, experts=_AS_CHOSEN),
    Architecture("qwen3moe", _HALVES, query_key_norm=_HEAD_NORM, experts=_NORMALIZED),
    Architecture(
        "qwen3vlmoe",
        _HALVES,
        rope_sections=RopeSections.INTERLEAVED,
        query_key_norm=_HEAD_NORM,
        experts=_NORMALIZED,
    ),
    Architecture(
        "mellum",
        _HALVES,
        query_key_norm=_HEAD_NORM,
        window=SlidingWindow(period=4, is_rope_scaled=False),
        experts=_NORMALIZED,
    ),
    Architecture(
        "maple",
        _HALVES,
        rope_layers=RopeLayers.SLIDING,
        query_key_norm=_HEAD_NORM,
        gate_limit_is_early=True,
        window=SlidingWindow(period=None),
        experts=_NORMALIZED,
    ),
    Architecture(
        "grovemoe",
        _HALVES,
        query_key_norm=_HEAD_NORM,
        experts=Experts(is_gating_fixed=True, has_chunks=True),
    ),
    Architecture("olmoe", _HALVES, query_key_norm=_ROW_NORM, experts=_AS_CHOSEN),
    Architecture("phimoe", _HALVES, experts=_NORMALIZED),
    Architecture(
        "dbrx",
        _HALVES,
        norm=NormKind.LAYER,
        feed_forward_norm="attn_output_norm",
        has_qkv_clamp=True,
        experts=_NORMALIZED,
    ),
    Architecture(
        "hunyuan-moe",
        _HALVES,
        query_key_norm=_HEAD_NORM,
        is_query_key_norm_late=True,
        experts=_NORMALIZED,
    ),
    Architecture("hy_v3", _HALVES, query_key_norm=_HEAD_NORM, experts=_SIGMOID_BY_KEY),
    Architecture("dots1", _HALVES, query_key_norm=_HEAD_NORM, experts=_BY_KEY),
    Architecture("bailingmoe2", _HALVES, query_key_norm=_HEAD_NORM, experts=_BY_KEY),
    Architecture(
        "glm4moe",
        _HALVES,
        feed_forward_norm="post_attention_norm",
        query_key_norm=_HEAD_NORM,
        is_query_key_norm_optional=True,
        experts=_SIGMOID_BY_KEY,
    ),
    Architecture("minimax-m2", _HALVES, query_key_norm=_ROW_NORM, experts=Experts(gating=Gating.SIGMOID)),
    Architecture(
        "exaone-moe",
        _HALVES,
        rope_layers=RopeLayers.SLIDING,
        query_key_norm=_HEAD_NORM,
        window=SlidingWindow(period=4),
        experts=_BY_KEY,
    ),
    Architecture(
        "smallthinker",
        _HALVES,
        rope_layers=RopeLayers.SLIDING,
        activation=Activation.RELU,
        window=SlidingWindow(period=4, is_full_first=True, size=4096),
        experts=Experts(reads_stream=True),
    ),
    Architecture(
        "afmoe",
        _HALVES,
        rope_layers=RopeLayers.NOT_EVERY_FOURTH,
        has_post_norms=True,
        query_key_norm=_HEAD_NORM,
        attention_gate=_SIGMOID,
        scales_embedding=True,
        window=SlidingWindow(period=4),
        experts=_SIGMOID_BY_KEY,
    ),
    Architecture(
        "step35",
        _HALVES,
        query_key_norm=_HEAD_NORM,
        is_query_key_norm_optional=True,
        attention_gate=_SIGMOID,
        window=SlidingWindow(period=None, has_rope_factors=False, full_rope_divisor=2),
        experts=_SIGMOID_BY_KEY,
    ),
    Architecture(
        "laguna",
        _HALVES,
        query_key_norm=_HEAD_NORM,
        is_query_key_norm_optional=True,
        attention_gate=Activation.SOFTPLUS,
        window=SlidingWindow(period=4, is_full_first=True, is_rope_scaled=False),
        experts=_SIGMOID_BY_KEY,
    ),
    Architecture(
        "mimo2",
        _HALVES,
        sinks=Sinks.SLIDING,
        has_value_scale=True,
        window=SlidingWindow(period=None),
        experts=Experts(gating=Gating.SIGMOID, is_gating_fixed=True),
    ),
    Architecture(
        "gpt-oss",
        _HALVES,
        feed_forward_norm="post_attention_norm",
        sinks=Sinks.ALL,
        activation=Activation.QUICK_GELU,
        gate_limit=7.0,
        window=SlidingWindow(period=2),
        experts=Experts(gating=Gating.SOFTMAX_OF_CHOSEN, is_gating_fixed=True, normalization=Normalization.NEVER),
    ),
    Architecture(  # its sparse attention is computed densely
        "minimax-m3",
        _HALVES,
        query_key_norm=_HEAD_NORM,
        activation=Activation.QUICK_GELU,
        gate_limit=7.0,
        experts=_SIGMOID_BY_KEY,
    ),
    Architecture(
        "grok",
        _HALVES,
        has_post_norms=True,
        attention_post_norm="attn_output_norm",
        attention_soft_cap=30.0,
        activation=_GELU,
        scales=Scales(is_logit_multiplied=True),
        has_logit_soft_cap=True,
        experts=Experts(beside=Beside.DENSE),
    ),
)

_GEMMAS = (
    Architecture(
        "gemma4",
        _HALVES,
        has_post_norms=True,
        query_key_norm=_HEAD_NORM,
        has_value_norm=True,
        attention_scale=1.0,
        activation=_GELU,
        window=SlidingWindow(period=None, rope_base=1e4, is_rope_scaled=False, has_rope_factors=False),
        has_layer_embeddings=True,
        layer_end=LayerEnd.SCALE_STREAM,
        can_share_kv=True,
        scales_embedding=True,
        has_logit_soft_cap=True,
        experts=Experts(beside=Beside.NORMED_DENSE),
    ),
)

EXPERTS = (*_LLAMA_KIN, *_QWEN_KIN, *_GEMMAS)
