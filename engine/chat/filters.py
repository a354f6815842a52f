"""The filters that chat templates may use, each bounded by its operands or told its bound.

Those of Jinja that cannot make a value larger than what they are given are taken as they are; those that can are
written here. Others (``pprint``, ``urlize``, ``striptags`` ...) do not exist in a chat template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from engine.chat.content import ContentText, conceal, plain_units, reveal
from engine.chat.limits import RenderLimitError

if TYPE_CHECKING:
    from engine.chat.sandbox import TemplateEnvironment

# fmt: off
_TAKEN_OVER: Final = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "groupby", "items", "last", "length", "list",
    "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr", "sort", "string",
    "trim", "unique", "upper", "attr",
)
# fmt: on
_MAX_INDENT: Final = 64
_ESCAPES: Final = {
    ord(c): e for c, e in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&#34;"), ("'", "&#39;"))
}
_WIDE_FORMAT: Final = re.compile(r"\d{4,}|\*")
# Those that people wrote are concealed, see ``content``: from U+F0000 on, in the order of what they stand for.
_NOT_ASCII: Final = re.compile("[^\x00-\x7f\U000f0000-\U000f007f]")

# What JSON writes for the characters it cannot hold as they are, before and after concealing.
_JSON_ESCAPES: Final = {
    ord(conceal(character)): conceal(json.dumps(character)[1:-1]) for character in (*map(chr, range(32)), '"', "\\")
}


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: characters as they are, content still recognisable."""
    if isinstance(indent, int) and indent > _MAX_INDENT:
        raise RenderLimitError(f"the chat template indents by {indent:,} characters")
    if isinstance(value, Iterator):  # what map, select and their like give
        value = list(value)
    written = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys)
    written = written.translate(_JSON_ESCAPES)
    return _NOT_ASCII.sub(_ascii_escape, written) if ensure_ascii else written


def _ascii_escape(match: re.Match[str]) -> str:
    """A character as JSON escapes it, concealed if it is."""
    code = ord(match.group())
    if code < 0xF0000:
        return json.dumps(match.group())[1:-1]
    return conceal(json.dumps(chr(code - 0xF0000))[1:-1])


def _plain_number(convert: Callable[..., Any], zero: Any) -> Callable[..., Any]:
    """``int`` and ``float``: of text, or the default where it is no number."""

    def number(value: Any, default: Any = zero, *ignored: Any) -> Any:
        try:
            return convert(reveal(value) if isinstance(value, str) else value)
        except (TypeError, ValueError, OverflowError):
            return default

    return number


def _escape(value: Any) -> str:
    text = str(value)
    return (
        ContentText(conceal(reveal(text).translate(_ESCAPES)))
        if type(text) is ContentText
        else text.translate(_ESCAPES)
    )


def _safe(value: Any) -> Any:
    """Nothing is escaped in a prompt, so everything is safe."""
    return value


def _sum(values: Any, attribute: Any = None, start: float = 0) -> float:
    total = start
    for value in values:
        if not isinstance(value, (int, float)):
            raise TypeError("only numbers can be added up in a chat template")
        total += value
    return total


def _round(value: Any, precision: int = 0, method: str = "common") -> float:
    return round(float(value), min(int(precision), 15))


def make_filters(environment: TemplateEnvironment, jinja: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Filters by name. ``jinja``: those that come with it."""

    def call(text: str, method: str, *args: Any) -> str:
        environment.check_string_call(text, method, args, {})
        return getattr(text, method)(*args)  # type: ignore[no-any-return]

    def join(values: Any, d: str = "", attribute: str | None = None) -> str:
        if attribute is not None:
            values = [environment.getitem(value, attribute) for value in values]
        texts = [value if isinstance(value, str) else str(value) for value in values]
        return call(d, "join", texts)

    def replace(value: Any, old: str, new: str, count: int | None = None) -> str:
        return call(str(value), "replace", str(old), str(new), -1 if count is None else count)

    def indent(value: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
        if isinstance(width, int) and width > _MAX_INDENT:
            raise RenderLimitError(f"the chat template indents by {width:,} characters")
        indention = width if isinstance(width, str) else " " * width
        environment.budget.reserve_text(len(value) + len(indention) * (value.count("\n") + 1))
        return jinja["indent"](value, width, first, blank)  # type: ignore[no-any-return]

    def center(value: Any, width: int = 80) -> str:
        return call(str(value), "center", width)

    def format_(value: Any, *args: Any, **kwargs: Any) -> str:
        if _WIDE_FORMAT.search(str(value)):
            raise RenderLimitError("the chat template pads a text enormously")
        return str(value) % (kwargs or args)

    def batch(value: Any, linecount: int, fill_with: Any = None) -> Iterator[list[Any]]:
        environment.budget.reserve_items(linecount)
        items, count = list(value), max(1, linecount)
        for start in range(0, len(items), count):
            row = items[start : start + count]
            yield row + [fill_with] * (0 if fill_with is None else count - len(row))

    def slice_(value: Any, slices: int, fill_with: Any = None) -> Iterator[list[Any]]:
        environment.budget.reserve_items(slices)
        items, start = list(value), 0
        size, num_longer = divmod(len(items), slices)
        for number in range(slices):
            end = start + size + (number < num_longer)
            yield items[start:end] + ([] if fill_with is None or number < num_longer else [fill_with])
            start = end

    def title(value: Any) -> str:
        text = value if isinstance(value, str) else str(value)
        changed: str = jinja["title"](plain_units(text))
        return text.recased(changed) if isinstance(text, ContentText) else changed

    def wordcount(value: Any) -> int:
        return jinja["wordcount"](plain_units(str(value)))  # type: ignore[no-any-return]

    def truncate(value: str, length: int = 255, killwords: bool = False, end: str = "...", leeway: int = 0) -> str:
        return jinja["truncate"](environment, value, length, killwords, end, leeway)  # type: ignore[no-any-return]

    made: dict[str, Callable[..., Any]] = {
        "tojson": to_json,
        "join": join,
        "replace": replace,
        "indent": indent,
        "center": center,
        "format": format_,
        "truncate": truncate,
        "batch": batch,
        "slice": slice_,
        "title": title,
        "wordcount": wordcount,
        "int": _plain_number(int, 0),
        "float": _plain_number(float, 0.0),
        "escape": _escape,
        "e": _escape,
        "safe": _safe,
        "sum": _sum,
        "round": _round,
    }
    return {name: jinja[name] for name in _TAKEN_OVER} | made
