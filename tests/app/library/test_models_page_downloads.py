"""Downloads on the models page, against a loopback hub."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QAbstractButton, QApplication
from pytestqt.qtbot import QtBot

from app.downloads.access import HubAccess
from app.library.models_page import ModelsPage
from app.settings import Settings
from engine.hub.download_record import DownloadState
from engine.library import FileState
from tests.app.library.page_parts import button_of, download_row, texts_of
from tests.engine.hub.loopback import Fault, LoopbackHub


def test_the_hub_of_the_environment_is_asked_where_none_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("engine.hub.tokens._ask_keyring", lambda ask: None)
    settings = Settings()
    monkeypatch.setenv("HF_ENDPOINT", "127.0.0.1:9")
    access = HubAccess(settings, tmp_path / "token")
    for chosen, endpoint in (("", "http://127.0.0.1:9"), ("hub.example.org", "https://hub.example.org")):
        settings.set("hub_endpoint", chosen)
        with access.client() as client:
            assert client.endpoint == endpoint


def test_find_download_and_chat(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    page.results.ask("smol")
    qtbot.waitUntil(lambda: "best version here: Q4_1" in texts_of(page))
    shown = texts_of(page)
    for expected in ("by acme · 135 M parameters · 8k context", "1.2 M downloads", "98 MB", "MB · fits", "good"):
        assert expected in shown, shown
    button_of(page, "Download: Smol Q4_1").click()
    assert "can have a context of 8k here" in shown
    path = tmp_path / "models" / "acme" / "Smol-GGUF" / "Smol-Q4_1.gguf"
    qtbot.waitUntil(lambda: "Smol-GGUF Q4_1 is here and checked." in page.notice_bar.text)
    assert path.stat().st_size == 98_362_432
    qtbot.waitUntil(lambda: not button_of(page, "Already here: Smol Q4_1").isEnabled())
    with qtbot.waitSignal(page.chat_requested) as chosen:
        button_of(page, "Chat").click()
    assert chosen.args == [path]
    qtbot.waitUntil(lambda: "Already here" in texts_of(page) and "tok/s" in texts_of(page))


def test_pause_resume_and_cancel(page: ModelsPage, hub: LoopbackHub, qtbot: QtBot, tmp_path: Path) -> None:
    hub.always["store"] = Fault(pause_s=0.02)
    page._work.get("acme/Smol-GGUF")
    qtbot.waitUntil(lambda: "of 98 MB" in texts_of(page) and "MB/s" in texts_of(page))
    button_of(page, "Pause: Smol · Q4_1").click()
    qtbot.waitUntil(lambda: "paused" in texts_of(page))
    button_of(page, "Resume: Smol · Q4_1").click()
    qtbot.waitUntil(lambda: "checked while it loads" in texts_of(page))
    button_of(page, "Cancel: Smol · Q4_1").click()
    assert "of 98 MB" not in texts_of(page)
    qtbot.waitUntil(lambda: not list((tmp_path / "models" / ".downloads").iterdir()))


def test_what_is_left_of_an_unknown_download_can_be_deleted(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    folder = tmp_path / "models" / ".downloads" / "0123456789abcdef0123"
    folder.mkdir(parents=True)
    (folder / "00000.part").write_bytes(bytes(3_000_000))
    page._work.queue.start()
    qtbot.waitUntil(lambda: "3 MB · What they belong to is no longer known" in texts_of(page))
    card = page._downloads[folder.name]
    assert [each.text() for each in card.findChildren(QAbstractButton) if each.isVisibleTo(card)] == ["Delete"]
    button_of(page, "Delete: Left over").click()
    qtbot.waitUntil(lambda: not folder.exists() and folder.name not in page._downloads)


def test_offline_says_so_and_harms_nothing(page: ModelsPage, qtbot: QtBot) -> None:
    page._work._settings.set("hub_endpoint", "http://127.0.0.1:1")
    page.results.ask("smol")
    qtbot.waitUntil(lambda: "cannot be reached" in texts_of(page))
    assert "What is on this machine works without." in texts_of(page)
    assert "Errno" not in texts_of(page)


def test_the_disk_use_follows_what_comes_and_goes(page: ModelsPage, hub: LoopbackHub, qtbot: QtBot) -> None:
    def used() -> str:
        return texts_of(page._storage)

    (page._work.library.folder / "a-Q4_0.gguf").write_bytes(bytes(7_000_000))
    page._work.library.scan()
    qtbot.waitUntil(lambda: "Models 7 MB" in used())
    hub.always["store"] = Fault(pause_s=0.02)
    page._work.get("acme/Smol-GGUF")
    qtbot.waitUntil(lambda: "of 98 MB" in texts_of(page))
    row = page._work.queue.rows[0]
    looks: list[object] = []
    page._work.disk_known.connect(looks.append)
    page._work.queue.cancel(row.id)
    qtbot.waitUntil(lambda: bool(looks))


def test_each_repair_is_a_button_that_works(
    page: ModelsPage, hub: LoopbackHub, qtbot: QtBot, tmp_path: Path, smollm2_path: Path
) -> None:
    folder = page._work.library.folder
    own = folder / "acme" / "Smol-GGUF"
    own.mkdir(parents=True)
    data = smollm2_path.read_bytes()
    (own / "Smol-Q4_1.gguf").write_bytes(data[:90_000_000])
    (folder / "gone-Q4_0.gguf").symlink_to(tmp_path / "nowhere.gguf")
    (folder / "Smol-Q8_0.gguf").write_bytes(b"<!doctype html><p>Sign in")
    page._work.library.scan()
    qtbot.waitUntil(lambda: len(page._work.library.models) == 3)
    button_of(page, "Complete it: Smol").click()
    qtbot.waitUntil(lambda: "is here and checked" in page.notice_bar.text)
    assert (own / "Smol-Q4_1.gguf").read_bytes() == data
    assert hub.num_sent < 10_000_000
    button_of(page, "Remove: gone").click()
    qtbot.waitUntil(lambda: not (folder / "gone-Q4_0.gguf").is_symlink())
    qtbot.waitUntil(lambda: len(page._work.library.models) == 2)
    button_of(page, "Find it: Smol").click()
    qtbot.waitUntil(lambda: page.results.shows("acme/Smol-GGUF"))
    assert page.results.search.text() == "Smol"


def test_damage_that_verifying_finds_is_mended(
    page: ModelsPage, qtbot: QtBot, smollm2_path: Path, hub: LoopbackHub
) -> None:
    page._work.get("acme/Smol-GGUF")
    qtbot.waitUntil(lambda: "is here and checked" in page.notice_bar.text)
    qtbot.waitUntil(lambda: len(page._work.library.models) == 1)
    (model,) = page._work.library.models
    with open(model.path, "r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([smollm2_path.read_bytes()[-1] ^ 1]))
    page._work.verify(model)
    qtbot.waitUntil(lambda: "checksum is not the right one" in page.notice_bar.text)
    qtbot.waitUntil(lambda: page._work.library.models[0].state is FileState.DAMAGED)
    row = [button.text() for button in page.local._rows.findChildren(QAbstractButton)]
    assert row == ["Get it again", ""]  # and no "Chat"
    button_of(page, "Get it again: Smol").click()
    qtbot.waitUntil(lambda: "is here and checked" in page.notice_bar.text)
    assert model.path.read_bytes() == smollm2_path.read_bytes()
    page._work.verify(model)
    qtbot.waitUntil(lambda: "all 98 MB have the right checksum" in page.notice_bar.text)


def test_the_token_is_kept(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    page._work.set_token("hf_abc")
    qtbot.waitUntil(lambda: "only you can read" in page.notice_bar.text)
    hub = page._work._settings.value("hub_endpoint")
    assert (tmp_path / "config" / "hub-token").read_text() == f"hf_abc {hub}"
    page._work.set_token("a b")
    qtbot.waitUntil(lambda: "no access token" in page.notice_bar.text)


@pytest.mark.parametrize("height", [400, 1400])
def test_a_download_that_comes_or_goes_leaves_the_list_under_the_mouse(
    page: ModelsPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, smollm2_path: Path, height: int
) -> None:
    page.resize(1000, height)
    os.symlink(smollm2_path, page._work.library.folder / "mine-Q4_1.gguf")
    page._work.library.scan()
    qtbot.waitUntil(lambda: "Begin with one of these" not in texts_of(page))
    QApplication.processEvents()
    page._scroll.show_from(page.local)
    monkeypatch.setattr(page.local, "underMouse", lambda: True)
    place = page.local.mapTo(page, QPoint(0, 0))
    for rows in ([download_row(DownloadState.RUNNING)], []):
        page._work.queue.rows = rows
        page._work.queue.changed.emit()
        assert page.local.mapTo(page, QPoint(0, 0)) == place
        QApplication.processEvents()
        assert page.local.mapTo(page, QPoint(0, 0)) == place


def test_a_double_click_begins_one_download(
    page: ModelsPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever lies under the mouse by then."""
    page.results.ask("smol")
    qtbot.waitUntil(lambda: "Download: Smol Q4_1" in _names(page))
    begun: list[str] = []
    monkeypatch.setattr(page._work.queue, "add", lambda *what, **_how: begun.append(what[3].label))
    monkeypatch.setattr(QApplication, "doubleClickInterval", lambda: 60_000)
    width = button_of(page, "Download: Smol Q4_1").width()
    button_of(page, "Download: Smol Q4_1").click()
    button_of(page, "Download: Smol Q4_1").click()
    assert begun == ["Q4_1"]
    monkeypatch.setattr(QApplication, "doubleClickInterval", lambda: 0)
    button_of(page, "Download: Smol Q4_1").click()
    assert begun == ["Q4_1", "Q4_1"]
    page.results.show_states({("acme/Smol-GGUF", "Q4_1")}, set())
    QApplication.processEvents()
    assert button_of(page, "Downloading…: Smol Q4_1").width() == width


def test_much_that_is_loaded_is_not_thrown_away_by_one_click(
    page: ModelsPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = page._work.queue
    cancelled: list[str] = []
    monkeypatch.setattr(queue, "cancel", cancelled.append)
    queue.rows = [download_row(DownloadState.PAUSED, num_received=10_400_000_000)]
    queue.changed.emit()
    button_of(page, "Cancel: Other · Q4_0").click()
    assert "Throw away 10.4 GB that is loaded?" in texts_of(page._download_part)
    button_of(page, "Keep").click()
    assert "Throw away" not in texts_of(page._download_part)
    button_of(page, "Cancel: Other · Q4_0").click()
    button_of(page, "Throw away").click()
    assert cancelled == ["d1"]
    with qtbot.waitSignal(page._work.disk_known):  # once it is deleted, and not before
        queue.cancelled.emit(queue.rows[0])
    assert page.notice_bar.text == "Other · Q4_0 was thrown away; 10.4 GB are free again."


def test_the_disk_is_looked_at_while_downloads_run(page: ModelsPage, qtbot: QtBot) -> None:
    page._work._disk_looks.setInterval(1)
    page._work.queue.rows = [download_row(DownloadState.RUNNING)]
    page._work.queue.changed.emit()
    with qtbot.waitSignals([page._work.disk_known, page._work.machine_known] * 2):
        pass
    page._work.queue.rows = [download_row(DownloadState.PAUSED)]
    page._work.queue.changed.emit()
    assert not page._work._disk_looks.isActive()


def test_an_old_message_goes_when_something_else_is_asked(page: ModelsPage, qtbot: QtBot) -> None:
    page.notice_bar.show_text("x cannot be found")
    page.results.ask("smol")
    assert page.notice_bar.isHidden()
    qtbot.waitUntil(lambda: "Download: Smol Q4_1" in _names(page))
    page.notice_bar.show_text("y was deleted")
    page._work.get("acme/Smol-GGUF")
    qtbot.waitUntil(lambda: page.notice_bar.isHidden() or "is here" in page.notice_bar.text)


def _names(page: ModelsPage) -> list[str]:
    return [button.accessibleName() for button in page.findChildren(QAbstractButton) if button.isVisibleTo(page)]
