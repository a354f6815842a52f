"""The models page as a person uses it, against a loopback hub."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.downloads.access import HubAccess
from app.downloads.download_card import time_left
from app.downloads.queue import DownloadQueue
from app.library.hub_card import card_text, count_text
from app.library.hub_search import HubSearch
from app.library.library import ModelLibrary
from app.library.local_card import state_text
from app.library.model_figures import ModelFigures
from app.library.models_page import ModelsPage, _dropped
from app.library.models_work import ModelsWork, _ClosedError, person_folders
from app.library.search_wish import SearchWish, size_class
from app.library.starters import starter_offers
from app.library.words import context_text, time_text
from app.model_session import ModelSession
from app.paths import AppPaths
from app.settings import Settings
from app.theme import Theme
from app.widgets.buttons import ChoiceButton
from app.widgets.label import ElidingLabel, Label
from engine.advisor.speeds import guessed_speeds
from engine.hub.download_item import DownloadRow
from engine.hub.download_record import DownloadState
from engine.library import FileState, FoundModel, Origin, Place
from engine.protocol import FinishReason, RequestFinished, RequestStats
from tests.app.fake_engine import FakeEngine, model_info
from tests.engine.hub.loopback import Fault, LoopbackHub, loopback_hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, smollm2_path: Path) -> Iterator[LoopbackHub]:
    monkeypatch.setattr("engine.hub.tokens._ask_keyring", lambda ask: None)
    guess = guessed_speeds(2)
    monkeypatch.setattr("engine.advisor.known_speeds", lambda: guess)
    monkeypatch.setattr("engine.advisor.needs_measuring", lambda: False)
    with loopback_hub() as running:
        running.add(
            "acme/Smol-GGUF",
            {"Smol-Q4_1.gguf": smollm2_path.read_bytes(), "README.md": b"---\nx: y\n---\n# Smol\nSmall."},
            gguf={"total": 134_515_008, "architecture": "llama", "context_length": 8192},
            downloads=1_234_567,
        )
        yield running


@pytest.fixture
def page(hub: LoopbackHub, qtbot: QtBot, tmp_path: Path, theme: Theme) -> Iterator[ModelsPage]:
    from app.engine_client import EngineClient

    paths = AppPaths.below(tmp_path)
    paths.models.mkdir(parents=True)
    settings = Settings()
    settings.set("hub_endpoint", hub.url)
    client = EngineClient(FakeEngine)
    session = ModelSession(client, settings, paths.loading_marker, paths.models)
    library = ModelLibrary(paths.models, lambda: person_folders(settings), find_places=_only_person)
    access = HubAccess(settings, paths.config / "hub-token")
    queue, search = DownloadQueue(paths.models, access), HubSearch(access, paths.models)
    work = ModelsWork(paths, settings, library, session, queue, search, access)
    page = ModelsPage(work, theme)
    qtbot.addWidget(page)
    page.resize(1000, 800)
    page.show()
    yield page
    work.close()
    library.close()
    client.close()


def _only_person(folders: list[Path]) -> list[Place]:
    return [Place(Origin.PERSON, folder) for folder in folders]


def _button(page: ModelsPage, name: str) -> QAbstractButton:
    found = [each for each in page.findChildren(QAbstractButton) if name in (each.accessibleName(), each.text())]
    assert found, f"{name!r} is none of {[b.accessibleName() for b in page.findChildren(QAbstractButton)]}"
    return found[-1]


def _stats(num_tokens: int, generation_ms: float) -> RequestStats:
    return RequestStats(
        num_prompt_tokens=50, num_reused_tokens=0, num_completion_tokens=num_tokens, prompt_ms=100.0,
        first_token_ms=1.0, generation_ms=generation_ms, tokens_per_second=50.0, seed=1,
    )  # fmt: skip


def _download_row(state: DownloadState, num_received: int = 0, message: str = "") -> DownloadRow:
    return DownloadRow("d1", "acme/Other-GGUF", "Q4_0", state, num_received, 20_000_000_000, 0.0, None, message, ())


def _texts(page: QWidget) -> str:
    from PySide6.QtWidgets import QLabel

    return "\n".join(label.text() for label in page.findChildren(QLabel) if label.isVisibleTo(page))


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


def test_the_address_of_a_page_finds_its_model(page: ModelsPage, qtbot: QtBot, hub: LoopbackHub) -> None:
    hub.add("acme/Smol-other-GGUF", {}, gguf={"architecture": "llama"}, downloads=9)
    page.results.ask(f"{hub.url}/acme/Smol-GGUF/tree/main?show=all")
    qtbot.waitUntil(lambda: "best version here: Q4_1" in _texts(page))
    assert "other" not in _texts(page)


def test_find_download_and_chat(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    page.results.ask("smol")
    qtbot.waitUntil(lambda: "best version here: Q4_1" in _texts(page))
    shown = _texts(page)
    for expected in ("by acme · 135 M parameters · 8k context", "1.2 M downloads", "98 MB", "MB · fits", "good"):
        assert expected in shown, shown
    _button(page, "Download: Smol Q4_1").click()
    assert "can have a context of 8k here" in shown
    path = tmp_path / "models" / "acme" / "Smol-GGUF" / "Smol-Q4_1.gguf"
    qtbot.waitUntil(lambda: "Smol-GGUF Q4_1 is here and checked." in page.notice_bar.text)
    assert path.stat().st_size == 98_362_432
    qtbot.waitUntil(lambda: not _button(page, "Already here: Smol Q4_1").isEnabled())
    with qtbot.waitSignal(page.chat_requested) as chosen:
        _button(page, "Chat").click()
    assert chosen.args == [path]
    qtbot.waitUntil(lambda: "Already here" in _texts(page) and "tok/s" in _texts(page))


def test_the_page_begins_in_the_search_field(page: ModelsPage) -> None:
    assert page.first_focus is page.results.search
    assert page.focusProxy() is None  # one would take the way back out of the order of Tab


def test_order_and_filters_ask_again(page: ModelsPage, hub: LoopbackHub, qtbot: QtBot) -> None:
    facts = {"total": 70 * 10**9, "architecture": "llama"}
    hub.add("acme/Smol-large-70B-GGUF", {}, downloads=2_000_000, gguf=facts)
    hub.add("zeta/Smol-alien", {}, gguf={"total": 10**6, "architecture": "unheard-of"}, gated="auto")
    controls = page.results.controls

    def shown() -> list[str]:
        return list(page.results._cards)

    def choose(name: str, words: str) -> None:
        button = next(each for each in controls.findChildren(ChoiceButton) if each._name == name)
        next(action for action in button.make_menu().actions() if action.text() == words).trigger()

    choose("Order", "Most downloads")
    assert hub.log == []  # nothing is asked before the person searches
    page.results.ask("smol")
    qtbot.waitUntil(lambda: shown() == ["acme/Smol-large-70B-GGUF", "acme/Smol-GGUF"])
    choose("Architecture", "Any architecture")
    qtbot.waitUntil(lambda: len(shown()) == 3)
    choose("Size", "Fits this machine")
    qtbot.waitUntil(lambda: shown() == ["acme/Smol-GGUF", "zeta/Smol-alien"])
    choose("Licence", "No terms to accept")
    qtbot.waitUntil(lambda: shown() == ["acme/Smol-GGUF"])
    choose("Size", "8 to 20 B parameters")
    qtbot.waitUntil(lambda: "fewer filters" in _texts(page))
    controls.set_wish(SearchWish())
    controls.set_author("zeta")
    qtbot.waitUntil(lambda: "fewer filters" in _texts(page) and shown() == [])
    assert [request.path for request in hub.log].count("/api/models") >= 6


def test_each_range_of_sizes_has_bounds(tmp_path: Path) -> None:
    bounds = {}
    for size in ("", "small", "medium", "large", "huge"):
        wanted = SearchWish(size=size).filter(tmp_path)
        bounds[size] = (wanted.min_parameters, wanted.max_parameters)
    billion = 10**9
    assert bounds == {
        "": (0, 0), "small": (0, 2 * billion), "medium": (2 * billion, 8 * billion),
        "large": (8 * billion, 20 * billion), "huge": (20 * billion, 0),
    }  # fmt: skip
    assert SearchWish(size="fits").filter(tmp_path).max_parameters > 0
    assert SearchWish(license="open").filter(tmp_path).is_open_only
    assert SearchWish(license="mit").filter(tmp_path).license == "mit"


def test_pause_resume_and_cancel(page: ModelsPage, hub: LoopbackHub, qtbot: QtBot, tmp_path: Path) -> None:
    hub.always["store"] = Fault(pause_s=0.02)
    page._work.get("acme/Smol-GGUF")
    qtbot.waitUntil(lambda: "of 98 MB" in _texts(page) and "MB/s" in _texts(page))
    _button(page, "Pause: Smol · Q4_1").click()
    qtbot.waitUntil(lambda: "paused" in _texts(page))
    _button(page, "Resume: Smol · Q4_1").click()
    qtbot.waitUntil(lambda: "checked while it loads" in _texts(page))
    _button(page, "Cancel: Smol · Q4_1").click()
    assert "of 98 MB" not in _texts(page)
    qtbot.waitUntil(lambda: not list((tmp_path / "models" / ".downloads").iterdir()))


def test_tab_goes_from_the_top_down(page: ModelsPage, qtbot: QtBot, smollm2_path: Path) -> None:
    """The results stand above the library, which was made before them."""
    os.symlink(smollm2_path, page._work.library.folder / "mine-Q4_1.gguf")
    page._work.library.scan()
    qtbot.waitUntil(lambda: "mine" in _texts(page))
    page.activateWindow()
    page.results.ask("smol")
    download = "Download: Smol Q4_1"
    qtbot.waitUntil(lambda: download in _names(page))
    wanted = ["Author", download, "About this model", "More by acme", "Its page at the hub", "Add a file…",
              "Add a folder…", "Chat with mine", "More for mine", "Access token…"]  # fmt: skip

    def visited() -> list[str]:
        page.first_focus.setFocus()
        names = []
        for _ in range(15):
            QTest.keyClick(page.window().focusWidget(), Qt.Key.Key_Tab)
            names.append(_name(page.window().focusWidget()))
        return [name for name in names if name in wanted]

    qtbot.waitUntil(lambda: visited() == wanted)  # the order follows when the results have their places


def _name(widget: QWidget) -> str:
    return widget.accessibleName() or (widget.text() if isinstance(widget, QAbstractButton) else "")


def _names(page: ModelsPage) -> list[str]:
    return [button.accessibleName() for button in page.findChildren(QAbstractButton) if button.isVisibleTo(page)]


def test_what_is_left_of_an_unknown_download_can_be_deleted(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    folder = tmp_path / "models" / ".downloads" / "0123456789abcdef0123"
    folder.mkdir(parents=True)
    (folder / "00000.part").write_bytes(bytes(3_000_000))
    page._work.queue.start()
    qtbot.waitUntil(lambda: "3 MB · What they belong to is no longer known" in _texts(page))
    card = page._downloads[folder.name]
    assert [each.text() for each in card.findChildren(QAbstractButton) if each.isVisibleTo(card)] == ["Delete"]
    _button(page, "Delete: Left over").click()
    qtbot.waitUntil(lambda: not folder.exists() and folder.name not in page._downloads)


def test_offline_says_so_and_harms_nothing(page: ModelsPage, qtbot: QtBot) -> None:
    page._work._settings.set("hub_endpoint", "http://127.0.0.1:1")
    page.results.ask("smol")
    qtbot.waitUntil(lambda: "cannot be reached" in _texts(page))
    assert "What is on this machine works without." in _texts(page)
    assert "Errno" not in _texts(page)


def test_the_bar_leads_to_each_part(page: ModelsPage, hub: LoopbackHub, qtbot: QtBot) -> None:
    bar = page._scroll.verticalScrollBar()
    assert _button(page, "Downloads (0)").isHidden()
    page.resize(900, 300)
    page.results.ask("smol")
    hub.always["store"] = Fault(pause_s=0.02)
    page._work.get("acme/Smol-GGUF")
    qtbot.waitUntil(lambda: "of 98 MB" in _texts(page))
    qtbot.waitUntil(lambda: bar.maximum() > 300)
    for name, part in (("On this machine", page.local), ("Downloads (1)", page._download_part)):
        _button(page, name).click()
        top = part.mapTo(page._scroll.viewport(), part.rect().topLeft()).y()
        assert top == page._theme.px(20) or bar.value() == bar.maximum()
        assert bar.value() > 0
    _button(page, "Find").click()
    assert (bar.value(), page.first_focus.hasFocus(), page.results.search.selectedText()) == (0, True, "smol")


def test_the_disk_use_follows_what_comes_and_goes(page: ModelsPage, hub: LoopbackHub, qtbot: QtBot) -> None:
    def used() -> str:
        return _texts(page._storage)

    (page._work.library.folder / "a-Q4_0.gguf").write_bytes(bytes(7_000_000))
    page._work.library.scan()
    qtbot.waitUntil(lambda: "Models 7 MB" in used())
    hub.always["store"] = Fault(pause_s=0.02)
    page._work.get("acme/Smol-GGUF")
    qtbot.waitUntil(lambda: "of 98 MB" in _texts(page))
    row = page._work.queue.rows[0]
    looks: list[object] = []
    page._work.disk_known.connect(looks.append)
    page._work.queue.cancel(row.id)
    qtbot.waitUntil(lambda: bool(looks))


def test_the_starter_is_offered_while_there_is_nothing(page: ModelsPage, qtbot: QtBot, smollm2_path: Path) -> None:
    assert "Begin with one of these" in _texts(page)
    os.symlink(smollm2_path, page._work.library.folder / "mine-Q4_1.gguf")
    page._work.library.scan()
    qtbot.waitUntil(lambda: "Begin with one of these" not in _texts(page))


def test_starters_follow_the_memory() -> None:
    assert [offer.name for offer in starter_offers(8 * 10**9)] == ["Qwen3 4B", "SmolLM2 135M Instruct"]
    assert next(offer.name for offer in starter_offers(64 * 10**9)) == "Qwen3 14B"
    assert [offer.is_tiny for offer in starter_offers(10**8)] == [True]
    assert starter_offers(10**9, Path("/nonexistent")) == []


def test_delete_asks_names_and_frees(page: ModelsPage, qtbot: QtBot) -> None:
    path = page._work.library.folder / "broken-Q4_0.gguf"
    path.write_bytes(b"x" * 2_000_000)
    page._work.library.scan()
    qtbot.waitUntil(lambda: "broken" in _texts(page))
    assert "damaged" in [label.whole_text for label in page.local.findChildren(ElidingLabel)]
    page._ask_delete(page._work.library.models[0])
    assert page.notice_bar.text == "Delete broken Q4_0 (2 MB, 1 file)?"
    assert page.window().focusWidget() is _button(page, "Delete")
    assert not page._scroll.isAncestorOf(page.notice_bar)  # a question is in sight wherever the page is scrolled to
    _button(page, "Delete").click()
    qtbot.waitUntil(lambda: "2 MB are free again" in page.notice_bar.text)
    assert not path.exists()


def test_deleting_one_name_of_a_file_claims_no_room(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "kept.gguf").write_bytes(b"x" * 2_000_000)
    os.link(tmp_path / "kept.gguf", page._work.library.folder / "twice-Q4_0.gguf")
    page._work.library.scan()
    qtbot.waitUntil(lambda: "twice" in _texts(page))
    page._ask_delete(page._work.library.models[0])
    _button(page, "Delete").click()
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
    stats = _stats(num_tokens=100, generation_ms=2000.0)
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
        page._work.figures.take_stats(model_info(path), _stats(num_tokens=100, generation_ms=2000.0))
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
    _button(page, "Complete it: Smol").click()
    qtbot.waitUntil(lambda: "is here and checked" in page.notice_bar.text)
    assert (own / "Smol-Q4_1.gguf").read_bytes() == data
    assert hub.num_sent < 10_000_000
    _button(page, "Remove: gone").click()
    qtbot.waitUntil(lambda: not (folder / "gone-Q4_0.gguf").is_symlink())
    qtbot.waitUntil(lambda: len(page._work.library.models) == 2)
    _button(page, "Find it: Smol").click()
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
    _button(page, "Get it again: Smol").click()
    qtbot.waitUntil(lambda: "is here and checked" in page.notice_bar.text)
    assert model.path.read_bytes() == smollm2_path.read_bytes()
    page._work.verify(model)
    qtbot.waitUntil(lambda: "all 98 MB have the right checksum" in page.notice_bar.text)


def test_a_folder_that_is_gone_can_be_taken_off_the_list(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    away, here = tmp_path / "away", tmp_path / "here"
    here.mkdir()
    page._work.add_folder(here)
    page._work.add_folder(away)
    qtbot.waitUntil(lambda: page._work.library.person_folders == {here: True, away: False})
    assert "cannot be reached" in [label.whole_text for label in page.local.findChildren(ElidingLabel)]
    _button(page, f"Remove {away} from the list").click()
    qtbot.waitUntil(lambda: page._work.library.person_folders == {here: True})
    assert person_folders(page._work._settings) == [here]


def test_the_token_is_kept(page: ModelsPage, qtbot: QtBot, tmp_path: Path) -> None:
    page._work.set_token("hf_abc")
    qtbot.waitUntil(lambda: "only you can read" in page.notice_bar.text)
    hub = page._work._settings.value("hub_endpoint")
    assert (tmp_path / "config" / "hub-token").read_text() == f"hf_abc {hub}"
    page._work.set_token("a b")
    qtbot.waitUntil(lambda: "no access token" in page.notice_bar.text)


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


def test_words() -> None:
    assert [count_text(number) for number in (7, 1500, 4_000_000_000)] == ["7", "1.5 k", "4.0 B"]
    assert [time_left(seconds) for seconds in (5, 84, 7260)] == ["5 s left", "1 min 24 s left", "2 h 1 min left"]
    assert card_text("---\nlicense: mit\n---\n# Title\n<img src=x>\n![p](u)\nText") == "Title\nText"


@pytest.mark.parametrize(("width", "zoom"), [(1064, 1.25), (760, 1.0), (752, 2.0), (500, 2.0)])
def test_nothing_is_cut_off_at_any_width(
    page: ModelsPage, qtbot: QtBot, hub: LoopbackHub, width: int, zoom: float
) -> None:
    """Whatever the page was before; it cannot be scrolled to the side."""
    content = hub.blobs[next(iter(hub.repositories["acme/Smol-GGUF"]["hashes"].values()))]
    names = ["Smol-with-a-name-as-long-as-some-are-Q4_1.gguf", "Smol-with-another-name-as-long-as-that-Q4_1.gguf"]
    hub.add("acme/Long-smol-GGUF", dict.fromkeys(names, content), gguf={"architecture": "llama"})
    page.results.ask("smol")
    qtbot.waitUntil(lambda: "Versions of Long smol" in _names(page))
    _button(page, "Versions of Long smol").click()
    qtbot.waitUntil(lambda: f"Download: Long smol {names[0].removesuffix('.gguf')}" in _names(page))
    qtbot.waitUntil(lambda: "Download: Smol Q4_1" in _names(page))
    qtbot.waitUntil(lambda: "Download: Smol Q4_1" in _names(page))
    page._work.queue.rows = [_download_row(DownloadState.FAILED, message="/a/name/without/a/place/to/break/it" * 4)]
    page._work.queue.changed.emit()
    page._theme._settings.set("zoom", zoom)
    page.resize(width, 700)

    def cut() -> list[str]:
        buttons = [each for each in page.findChildren(QAbstractButton) if each.isVisible()]
        rights = {each.accessibleName(): each.mapTo(page, each.rect().topRight()).x() for each in buttons}
        assert any(name.startswith("Try again") for name in rights)
        titles = [each for each in page.findChildren(ElidingLabel) if each.isVisible() and each.whole_text]
        assert all(each.text() for each in titles), [each.whole_text for each in titles if not each.text()]
        lacking = [each.accessibleName() for each in buttons if each.width() < each.minimumSizeHint().width()]
        return [name for name, right in rights.items() if right >= width] + lacking

    try:
        qtbot.waitUntil(lambda: cut() == [])
        assert page.width() == width
        facts = "\n".join(label.text() for label in page.results.findChildren(Label) if label.isVisible())
        assert re.search(r"98 MB[^£]*good", facts)  # what decides is said in each form
    finally:
        page._theme._settings.set("zoom", 1.0)


@pytest.mark.parametrize("height", [400, 1400])
def test_a_download_that_comes_or_goes_leaves_the_list_under_the_mouse(
    page: ModelsPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, smollm2_path: Path, height: int
) -> None:
    page.resize(1000, height)
    os.symlink(smollm2_path, page._work.library.folder / "mine-Q4_1.gguf")
    page._work.library.scan()
    qtbot.waitUntil(lambda: "Begin with one of these" not in _texts(page))
    QApplication.processEvents()
    page._scroll.show_from(page.local)
    monkeypatch.setattr(page.local, "underMouse", lambda: True)
    place = page.local.mapTo(page, QPoint(0, 0))
    for rows in ([_download_row(DownloadState.RUNNING)], []):
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
    width = _button(page, "Download: Smol Q4_1").width()
    _button(page, "Download: Smol Q4_1").click()
    _button(page, "Download: Smol Q4_1").click()
    assert begun == ["Q4_1"]
    monkeypatch.setattr(QApplication, "doubleClickInterval", lambda: 0)
    _button(page, "Download: Smol Q4_1").click()
    assert begun == ["Q4_1", "Q4_1"]
    page.results.show_states({("acme/Smol-GGUF", "Q4_1")}, set())
    QApplication.processEvents()
    assert _button(page, "Downloading…: Smol Q4_1").width() == width


def test_much_that_is_loaded_is_not_thrown_away_by_one_click(
    page: ModelsPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = page._work.queue
    cancelled: list[str] = []
    monkeypatch.setattr(queue, "cancel", cancelled.append)
    queue.rows = [_download_row(DownloadState.PAUSED, num_received=10_400_000_000)]
    queue.changed.emit()
    _button(page, "Cancel: Other · Q4_0").click()
    assert "Throw away 10.4 GB that is loaded?" in _texts(page._download_part)
    _button(page, "Keep").click()
    assert "Throw away" not in _texts(page._download_part)
    _button(page, "Cancel: Other · Q4_0").click()
    _button(page, "Throw away").click()
    assert cancelled == ["d1"]
    with qtbot.waitSignal(page._work.disk_known):  # once it is deleted, and not before
        queue.cancelled.emit(queue.rows[0])
    assert page.notice_bar.text == "Other · Q4_0 was thrown away; 10.4 GB are free again."


def test_the_disk_is_looked_at_while_downloads_run(page: ModelsPage, qtbot: QtBot) -> None:
    page._work._disk_looks.setInterval(1)
    page._work.queue.rows = [_download_row(DownloadState.RUNNING)]
    page._work.queue.changed.emit()
    with qtbot.waitSignals([page._work.disk_known, page._work.machine_known] * 2):
        pass
    page._work.queue.rows = [_download_row(DownloadState.PAUSED)]
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


def test_the_loaded_model_can_be_ejected_and_deleted(page: ModelsPage, qtbot: QtBot) -> None:
    path = page._work.library.folder / "mine-Q4_0.gguf"
    path.write_bytes(b"x" * 2_000_000)
    page._work.library.scan()
    qtbot.waitUntil(lambda: len(page._work.library.models) == 1)
    page._work._session.info = model_info(path)
    page._ask_delete(page._work.library.models[0])
    assert page.notice_bar.text == "mine is loaded: eject and delete it (2 MB)?"
    _button(page, "Eject and delete").click()
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


def test_another_model_is_looked_for_by_size(page: ModelsPage, qtbot: QtBot) -> None:
    assert [size_class(count) for count in (0, 1, 2 * 10**9, 8 * 10**9, 70 * 10**9)] == [
        "fits", "small", "medium", "large", "huge",
    ]  # fmt: skip
    path = page._work.library.folder / "alien.gguf"
    page._work.repair(
        FoundModel(path, "alien", Origin.OWN, state=FileState.UNSUPPORTED, num_parameters=135 * 10**6)
    )
    qtbot.waitUntil(lambda: page.results.shows("acme/Smol-GGUF"))
    assert page.results.search.text() == ""
    assert page.results.controls.wish == SearchWish(size="small")


def test_versions_fold_and_open_again(page: ModelsPage, qtbot: QtBot, hub: LoopbackHub) -> None:
    page.results.ask("smol")
    qtbot.waitUntil(lambda: "Download: Smol Q4_1" in _names(page))
    _button(page, "Fold Smol").click()
    assert "Download: Smol Q4_1" not in _names(page)
    asked = len(hub.log)
    _button(page, "Versions of Smol").click()
    assert "Download: Smol Q4_1" in _names(page)
    assert len(hub.log) == asked


def test_times_are_said_in_their_unit() -> None:
    assert [time_text(seconds) for seconds in (0.3, 90, 6500, 20_000)] == [
        "less than a second", "90 s", "108 min", "6 h",
    ]  # fmt: skip
    assert [context_text(count) for count in (512, 1024, 40_960)] == ["512", "1k", "40k"]
