from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import translation
from app.translation import LANGUAGES, Language, chosen_language, load_language, localised, tr, trn
from tests.app.translated_texts import all_texts, texts_in

ROOT = Path(__file__).resolve().parents[2]
FIELD = re.compile(r"\{\w+(?::[^}]*)?\}")


@pytest.fixture(autouse=True)
def english_again() -> Iterator[None]:
    yield
    translation.use(Language())


def test_german_is_complete() -> None:
    german, texts = load_language("de"), all_texts()
    assert sorted(texts - set(german.texts)) == [], "these have no German yet: resources/translations/de.json"
    assert sorted(set(german.texts) - texts) == [], "nobody says these any more"
    for text, translated in german.texts.items():
        assert sorted(FIELD.findall(text)) == sorted(FIELD.findall(translated)), text
        assert text.count("\t") == translated.count("\t"), text
        assert translated.strip() == translated or text.strip() != text, text


def test_german_addresses_people_in_one_way() -> None:
    formal = re.compile(r"\b\w+e?n Sie\b|\b(Ihnen|Ihrem|Ihren)\b")
    assert [text for text in load_language("de").texts.values() if formal.search(text)] == []


def test_every_visible_text_is_translated() -> None:
    """The window is built in a language that marks what it translates; whatever has no marks was forgotten."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.app.untranslated"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == []


def test_texts_numbers_and_plurals() -> None:
    assert tr("Not in any table") == "Not in any table"
    assert tr("{name} is a folder", name="{x}") == "{x} is a folder", "what people named is no placeholder"
    assert trn("1 token", "{count} tokens", 1204) == "1,204 tokens"
    translation.use(load_language("de"))
    assert tr("Send") == "Senden"
    assert trn("1 token", "{count} tokens", 1204) == "1.204 Tokens"
    assert trn("1 day left", "{count} days left", 1) == "noch 1 Tag"
    assert localised("1,204.5") == "1.204,5"


@pytest.mark.parametrize(
    ("stored", "system", "code"),
    [
        ({"language": "de"}, ["en-GB"], "de"),
        ({"language": "en"}, ["de-DE"], "en"),
        ({"language": "system"}, ["de-AT", "en"], "de"),
        ({"language": "xx"}, ["fr-FR", "de_CH"], "de"),
        ({}, ["fr-FR"], "en"),
        ([], [], "en"),
        (None, ["de"], "de"),
        ({"language": []}, ["de"], "de"),
        ({"language": {"en": 1}}, ["de"], "de"),
    ],
)
def test_the_language_is_chosen(tmp_path: Path, stored: object, system: list[str], code: str) -> None:
    path = tmp_path / "settings.json"
    if stored is not None:
        path.write_text(json.dumps(stored), encoding="utf-8")
    assert chosen_language(path, system) == code


def test_a_damaged_table_leaves_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "TRANSLATIONS", tmp_path)
    for content in ("{", "[]", "{}", '{"texts": 7, "group": ".", "decimal": ","}'):
        (tmp_path / "de.json").write_text(content, encoding="utf-8")
        assert load_language("de") == Language()
    assert load_language("../de") == Language()


def test_each_language_has_its_table() -> None:
    for code, name in LANGUAGES.items():
        if code != "en":
            table = json.loads((translation.TRANSLATIONS / f"{code}.json").read_text(encoding="utf-8"))
            assert table["name"] == name


def test_a_text_must_be_a_literal() -> None:
    assert list(texts_in('tr("a" "b"); trn("one", "many", 3)')) == ["ab", "one", "many"]
    with pytest.raises(ValueError, match="line 1"):
        list(texts_in("tr(name)"))
