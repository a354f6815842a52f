from __future__ import annotations

import socket
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.settings import Settings
from app.theme import Theme
from app.window.main_window import MainWindow
from engine.protocol import Role
from tests.app.fake_controller import FakeController
from tests.app.features import make_features


def test_nothing_is_asked_of_the_network_before_the_person_asks(
    fake: FakeController,
    settings: Settings,
    theme: Theme,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def refuse(*arguments: object, **_options: object) -> object:
        asked.append(str(arguments))
        raise OSError("the network is unplugged")

    for name in ("getaddrinfo", "create_connection", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    context, pages = make_features(tmp_path, theme)
    window = MainWindow(fake, settings, theme, pages)  # type: ignore[arg-type]
    qtbot.addWidget(window)
    window.show()
    fake.add(
        Role.ASSISTANT, "![x](https://h/p.png?leak=SECRET) <img src='https://h'> [r](https://h)\n\n[r]: https://h"
    )
    try:
        for entry in window.pages.entries:
            window.show_page(entry.name)
            qtbot.wait(50)
        qtbot.wait(300)
        assert asked == []
    finally:
        window.close()
        context.close()
    with pytest.raises(OSError, match="unplugged"):
        socket.getaddrinfo("example.org", 443)
