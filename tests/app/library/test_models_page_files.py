"""Model files on the models page: their speed, import, deletion, folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import QMimeData, QUrl
from pytestqt.qtbot import QtBot

from app.library.local_card import state_text
from app.library.model_figures import ModelFigures
from app.library.models_page import ModelsPage, _dropped
from app.library.models_work import _ClosedError, person_folders
from app.widgets.label import ElidingLabel
from engine.library import FileState, FoundModel, Origin
from engine.protocol import FinishReason, RequestFinished
from tests.app.fake_engine import model_info
from tests.app.library.page_parts import button_of, stats_of, texts_of


def test_delete_asks_names_and_frees(page: ModelsPage, qtbot: QtBot) -> None:
    path = page._work.library.folder / "broken-Q4_0.gguf"
    path.write_bytes(b"x" * 2_000_000)
    page._work.library.scan()
    qtbot.waitUntil(lambda: "broken" in texts_of(page))
    assert "damaged" in [label.whole_text for label in page.local.findChildren(ElidingLabel)]
    page._ask_delete(page._work.library.models[0])
    assert page.notice_bar.text == "Delete broken Q4_0 (2 MB, 1 file)?"
    assert page.window().focusWidget() is button_of(page, "Delete")
    assert not page._scroll.isAncestorOf(page.notice_bar)  # a question is in sight wherever the page is scrolled to
    button_of(page, "Delete").click()
    qtbot.waitUntil(lambda: "2 MB are free again" in page.notice_bar.text)
    assert not path.exists()


def test_deleting_one_name_of_a_file_claims_no_room(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "kept.gguf").write_bytes(b"x" * 2_000_000)
    os.link(tmp_path / "kept.gguf", page._work.library.folder / "twice-Q4_0.gguf")
    page._work.library.scan()
    qtbot.waitUntil(lambda: "twice" in texts_of(page))
    page._ask_delete(page._work.library.models[0])
    button_of(page, "Delete").click()
    qtbot.waitUntil(lambda: "nothing is freed" in page.notice_bar.text)
    assert (tmp_path / "kept.gguf").exists()


def test_import_verify_and_add_a_folder(page: ModelsPage, qtbot: QtBot, tmp_path: Path, smollm2_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.symlink(smollm2_path, other / "Other-Q4_1.gguf")
    page._work.add_folder(other)
    qtbot.waitUntil(lambda: any(model.name == "Other" for model in page._work.library.models))
    page._work.import_files([other / "Other-Q4_1.gguf"], "link")
    qtbot.waitUntil(lambda: "is in the models folder now" in page.notice_bar.text)
    qtbot.waitUntil(lambda: "Fireside" in {m.origin.value for m in page._work.library.models})
    page._work.verify(page._work.library.models[0])
    qtbot.waitUntil(lambda: "sound header" in page.notice_bar.text)


def test_long_work_says_how_far_it_is_and_ends_with_the_program(page: ModelsPage, qtbot: QtBot) -> None:
    work = page._work
    said: list[str] = []
    work.notice.connect(said.append)
    report = work._progress("Reading all of x…")
    for done in (1, 35, 36, 90, 100):
        report(done, 100)
    qtbot.waitUntil(lambda: len(said) == 3)
    assert said == ["Reading all of x…", "Reading all of x… 30 %", "Reading all of x… 90 %"]
    work._is_closed = True
    with pytest.raises(_ClosedError):
        report(50, 100)
    work._is_closed = False


def test_a_measured_speed_replaces_the_estimate(page: ModelsPage, qtbot: QtBot, smollm2_path: Path) -> None:

    from engine.library import describe

    figures, model = page._work.figures, describe(smollm2_path)
    with qtbot.waitSignal(figures.changed):
        figures.estimate([model], smollm2_path.parent)
    assert re.fullmatch(r"about \d+ tok/s · 4\d\d MB memory", figures.text_of(model))
    assert "Measured" not in figures.details_of(model)
    resident = psutil.Process().memory_info().rss
    page._work._session.info = replace(model_info(smollm2_path), memory_before_bytes=resident - 500_000_000)
    stats = stats_of(num_tokens=100, generation_ms=2000.0)
    with qtbot.waitSignal(figures.changed):
        page._work.take_finished(RequestFinished("r", FinishReason.STOP, stats))
    speed, memory = figures.text_of(model).split(" · ")
    assert speed == "50 tok/s measured"
    assert (
        float(memory.removesuffix(" MB memory")) > 600
    )  # what the process has grown by, and the rest of a context
    assert re.search(r"Measured: \d+ MB memory, where 2\d\d MB was estimated", figures.details_of(model))
    with qtbot.waitSignal(figures.changed):
        page._work.take_finished(RequestFinished("r", FinishReason.STOP, stats))
    assert figures.text_of(model).endswith(memory)  # once a load


def test_a_measured_speed_outlasts_the_program(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "models" / "m.gguf"
    with qtbot.waitSignal(page._work.figures.changed):
        page._work.figures.take_stats(model_info(path), stats_of(num_tokens=100, generation_ms=2000.0))
    again = ModelFigures(lambda work, on_done: on_done(work()), tmp_path / "data" / "measured-speeds.json")
    model = FoundModel(path, "m", Origin.OWN)
    again.estimate([model], tmp_path)
    assert again.text_of(model) == "50 tok/s measured"


def test_the_kernels_are_measured_again_while_nobody_needs_the_processor(
    page: ModelsPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, smollm2_path: Path
) -> None:
    work = page._work
    is_busy, went_on = [True], []

    def measure(may_go_on: Callable[[], bool]) -> None:
        went_on.append(may_go_on())
        is_busy[0] = True  # a question comes
        went_on.append(may_go_on())

    monkeypatch.setattr("engine.advisor.needs_measuring", lambda: True)
    monkeypatch.setattr("engine.advisor.measure_speeds", measure)
    monkeypatch.setattr(work, "_is_engine_busy", lambda: is_busy[0])
    with qtbot.waitSignal(work.disk_known):
        work._looks.timeout.emit()
        work._changed()  # behind it in the runner
    assert went_on == []
    is_busy[0] = False
    work._looks.timeout.emit()
    qtbot.waitUntil(lambda: went_on == [True, False])  # earlier looks may tell of the machine meanwhile
    is_busy[0], work._session.loading_path = False, smollm2_path
    assert not work._is_processor_free()


def test_a_folder_that_is_gone_can_be_taken_off_the_list(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    away, here = tmp_path / "away", tmp_path / "here"
    here.mkdir()
    page._work.add_folder(here)
    page._work.add_folder(away)
    qtbot.waitUntil(lambda: page._work.library.person_folders == {here: True, away: False})
    assert "cannot be reached" in [label.whole_text for label in page.local.findChildren(ElidingLabel)]
    button_of(page, f"Remove {away} from the list").click()
    qtbot.waitUntil(lambda: page._work.library.person_folders == {here: True})
    assert person_folders(page._work._settings) == [here]


def test_the_models_folder_moves(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    (page._work.library.folder / "a.gguf").write_bytes(b"x")
    page._work.move_folder(tmp_path / "elsewhere")
    qtbot.waitUntil(lambda: page._work.library.folder == tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "a.gguf").exists()


def test_a_set_with_holes_says_how_much_is_here(tmp_path: Path) -> None:
    path = tmp_path / "m-Q4_0-00001-of-00003.gguf"
    paths = (path, tmp_path / "m-Q4_0-00003-of-00003.gguf")
    assert (
        state_text(FoundModel(path, "m", Origin.OWN, paths=paths, state=FileState.MISSING))
        == "2 of 3 files are here"
    )
    assert state_text(FoundModel(path, "m", Origin.OWN, paths=paths[:1], state=FileState.DAMAGED)) == "damaged"


def test_only_model_files_can_be_dropped() -> None:
    class Drop:
        def mimeData(self) -> QMimeData:
            data = QMimeData()
            data.setUrls([QUrl.fromLocalFile(name) for name in ("/a/m.gguf", "/a/m.txt")])
            return data

    assert _dropped(Drop()) == [Path("/a/m.gguf")]  # type: ignore[arg-type]


def test_the_loaded_model_can_be_ejected_and_deleted(page: ModelsPage, qtbot: QtBot) -> None:
    path = page._work.library.folder / "mine-Q4_0.gguf"
    path.write_bytes(b"x" * 2_000_000)
    page._work.library.scan()
    qtbot.waitUntil(lambda: len(page._work.library.models) == 1)
    page._work._session.info = model_info(path)
    page._ask_delete(page._work.library.models[0])
    assert page.notice_bar.text == "mine is loaded: eject and delete it (2 MB)?"
    button_of(page, "Eject and delete").click()
    assert path.exists()  # until it is out of memory
    page._work._session.ejected.emit()
    qtbot.waitUntil(lambda: not path.exists())


def test_deleting_a_link_says_that_only_the_link_goes(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    target = tmp_path / "away.gguf"
    target.write_bytes(b"x" * 2_000_000)
    (page._work.library.folder / "mine-Q4_0.gguf").symlink_to(target)
    page._work.library.scan()
    qtbot.waitUntil(lambda: len(page._work.library.models) == 1)
    page._ask_delete(page._work.library.models[0])
    assert page.notice_bar.text == "Remove the link mine-Q4_0.gguf? The file it leads to stays."
    page.notice_bar._action_button.click()
    qtbot.waitUntil(lambda: page._work.library.models == [])
    assert target.exists()
