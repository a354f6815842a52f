"""The pre-tokenizer families of byte-level BPE, as data: how text is cut before merges apply.

Each family is a row: the regular expressions that cut (one after the other, matches and gaps both kept), and
two flags. The expressions are those published with the models' own tokenizers. Names are the values of
``tokenizer.ggml.pre``. Also knows by which tokens a family is recognised when a file does not name it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

_CONTRACTIONS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"

_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3: Final = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _SPACES
)  # digits in groups of three
_LLAMA3_WHOLE_NUMBERS: Final = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")
_QWEN2: Final = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")  # digits one by one
_QWEN35: Final = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _SPACES
)  # combining marks belong to words
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN: Final = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _SPACES
)  # words break where case changes
_O200K: Final = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _SPACES
)
_NOT_HAN_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_NOT_HAN_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_KIMI_K2: Final = (
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{_NOT_HAN_UPPER}*{_NOT_HAN_LOWER}+{_CONTRACTIONS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_NOT_HAN_UPPER}+{_NOT_HAN_LOWER}*{_CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _SPACES
)
_BLOOM: Final = r" ?[^(\s|.,!?…。，、।۔،)]+"
_BAILING: Final = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SEED_CODER: Final = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK_V3_WORDS: Final = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|" + _SPACES
)
# The letters of an older Unicode version, without those that have no case: what DeepSeek LLM was trained with.
_DEEPSEEK_LLM_LETTERS: Final = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481"
    "\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b"
    "\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b"
    "\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
    "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943"
)
_CJK: Final = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_DEEPSEEK_LLM_PUNCTUATION: Final = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"


@dataclass(frozen=True)
class PreTokenizer:
    """One family.

    Attributes:
        splits: regular expressions (Oniguruma) applied one after the other.
        whole_words: a piece that is a token itself is taken whole, without merging.
        adds_bos: whether a prompt starts with the beginning-of-text token where the file does not say.
    """

    splits: tuple[str, ...]
    whole_words: bool = False
    adds_bos: bool = False


_ROWS: Final[tuple[tuple[str, PreTokenizer], ...]] = (
    (
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        PreTokenizer((_LLAMA3,), whole_words=True, adds_bos=True),
    ),
    ("dbrx smaug-bpe chatglm-bpe", PreTokenizer((_LLAMA3,))),
    ("glm4 glm5", PreTokenizer((_LLAMA3,), whole_words=True)),
    (
        "qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan solar-open grok-2",
        PreTokenizer((_QWEN2,)),
    ),
    ("qwen35", PreTokenizer((_QWEN35,))),
    (
        "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat mellum modern-bert exaone4 mpt olmo jais "
        "trillion granite-docling jina-v1-en jina-v2-code roberta-bpe a.x-4.0",
        PreTokenizer((_GPT2,)),
    ),
    (
        "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
        PreTokenizer((r"\p{N}", _GPT2)),
    ),
    ("falcon", PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"))),
    (
        "deepseek-llm",
        PreTokenizer(
            (
                r"[\r\n]",
                rf"\s?[{_DEEPSEEK_LLM_LETTERS}]+",
                _DEEPSEEK_LLM_PUNCTUATION,
                r"\s+$",
                _CJK,
                r"\p{N}+",
            )
        ),
    ),
    (
        "deepseek-coder",
        PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")),
    ),
    (
        "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
        PreTokenizer((r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK_V3_WORDS)),
    ),
    ("tekken", PreTokenizer((_TEKKEN,), whole_words=True, adds_bos=True)),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", PreTokenizer((_O200K,))),
    ("kimi-k2", PreTokenizer((_KIMI_K2,))),
    ("poro-chat bloom gpt3-finnish", PreTokenizer((_BLOOM,))),
    ("viking", PreTokenizer((_BLOOM, r"\p{N}"))),
    ("superbpe", PreTokenizer((r"\p{N}+", r"(?=(\d{3})+(?!\d))"))),
    ("bailingmoe bailingmoe2 llada-moe", PreTokenizer((_BAILING,))),
    ("seed-coder", PreTokenizer((_SEED_CODER,))),
    ("minicpm5", PreTokenizer((r"\p{N}{1,3}", _LLAMA3_WHOLE_NUMBERS), whole_words=True)),
    ("laguna", PreTokenizer((r"[^\n]+|[\n]+", _QWEN2))),
    ("default", PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"))),
)

PRE_TOKENIZERS: Final[dict[str, PreTokenizer]] = {name: row for names, row in _ROWS for name in names.split()}


@dataclass(frozen=True)
class Sign:
    """Tokens and a vocabulary size by which a family is recognised."""

    family: str
    tokens: tuple[str, ...]
    min_size: int = 0
    max_size: int = 1 << 30


# Looked through in order: the more particular first.
SIGNS: Final[tuple[Sign, ...]] = (
    Sign("llama-bpe", ("<|begin_of_text|>", "<|start_header_id|>")),
    Sign("llama-bpe", ("<|begin_of_text|>", "<|end_of_text|>"), min_size=128_000),
    Sign("gpt-4o", ("<|channel|>", "<|return|>")),
    Sign("llama4", ("<|header_start|>", "<|header_end|>")),
    Sign("kimi-k2", ("<|im_middle|>", "[EOT]")),
    Sign("glm4", ("[gMASK]", "<sop>")),
    Sign("deepseek-v3", ("<｜begin▁of▁sentence｜>", "<｜User｜>"), min_size=128_000),
    Sign("deepseek-llm", ("<｜begin▁of▁sentence｜>",), min_size=100_000, max_size=110_000),
    Sign("deepseek-coder", ("<｜begin▁of▁sentence｜>",), max_size=40_000),
    Sign("tekken", ("[INST]", "[/INST]", "<s>"), min_size=131_000),
    Sign("dbrx", ("<|im_start|>", "<|im_sep|>"), min_size=100_000),
    Sign("qwen35", ("<|im_start|>", "<|endoftext|>"), min_size=248_000),
    Sign("qwen2", ("<|im_start|>", "<|endoftext|>"), min_size=150_000),
    Sign("smollm", ("<|im_start|>", "<repo_name>", "<gh_stars>"), max_size=50_000),
    Sign("refact", ("<fim_prefix>", "<gh_stars>"), max_size=50_000),
    Sign("command-r", ("<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>")),
    Sign("falcon", (">>TITLE<<", ">>ABSTRACT<<")),
    Sign("gpt-2", ("<|endoftext|>", "Ġ--------"), min_size=50_000, max_size=51_300),
)


def recognise_pre_tokenizer(tokens: Collection[str]) -> str | None:
    """The family of a vocabulary that does not name one, or None."""
    for sign in SIGNS:
        if sign.min_size <= len(tokens) <= sign.max_size and all(token in tokens for token in sign.tokens):
            return sign.family
    return None
