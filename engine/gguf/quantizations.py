"""Quantizations as file names spell them, and what they mean in words.

Knows names only; what a file really holds its header says.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.gguf.shards import shard_of
from engine.plain_data import dataclass

_NAME = (
    r"Q4_0_[48]_[48]|I?Q[0-9]_[01]|Q[0-9]_K_(?:XXS|XS|S|M|L|XL)|Q[0-9]_K|IQ[0-9]_(?:XXS|XS|S|M|NL|XL)|TQ[12]_0"
    r"|MXFP4_MOE|MXFP4|NVFP4|BF16|FP?(?:16|32)"
)
# Part of a longer word it is none: "X2Q4_0" or "F160" are something else. "UD-" marks a mix with types by layer.
_QUANTIZATION = re.compile(rf"(?<![A-Z0-9])(?P<mix>UD-)?(?P<type>{_NAME})(?![A-Z0-9])", re.I | re.A)
_AT_END = re.compile(rf"[-._ ](?:UD-)?(?:i1-)?(?P<type>{_NAME})\Z", re.I | re.A)


@dataclass(frozen=True)
class Quality:
    """How much of the model a quantization keeps.

    Attributes:
        words: for the person.
        rank: larger is closer to the original.
    """

    words: str
    rank: int


UNKNOWN_QUALITY = Quality("unknown", 0)
# By bits a weight. Perplexity measurements of the llama.cpp project (tools/quantize/README) agree in this order.
_QUALITIES: tuple[tuple[re.Pattern[str], Quality], ...] = tuple(
    (re.compile(pattern), Quality(words, rank))
    for pattern, words, rank in (
        (r"(BF16|FP?(16|32))", "exact", 90),
        (r"Q8_.*", "nearly exact", 80),
        (r"Q6_.*", "very good", 70),
        (r"Q5_K.*|Q5_1", "very good", 62),
        (r"Q5_.*", "very good", 60),
        (r"MXFP4.*|NVFP4", "good, as it was trained", 56),
        (r"Q4_K(_M|_L|_XL)?", "good", 54),
        (r"Q4_K_.*|IQ4_.*|Q4_1", "good", 50),
        (r"Q4_.*", "fair", 46),
        (r"Q3_K(_M|_L|_XL)", "noticeably worse", 40),
        (r"I?Q3_.*", "noticeably worse", 36),
        (r"I?Q2_.*", "much worse", 20),
        (r"TQ[12]_0", "good only for models trained for it", 15),
        (r"I?Q1_.*", "hardly usable", 10),
    )
)


def quantization_in(path: str) -> str | None:
    """The quantization that a file's name or else its folders tell, in capitals; None where none does.

    The last one counts: ``BF16/model-Q4_K_M.gguf`` is ``Q4_K_M``.
    """
    matches = list(_QUANTIZATION.finditer(path.rsplit("/", 1)[-1])) or list(_QUANTIZATION.finditer(path))
    return matches[-1][0].upper() if matches else None


def without_quantization(stem: str) -> tuple[str, str]:
    """A file name without ending as the model's name and the quantization that it ends with, "" for none."""
    match = _AT_END.search(stem)
    if match is None or match.start() == 0:
        return stem, ""
    quantization = quantization_in(stem[match.start() :])
    return stem[: match.start()], quantization or ""


def model_name(path: Path) -> tuple[str, str]:
    """What a file's name calls its model, and the quantization that it ends with, "" for none."""
    shard = shard_of(path.name)
    stem = shard.prefix if shard is not None else path.stem if path.suffix.lower() == ".gguf" else path.name
    return without_quantization(stem)


def quality_of(quantization: str | None) -> Quality:
    """What the quantization keeps of the model."""
    name = (quantization or "").upper().removeprefix("UD-")
    return next((quality for pattern, quality in _QUALITIES if pattern.fullmatch(name)), UNKNOWN_QUALITY)
