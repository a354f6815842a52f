from __future__ import annotations

import re

import pytest

from app.storage.spelling import MAX_SPELLINGS, any_pattern, folded, pattern_of, spellings

SAME = [
    ("straße", "STRASSE"),
    ("Strasse", "straße"),
    ("STRAẞE", "strasse"),
    ("Flußstraße", "flussstrasse"),
    ("istanbul", "İstanbul"),
    ("Diyarbakır", "DİYARBAKIR"),
    ("office", "oﬃce"),
    ("o\ufb00ice", "of\ufb01ce"),
    ("ΣΊΣΥΦΟΣ", "σίσυφος"),
    ("Äpfel", "äPFEL"),
    ("100% (sure)", "100% (SURE)"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_find_each_other(one: str, other: str) -> None:
    assert pattern_of(one).fullmatch(other)
    assert pattern_of(other).fullmatch(one)
    assert folded(one) == folded(other)


@pytest.mark.parametrize(
    ("one", "other"), [("strase", "straße"), ("os", "ß"), ("ü", "u"), ("a", "o"), ("a.c", "abc")]
)
def test_others_do_not(one: str, other: str) -> None:
    assert not pattern_of(one).search(other)
    assert not pattern_of(other).search(one)


def test_a_database_is_asked_for_few_spellings() -> None:
    assert set(spellings("Fluss")) >= {"fluss", "fluß"}
    assert set(spellings("İstanbul")) >= {"istanbul", "İstanbul"}
    assert spellings("kettle") == ["kettle"]
    many = spellings("die Straße in Kristianssand ist an")
    assert len(many) <= MAX_SPELLINGS
    assert {"die strasse in kristianssand ist an", "die straße in kristianssand ist an"} <= set(many)


def test_one_of_several_is_found() -> None:
    pattern = any_pattern(["Straße", "a.b"])
    assert [match.group() for match in pattern.finditer("strasse A.B acb")] == ["strasse", "A.B"]
    assert isinstance(pattern, re.Pattern)
