"""Content that stays recognisable inside a rendered prompt.

A chat template mixes what people wrote with what it writes itself, and may trim, cut, search and escape the former
on the way. So that content can be told from scaffolding afterwards, each of its characters is *concealed* before
rendering: moved to the private planes of Unicode, one for one. ``ContentText`` carries such characters and answers
a template's questions (``in``, ``==``, ``split``, ``strip`` ...) as the plain text would, so that the template
takes the same path; what it gives keeps the concealed characters. Characters that pass an operation unknown to
this module stay concealed too: content never turns into scaffolding by accident.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Final, SupportsIndex

import numpy as np
import numpy.typing as npt

from engine.tokenizer.text import well_formed

# Planes 0 and 1 go to planes 15 and 16. A character above them becomes its two UTF-16 halves, which lie in plane 0.
_SHIFT: Final = 0xF0000
_HIGH: Final = re.compile("[\U00020000-\U0010ffff]")
_RUN: Final = re.compile("[\U000f0000-\U0010ffff]+")


def _halves(match: re.Match[str]) -> str:
    code = ord(match.group()) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def conceal(text: str) -> ContentText:
    """``text`` with every character concealed."""
    return ContentText(_decode(_codes(_HIGH.sub(_halves, well_formed(text))) + np.uint32(_SHIFT)))


def _codes(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _decode(codes: npt.NDArray[np.uint32]) -> str:
    return codes.tobytes().decode("utf-32-le", "surrogatepass")


def is_concealed(text: str) -> bool:
    """Whether any character of ``text`` is concealed."""
    return not text.isascii() and _RUN.search(text) is not None


def plain_units(text: str) -> str:
    """``text`` with concealed characters as they were, of the same length (high ones stay in halves)."""
    if not is_concealed(text):
        return str.__str__(text)
    codes = _codes(text)
    return _decode(np.where(codes >= _SHIFT, codes - np.uint32(_SHIFT), codes))


def reveal(text: str) -> str:
    """The plain text."""
    return well_formed(plain_units(text))


def segments_of(rendered: str) -> list[tuple[str, bool]]:
    """The pieces ``(plain text, is_scaffolding)`` of a rendered prompt; joined they are ``reveal(rendered)``."""
    rendered = str.__str__(rendered)
    segments = []
    end = 0
    for run in _RUN.finditer(rendered):
        if run.start() > end:
            segments.append((well_formed(rendered[end : run.start()]), True))
        segments.append((reveal(run.group()), False))
        end = run.end()
    if end < len(rendered):
        segments.append((well_formed(rendered[end:]), True))
    return segments


def track(text: str) -> str:
    """``text``, as ``ContentText`` where it holds concealed characters."""
    if type(text) is ContentText or not is_concealed(text):
        return text
    return ContentText(text)


class ContentText(str):
    """Text with concealed characters that answers as its plain text would."""

    @cached_property
    def _plain(self) -> str:
        return plain_units(self)

    def __str__(self) -> str:
        return self

    def __repr__(self) -> str:
        return conceal(repr(reveal(self)))

    def __hash__(self) -> int:
        return hash(self._plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self._plain == plain_units(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __contains__(self, item: object) -> bool:
        return isinstance(item, str) and plain_units(item) in self._plain

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        return ContentText(super().__getitem__(key))

    def __iter__(self) -> Iterator[str]:
        return map(ContentText, super().__iter__())

    def __add__(self, other: str) -> str:
        return ContentText(super().__add__(other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> str:
        return ContentText(str.__add__(other, self)) if isinstance(other, str) else NotImplemented

    def __format__(self, format_spec: str) -> str:
        return ContentText(str.__format__(self, format_spec))

    # Questions: answered by the plain text.

    def find(self, sub: str, *bounds: Any) -> int:
        return self._plain.find(plain_units(sub), *bounds)

    def rfind(self, sub: str, *bounds: Any) -> int:
        return self._plain.rfind(plain_units(sub), *bounds)

    def index(self, sub: str, *bounds: Any) -> int:
        return self._plain.index(plain_units(sub), *bounds)

    def count(self, sub: str, *bounds: Any) -> int:
        return self._plain.count(plain_units(sub), *bounds)

    def startswith(self, prefix: str | tuple[str, ...], *bounds: Any) -> bool:
        return self._plain.startswith(prefix, *bounds)

    def endswith(self, suffix: str | tuple[str, ...], *bounds: Any) -> bool:
        return self._plain.endswith(suffix, *bounds)

    def isdigit(self) -> bool:
        return self._plain.isdigit()

    def isalpha(self) -> bool:
        return self._plain.isalpha()

    def isalnum(self) -> bool:
        return self._plain.isalnum()

    def isspace(self) -> bool:
        return self._plain.isspace()

    def isupper(self) -> bool:
        return self._plain.isupper()

    def islower(self) -> bool:
        return self._plain.islower()

    # Cuts: placed by the plain text.

    def lstrip(self, chars: str | None = None) -> str:
        return self[len(self) - len(self._plain.lstrip(chars)) :]

    def rstrip(self, chars: str | None = None) -> str:
        return self[: len(self._plain.rstrip(chars))]

    def strip(self, chars: str | None = None) -> str:
        return self.lstrip(chars).rstrip(chars)

    def removeprefix(self, prefix: str) -> str:
        return self[len(prefix) :] if self.startswith(prefix) else self

    def removesuffix(self, suffix: str) -> str:
        return self[: len(self) - len(suffix)] if suffix and self.endswith(suffix) else self

    def _pieces(self, pieces: list[str], separator: str | None) -> list[str]:
        """The cuts of this text that read ``pieces``, which stand in it in this order."""
        found = []
        end = 0
        for number, piece in enumerate(pieces):
            if separator is None:
                start = self._plain.index(piece, end)
            else:
                start = end + len(separator) if number else 0
            end = start + len(piece)
            found.append(self[start:end])
        return found

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._pieces(self._plain.split(sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._pieces(self._plain.rsplit(sep, maxsplit), sep)

    def splitlines(self, keepends: bool = False) -> list[str]:
        lines = []
        end = 0
        for line, whole in zip(self._plain.splitlines(), self._plain.splitlines(keepends=True)):
            lines.append(self[end : end + len(whole if keepends else line)])
            end += len(whole)
        return lines

    def partition(self, sep: str) -> tuple[str, str, str]:
        start = self.find(sep)
        if start < 0:
            return self, "", ""
        return self[:start], self[start : start + len(sep)], self[start + len(sep) :]

    def rpartition(self, sep: str) -> tuple[str, str, str]:
        start = self.rfind(sep)
        if start < 0:
            return "", "", self
        return self[:start], self[start : start + len(sep)], self[start + len(sep) :]

    # Changes.

    def replace(self, old: str, new: str, count: SupportsIndex = -1) -> str:
        if not old:
            return ContentText(super().replace(old, new, count))
        return ContentText(str.join(new, self.split(plain_units(old), count)))

    def join(self, iterable: Iterable[str]) -> str:
        return ContentText(super().join(iterable))

    def recased(self, changed: str) -> str:
        """``changed`` is the plain text with other letters; concealed where this text is."""
        if len(changed) != len(self):  # "ß" becomes "SS": where is lost, so all counts as content
            return conceal(changed)
        codes = _codes(changed)
        return ContentText(_decode(np.where(_codes(self) >= _SHIFT, codes + np.uint32(_SHIFT), codes)))

    def upper(self) -> str:
        return self.recased(self._plain.upper())

    def lower(self) -> str:
        return self.recased(self._plain.lower())

    def title(self) -> str:
        return self.recased(self._plain.title())

    def capitalize(self) -> str:
        return self.recased(self._plain.capitalize())

    def swapcase(self) -> str:
        return self.recased(self._plain.swapcase())

    def casefold(self) -> str:
        return self.recased(self._plain.casefold())
