"""What the engine says, in the language of the interface.

The engine speaks English and knows no languages. ``resources/translations/<language>-engine.json`` holds its
sentences with ``{}`` for what differs each time, and what each means; a sentence is told by finding the one it was
made of. What stands in the place of ``{}`` is told likewise: the cause of a failure, or a number.
"""

from __future__ import annotations

import json
import logging
import re
from functools import lru_cache

from app.translation import TRANSLATIONS, current, localised
from engine.plain_data import dataclass

_log = logging.getLogger(__name__)

_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+(?= [kMGT]?B\b)")
_MAX_CHARACTERS = 2000  # a longer one is no sentence
_MAX_DEPTH = 6  # a cause of a cause
_JOINTS = (": ", "; ")  # a file's name or a key of its header, then what is wrong; that, then what to do


@dataclass(frozen=True)
class _Sentence:
    """One sentence of the engine.

    Attributes:
        pattern: matches it, with a group for each ``{}``.
        literal: its longest part that is always the same.
        meaning: what it is called here, a format for the groups.
    """

    pattern: re.Pattern[str]
    literal: str
    meaning: str


def told(sentence: object) -> str:
    """What the engine or an error of it said, in the language of the interface; as it is where no word is known."""
    text = str(sentence)
    sentences = _sentences(current().code)
    return _told(text, sentences, _MAX_DEPTH) if sentences and len(text) <= _MAX_CHARACTERS else text


def read_engine_texts(language: str) -> dict[str, str]:
    """The sentences of the engine and their meanings; none for English, or where they cannot be read."""
    path = TRANSLATIONS / f"{language}-engine.json"
    if language == "en" or not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        _log.warning("%s cannot be read: %s", path, error)
        return {}


@lru_cache(maxsize=2)
def _sentences(language: str) -> tuple[_Sentence, ...]:
    """Those with the longest constant part first: they are the surest."""
    made = []
    for text, meaning in read_engine_texts(language).items():
        parts = [part.replace("{{", "{").replace("}}", "}") for part in text.split("{}")]
        pattern = "(.*?)".join(map(re.escape, parts))
        made.append(_Sentence(re.compile(pattern, re.DOTALL), max(parts, key=len), meaning))
    return tuple(sorted(made, key=lambda one: -len(one.pattern.pattern)))


def _told(text: str, sentences: tuple[_Sentence, ...], depth: int) -> str:
    if depth and " " in text:
        for sentence in sentences:
            if sentence.literal in text and (match := sentence.pattern.fullmatch(text)):
                return sentence.meaning.format(*(_told(part, sentences, depth - 1) for part in match.groups()))
        for joint in _JOINTS:
            head, found, rest = text.partition(joint)
            if found and (known := _told(rest, sentences, depth - 1)) != rest:
                return f"{_told(head, sentences, depth - 1)}{joint}{known}"
    return _NUMBER.sub(lambda match: localised(match.group()), text)
