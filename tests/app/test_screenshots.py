from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.theme import DARK, LIGHT
from tests.app.take_screenshots import SIZE, pictures


def test_pictures_are_made_of_every_page(qapp: QApplication, tmp_path: Path) -> None:
    seen = {}
    for name, window in pictures(tmp_path, zooms=(1.0,)):
        image = window.grab().toImage()
        assert (image.width(), image.height()) == SIZE
        colours = {image.pixelColor(x, y).name().upper() for x in range(300, 1280, 40) for y in range(20, 820, 40)}
        assert (DARK if "dark" in name else LIGHT).background in colours, name
        seen[name] = image
    for name in ("chat-light", "chat-dark"):
        code = [seen[name].pixelColor(x, y).hsvSaturation() for x in range(400, 900) for y in range(325, 430)]
        assert max(code) > 100, "all messages are there, and the words of code have their colours"
    assert {"chat-light", "chat-dark", "settings-light", "trash-dark", "extraction-light"} <= set(seen)
    assert len({image.constBits().tobytes() for image in seen.values()}) == len(seen), "each shows something else"
