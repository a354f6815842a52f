"""Formats of strings: what the grammar library knows, what it knows too loosely, and what it does not know.

Dates and times follow RFC 3339, host names RFC 1123. A leap second is let through where it can be told that it is
one, in UTC; no answer needs one elsewhere.
"""

from __future__ import annotations

from typing import Any, Final

# The library honours these as the specification has them.
_HONOURED: Final = frozenset(("duration", "email", "ipv4", "ipv6", "uuid", "uri", "unknown"))
# It does not know these.
UNKNOWN: Final = frozenset(
    (
        *("idn-email", "idn-hostname", "uri-reference", "iri", "iri-reference", "uri-template"),
        *("json-pointer", "relative-json-pointer", "regex"),
    )
)

_LEAP_YEAR: Final = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DAY: Final = (
    "(?:[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|"
    f"(?:0[13578]|1[02])-31)|{_LEAP_YEAR}-02-29)"
)
_OFFSET: Final = r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_TIME: Final = (
    rf"(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?{_OFFSET}|"
    r"23:59:60(?:\.[0-9]+)?(?:[Zz]|[+-]00:00))"
)
# Of at most 63 characters, not with two hyphens in the third and fourth place: those are names in another encoding.
_LABEL: Final = (
    "[A-Za-z0-9](?:[A-Za-z0-9-]{0,2}[A-Za-z0-9]|"
    "[A-Za-z0-9-](?:[A-Za-z0-9][A-Za-z0-9-]|-[A-Za-z0-9])[A-Za-z0-9-]{0,58}[A-Za-z0-9])?"
)
# What it knows too loosely, exactly: it would let the 29th of February through in any year.
_EXACT: Final[dict[str, dict[str, Any]]] = {
    "date": {"pattern": f"^{_DAY}$"},
    "time": {"pattern": f"^{_TIME}$"},
    "date-time": {"pattern": f"^{_DAY}[Tt]{_TIME}$"},
    "hostname": {"pattern": rf"^{_LABEL}(?:\.{_LABEL})*$", "maxLength": 253},
}


def is_defined(name: str) -> bool:
    """Whether the specification defines a format."""
    return name in _HONOURED or name in UNKNOWN or name in _EXACT


def put_exactly(schema: dict[str, Any]) -> None:
    """Put what a schema's format means in its place, where the library knows the format too loosely; in place."""
    meaning = _EXACT.get(str(schema.get("format")))
    if meaning is not None:
        del schema["format"]
        schema["allOf"] = [*schema.get("allOf", []), dict(meaning)]
