"""The language of the interface: ``tr`` around every text that a person reads.

English is written in the code. ``resources/translations/<language>.json`` holds another language:

    {"name": "Deutsch", "group": ".", "decimal": ",", "texts": {"Send": "Senden", ...}}

The language is chosen before the modules that speak are imported, so that tables of texts are made in it; another
choice takes effect at the next start. What the engine says is the affair of ``engine_words``.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path

_log = logging.getLogger(__name__)

TRANSLATIONS = Path(__file__).resolve().parents[1] / "resources" / "translations"
LANGUAGES = {"en": "English", "de": "Deutsch"}
"""The languages that there are, by their own names."""


@dataclass(frozen=True)
class Language:
    """One language's texts.

    Attributes:
        code: as in ISO 639.
        texts: the translation of each English text; a missing one stays English.
        group: stands between thousands.
        decimal: stands before the decimals.
    """

    code: str = "en"
    texts: dict[str, str] = field(default_factory=dict)
    group: str = ","
    decimal: str = "."


_language = Language()


def tr(text: str, /, **values: object) -> str:
    """``text`` in the language of the interface, with ``values`` in place of the names in braces."""
    translated = _language.texts.get(text, text)
    return translated.format(**values) if values else translated


def trn(one: str, many: str, count: int, /, **values: object) -> str:
    """``one`` or ``many``, by ``count``, which ``{count}`` stands for."""
    return tr(one if count == 1 else many, count=localised(f"{count:,}"), **values)


def localised(number: str) -> str:
    """A number in Python's notation ("1,204.5") in that of the language."""
    swapped = {",": _language.group, ".": _language.decimal}
    return "".join(swapped.get(character, character) for character in number)


def current() -> Language:
    """The language in force."""
    return _language


def use(language: Language) -> None:
    """Speak ``language`` from now on; what was made before stays as it is."""
    global _language
    _language = language


def load_language(code: str) -> Language:
    """The texts of a language; English for one that there is not, or that cannot be read."""
    if code not in LANGUAGES or code == "en":
        return Language()
    path = TRANSLATIONS / f"{code}.json"
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        return Language(code, dict(table["texts"]), str(table["group"]), str(table["decimal"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("%s cannot be read: %s", path, error)
        return Language()


def chosen_language(settings_file: Path, system_languages: list[str]) -> str:
    """The code of the language that the settings in a file ask for.

    Reads the file itself: the settings' own table is made of texts in that language.
    """
    try:
        chosen = json.loads(settings_file.read_text(encoding="utf-8")).get("language", "system")
    except (OSError, ValueError, RecursionError, AttributeError):
        chosen = "system"
    return language_for(chosen, system_languages)


def language_for(choice: object, system_languages: list[str]) -> str:
    """The code of the language that is chosen, else of the first of the system's that there is, else English."""
    if isinstance(choice, str) and choice in LANGUAGES:
        return choice
    codes = [name.replace("_", "-").split("-")[0].lower() for name in system_languages]
    return next((code for code in codes if code in LANGUAGES), "en")
