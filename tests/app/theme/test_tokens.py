from __future__ import annotations

import re
from dataclasses import fields

import pytest

from app.theme import DARK, LIGHT, TEXT_SURFACES, Palette, contrast_ratio

PAIRS = [
    (palette, text, surface)
    for palette in (LIGHT, DARK)
    for text, surfaces in TEXT_SURFACES.items()
    for surface in surfaces
]


@pytest.mark.parametrize(("palette", "text", "surface"), PAIRS)
def test_every_text_can_be_read_on_every_surface_it_stands_on(palette: Palette, text: str, surface: str) -> None:
    assert contrast_ratio(getattr(palette, text), getattr(palette, surface)) >= 4.5


def test_contrast_is_that_of_the_definition() -> None:
    assert contrast_ratio("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast_ratio("#777777", "#777777") == pytest.approx(1)
    assert contrast_ratio("#FFFFFF", "#767676") == pytest.approx(4.54, abs=0.01)


def test_both_palettes_give_a_colour_to_every_role() -> None:
    for palette in (LIGHT, DARK):
        for field in fields(palette):
            if field.name != "is_dark":
                assert re.fullmatch(r"#[0-9A-F]{6}", getattr(palette, field.name)), field.name


def test_the_table_names_only_colours_that_exist() -> None:
    names = {field.name for field in fields(LIGHT)}
    assert set(TEXT_SURFACES) <= names
    assert {surface for surfaces in TEXT_SURFACES.values() for surface in surfaces} <= names
