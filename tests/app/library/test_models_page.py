"""The models page as a person uses it, against a loopback hub."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QWidget
from pytestqt.qtbot import QtBot

from app.downloads.download_card import time_left
from app.library.hub_card import card_text, count_text
from app.library.models_page import ModelsPage
from app.library.search_wish import SearchWish, size_class
from app.library.starters import starter_offers
from app.library.words import context_text, time_text
from app.widgets.buttons import ChoiceButton
from app.widgets.label import ElidingLabel, Label
from engine.hub.download_record import DownloadState
from engine.library import FileState, FoundModel, Origin
from tests.app.library.page_parts import button_of, download_row, texts_of
from tests.engine.hub.loopback import Fault, LoopbackHub


def test_the_address_of_a_page_finds_its_model(page: ModelsPage, qtbot: QtBot, hub: LoopbackHub) -> None:
    hub.add("acme/Smol-other-GGUF", {}, gguf={"architecture": "llama"}, downloads=9)
    page.results.ask(f"{hub.url}/acme/Smol-GGUF/tree/main?show=all")
    qtbot.waitUntil(lambda: "best version here: Q4_1" in texts_of(page))
    assert "other" not in texts_of(page)


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
    qtbot.waitUntil(lambda: "fewer filters" in texts_of(page))
    controls.set_wish(SearchWish())
    controls.set_author("zeta")
    qtbot.waitUntil(lambda: "fewer filters" in texts_of(page) and shown() == [])
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


def test_tab_goes_from_the_top_down(page: ModelsPage, qtbot: QtBot, smollm2_path: Path) -> None:
    """The results stand above the library, which was made before them."""
    os.symlink(smollm2_path, page._work.library.folder / "mine-Q4_1.gguf")
    page._work.library.scan()
    qtbot.waitUntil(lambda: "mine" in texts_of(page))
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


def test_the_bar_leads_to_each_part(page: ModelsPage, hub: LoopbackHub, qtbot: QtBot) -> None:
    bar = page._scroll.verticalScrollBar()
    assert button_of(page, "Downloads (0)").isHidden()
    page.resize(900, 300)
    page.results.ask("smol")
    hub.always["store"] = Fault(pause_s=0.02)
    page._work.get("acme/Smol-GGUF")
    qtbot.waitUntil(lambda: "of 98 MB" in texts_of(page))
    qtbot.waitUntil(lambda: bar.maximum() > 300)
    for name, part in (("On this machine", page.local), ("Downloads (1)", page._download_part)):
        button_of(page, name).click()
        top = part.mapTo(page._scroll.viewport(), part.rect().topLeft()).y()
        assert top == page._theme.px(20) or bar.value() == bar.maximum()
        assert bar.value() > 0
    button_of(page, "Find").click()
    assert (bar.value(), page.first_focus.hasFocus(), page.results.search.selectedText()) == (0, True, "smol")


def test_the_starter_is_offered_while_there_is_nothing(page: ModelsPage, qtbot: QtBot, smollm2_path: Path) -> None:
    assert "Begin with one of these" in texts_of(page)
    os.symlink(smollm2_path, page._work.library.folder / "mine-Q4_1.gguf")
    page._work.library.scan()
    qtbot.waitUntil(lambda: "Begin with one of these" not in texts_of(page))


def test_starters_follow_the_memory() -> None:
    assert [offer.name for offer in starter_offers(8 * 10**9)] == ["Qwen3 4B", "SmolLM2 135M Instruct"]
    assert next(offer.name for offer in starter_offers(64 * 10**9)) == "Qwen3 14B"
    assert [offer.is_tiny for offer in starter_offers(10**8)] == [True]
    assert starter_offers(10**9, Path("/nonexistent")) == []


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
    button_of(page, "Versions of Long smol").click()
    qtbot.waitUntil(lambda: f"Download: Long smol {names[0].removesuffix('.gguf')}" in _names(page))
    qtbot.waitUntil(lambda: "Download: Smol Q4_1" in _names(page))
    qtbot.waitUntil(lambda: "Download: Smol Q4_1" in _names(page))
    page._work.queue.rows = [download_row(DownloadState.FAILED, message="/a/name/without/a/place/to/break/it" * 4)]
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
    button_of(page, "Fold Smol").click()
    assert "Download: Smol Q4_1" not in _names(page)
    asked = len(hub.log)
    button_of(page, "Versions of Smol").click()
    assert "Download: Smol Q4_1" in _names(page)
    assert len(hub.log) == asked


def test_times_are_said_in_their_unit() -> None:
    assert [time_text(seconds) for seconds in (0.3, 90, 6500, 20_000)] == [
        "less than a second", "90 s", "108 min", "6 h",
    ]  # fmt: skip
    assert [context_text(count) for count in (512, 1024, 40_960)] == ["512", "1k", "40k"]


def _name(widget: QWidget) -> str:
    return widget.accessibleName() or (widget.text() if isinstance(widget, QAbstractButton) else "")


def _names(page: ModelsPage) -> list[str]:
    return [button.accessibleName() for button in page.findChildren(QAbstractButton) if button.isVisibleTo(page)]
