from __future__ import annotations

import re
from pathlib import Path

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from app.settings import Settings
from app.theme import DARK, LIGHT, Theme, apply_theme, pixmap
from app.theme.icons import ICONS, icon
from app.theme.stylesheet import build_stylesheet

APP = Path(__file__).resolve().parents[3] / "app"


def test_the_theme_can_be_forced(settings: Settings, theme: Theme, qapp: QApplication) -> None:
    settings.set("theme", "dark")
    assert theme.palette is DARK
    assert DARK.background in qapp.styleSheet()
    settings.set("theme", "light")
    assert theme.palette is LIGHT
    assert qapp.palette().window().color().name().upper() == LIGHT.background


def test_a_change_is_told(settings: Settings, theme: Theme, qtbot: QtBot) -> None:
    with qtbot.waitSignal(theme.changed):
        settings.set("theme", "dark")


def test_zoom_scales_lengths_and_letters(settings: Settings, theme: Theme) -> None:
    normal, letters = theme.px(100), theme.font().pixelSize()
    theme.zoom_in()
    assert settings.value("zoom") == 1.1
    settings.set("zoom", 2.0)
    assert theme.px(100) == 2 * normal
    assert theme.font().pixelSize() == 2 * letters
    theme.zoom_out()
    assert theme.zoom == 1.75
    theme.zoom_reset()
    assert theme.px(100) == normal


def test_zoom_has_ends(settings: Settings, theme: Theme) -> None:
    for _ in range(20):
        theme.zoom_in()
    assert theme.zoom == 2.0
    for _ in range(20):
        theme.zoom_out()
    assert theme.zoom == 0.8


def test_the_application_is_dressed_once(theme: Theme, settings: Settings, qapp: QApplication) -> None:
    assert apply_theme(qapp, settings) is theme


def test_the_stylesheet_holds_only_colours_of_the_palette() -> None:
    sheet = build_stylesheet(DARK, round)
    colours = set(re.findall(r"#[0-9A-Fa-f]{6}\b", sheet))
    assert colours <= {value for value in vars(DARK).values() if isinstance(value, str)}
    assert sheet.count("{") == sheet.count("}")


def test_the_stylesheet_has_no_error_that_qt_reports(theme: Theme, qtbot: QtBot) -> None:
    label = QLabel("text")
    label.setProperty("look", "muted")
    qtbot.addWidget(label)
    label.show()
    assert label.palette().windowText().color().name().upper() == LIGHT.muted


@pytest.mark.parametrize("path", sorted(ICONS.glob("*.svg")), ids=lambda path: path.stem)
def test_icons_are_drawn_in_the_colour_asked_for(path: Path, qapp: QApplication) -> None:
    image = pixmap(path.stem, "#A34818", 24, 2.0).toImage()
    assert (image.width(), image.height()) == (48, 48)
    colours = [image.pixelColor(x, y) for x in range(48) for y in range(48)]
    seen = {colour.name().upper() for colour in colours if colour.alpha() == 255}
    assert "#A34818" in seen or path.stem == "fireside"


@pytest.mark.parametrize("ratio", [1.0, 1.25, 1.5, 2.0])
def test_icons_are_drawn_for_the_screens_pixels(ratio: float, qapp: QApplication) -> None:
    shown = icon("sliders", "#A34818", 16).pixmap(QSize(16, 16), ratio)
    assert (shown.width(), shown.devicePixelRatio()) == (16 * ratio, ratio)
    assert shown.toImage() == pixmap("sliders", "#A34818", 16, ratio).toImage(), "drawn so, not stretched"


def test_every_icon_that_the_app_names_exists_and_is_used() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in APP.rglob("*.py"))
    unused = {path.stem for path in ICONS.glob("*.svg") if f'"{path.stem}"' not in source} - {"fireside"}
    assert unused == set()
    with pytest.raises(FileNotFoundError):
        pixmap("nothing-of-this-name", "#000000", 16)
