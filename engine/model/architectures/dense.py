"""Rows of the architectures whose layers are all dense."""

from __future__ import annotations

from engine.model.architectures.vocabulary import (
    Architecture,
    EmbeddingNorm,
    FeedForward,
    LayerEnd,
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
from engine.model.plan import Activation

_ADJACENT, _HALVES, _NONE = RopePairs.ADJACENT, RopePairs.HALVES, RopePairs.NONE
_LAYER, _PLAIN, _FUSED = NormKind.LAYER, FeedForward.PLAIN, FeedForward.FUSED
_GELU, _RELU_SQUARED, _SIGMOID = Activation.GELU, Activation.RELU_SQUARED, Activation.SIGMOID
_HEAD_NORM, _ROW_NORM = QueryKeyNorm.HEAD, QueryKeyNorm.ROW
_PARALLEL = Residual.PARALLEL

_LLAMA_KIN = (
    Architecture("mistral3", _ADJACENT, temperature=Temperature.BY_ORIGINAL_CONTEXT),
    Architecture("internlm2", _ADJACENT),
    Architecture("xverse", _ADJACENT),
    Architecture("ernie4_5", _ADJACENT),
    Architecture("baichuan", _ADJACENT, only_with_layers=32),  # 7B
    Architecture("baichuan", _NONE, alibi_bias=8.0, only_with_layers=40),  # 13B
    Architecture("refact", _NONE, alibi_bias=8.0),
    Architecture("deci", _ADJACENT, can_omit_parts=True),
    Architecture("nanbeige", _ADJACENT, can_loop=True),
    Architecture("smollm3", _ADJACENT, rope_layers=RopeLayers.NOT_EVERY_FOURTH),
    Architecture("arcee", _ADJACENT, feed_forward=_PLAIN, activation=_RELU_SQUARED),
    Architecture("chatglm", _ADJACENT, feed_forward=_FUSED),
    Architecture("glm4", _ADJACENT, has_post_norms=True, feed_forward=_FUSED),
    Architecture("olmo", _ADJACENT, norm=_LAYER, has_norm_weights=False, has_qkv_clamp=True),
    Architecture("granite", _ADJACENT, scales=Scales()),
    Architecture(
        "granite_swa",
        _ADJACENT,
        rope_layers=RopeLayers.PATTERN,
        sinks=Sinks.ALL,
        scales=Scales(),
        window=SlidingWindow(period=None),
    ),
    Architecture("minicpm", _ADJACENT, scales=Scales(embedding=12.0, residual_by_depth=1.4, logit_by_width=256.0)),
    Architecture(
        "minicpm3",
        _HALVES,
        has_latent_attention=True,
        scales=Scales(12.0, residual_by_depth=1.4, logit_by_width=256.0, is_logit_multiplied=True),
    ),
    Architecture(
        "command-r",
        _ADJACENT,
        norm=_LAYER,
        residual=_PARALLEL,
        query_key_norm=QueryKeyNorm.OWN,
        is_query_key_norm_optional=True,
        scales=Scales(is_logit_multiplied=True),
    ),
    Architecture(
        "cohere2",
        _ADJACENT,
        rope_layers=RopeLayers.SLIDING,
        norm=_LAYER,
        residual=_PARALLEL,
        scales=Scales(is_logit_multiplied=True),
        window=SlidingWindow(period=4),
    ),
    Architecture(
        "muse-glimmer",
        _ADJACENT,
        rope_layers=RopeLayers.SLIDING,
        has_post_norms=True,
        post_norm_eps=1e-8,
        embedding_norm=EmbeddingNorm.PLAIN,
        query_key_norm=_HEAD_NORM,
        attention_gate=_SIGMOID,
        window=SlidingWindow(period=4),
        scales=Scales(is_logit_multiplied=True),
        has_logit_soft_cap=True,
    ),
)

_QWEN_KIN = (
    Architecture("qwen2", _HALVES),
    Architecture("qwen2vl", _HALVES),
    Architecture("qwen3", _HALVES, query_key_norm=_HEAD_NORM),
    Architecture("qwen3vl", _HALVES, rope_sections=RopeSections.INTERLEAVED, query_key_norm=_HEAD_NORM),
    Architecture("paddleocr", _HALVES),
    Architecture("exaone", _HALVES),
    Architecture("orion", _HALVES, norm=_LAYER),
    Architecture("pangu-embedded", _HALVES),
    Architecture("seed_oss", _HALVES, feed_forward_norm="post_attention_norm"),
    Architecture("openelm", _HALVES, query_key_norm=_HEAD_NORM),
    Architecture("hunyuan-dense", _HALVES, query_key_norm=_HEAD_NORM, is_query_key_norm_late=True),
    Architecture("hunyuan_vl", _HALVES, query_key_norm=_HEAD_NORM, is_query_key_norm_late=True),
    Architecture("maincoder", _ADJACENT, query_key_norm=_HEAD_NORM, is_query_key_norm_late=True),
    Architecture("phi3", _HALVES, feed_forward=_FUSED),
    Architecture("bitnet", _HALVES, has_sub_norms=True),
    Architecture(
        "apertus",
        _HALVES,
        query_key_norm=_HEAD_NORM,
        feed_forward=_PLAIN,
        activation=Activation.XIELU,
    ),
    Architecture(  # OLMo 2 and 3
        "olmo2",
        _HALVES,
        has_pre_norms=False,
        has_post_norms=True,
        query_key_norm=_ROW_NORM,
        window=SlidingWindow(period=4, is_rope_scaled=False),
    ),
    Architecture(
        "exaone4",
        _HALVES,
        rope_layers=RopeLayers.SLIDING,
        has_pre_norms=False,
        has_post_norms=True,
        query_key_norm=_HEAD_NORM,
        window=SlidingWindow(period=4),
    ),
    Architecture(
        "plamo3",
        _HALVES,
        has_post_norms=True,
        query_key_norm=_HEAD_NORM,
        feed_forward=_FUSED,
        window=SlidingWindow(period=8),
    ),
    Architecture(
        "spark2_5",
        _HALVES,
        attention_gate=_SIGMOID,
        activation=_GELU,
        window=SlidingWindow(period=None),
    ),
    Architecture(
        "talkie",
        _HALVES,
        has_norm_weights=False,
        embedding_norm=EmbeddingNorm.PLAIN,
        query_key_norm=QueryKeyNorm.QUERY_FACTOR,
        is_query_key_norm_late=True,
        layer_end=LayerEnd.ADD_EMBEDDING,
        scales=Scales(is_logit_multiplied=True),
    ),
)

_GPT_KIN = (
    Architecture("gpt2", _NONE, norm=_LAYER, feed_forward=_PLAIN, activation=_GELU, has_position_embedding=True),
    Architecture(
        "starcoder", _NONE, norm=_LAYER, feed_forward=_PLAIN, activation=_GELU, has_position_embedding=True
    ),
    Architecture("starcoder2", _HALVES, norm=_LAYER, feed_forward=_PLAIN, activation=_GELU),
    Architecture("codeshell", _HALVES, norm=_LAYER, feed_forward=_PLAIN, activation=_GELU),
    Architecture("jais2", _HALVES, norm=_LAYER, feed_forward=_PLAIN, activation=_RELU_SQUARED),
    Architecture("nemotron", _HALVES, norm=_LAYER, feed_forward=_PLAIN, activation=_RELU_SQUARED),
    Architecture(
        "bloom",
        _NONE,
        norm=_LAYER,
        embedding_norm=EmbeddingNorm.WEIGHTED,
        alibi_bias=8.0,
        feed_forward=_PLAIN,
        activation=_GELU,
    ),
    Architecture(
        "mpt", _NONE, norm=_LAYER, alibi_bias=0.0, has_qkv_clamp=True, feed_forward=_PLAIN, activation=_GELU
    ),
    Architecture("gptneox", _HALVES, norm=_LAYER, residual=Residual.BY_KEY, feed_forward=_PLAIN, activation=_GELU),
    Architecture("phi2", _HALVES, norm=_LAYER, residual=_PARALLEL, feed_forward=_PLAIN, activation=_GELU),
    Architecture("falcon", _HALVES, norm=_LAYER, residual=_PARALLEL, feed_forward=_PLAIN, activation=_GELU),
    Architecture(
        "stablelm",
        _HALVES,
        norm=_LAYER,
        residual=Residual.BY_NORM,
        query_key_norm=QueryKeyNorm.OWN,
        is_query_key_norm_optional=True,
    ),
)

_GEMMAS = (
    Architecture("gemma", _HALVES, activation=_GELU, scales_embedding=True),
    Architecture(
        "gemma2",
        _HALVES,
        activation=_GELU,
        has_post_norms=True,
        scales_embedding=True,
        window=SlidingWindow(period=2),
        attention_soft_cap=50.0,
        has_logit_soft_cap=True,
        width_scaled_at=46,  # 27B
    ),
    Architecture(
        "gemma3",
        _HALVES,
        activation=_GELU,
        has_post_norms=True,
        query_key_norm=_HEAD_NORM,
        scales_embedding=True,
        window=SlidingWindow(period=6, rope_base=1e4, is_rope_scaled=False),
        has_logit_soft_cap=True,
        width_scaled_at=62,  # 27B
    ),
    Architecture(
        "gemma3n",
        _HALVES,
        activation=_GELU,
        has_post_norms=True,
        query_key_norm=_HEAD_NORM,
        has_value_norm=True,
        attention_scale=1.0,
        scales_embedding=True,
        window=SlidingWindow(period=5, rope_base=1e4, is_rope_scaled=False),
        has_layer_embeddings=True,
        has_streams=True,
        num_sparse_layers=10,
        can_share_kv=True,
        first_sharing_layer=20,
        has_logit_soft_cap=True,
        logit_soft_cap=30.0,
    ),
)

DENSE = (
    *_LLAMA_KIN,
    *_QWEN_KIN,
    *_GPT_KIN,
    *_GEMMAS,
)
