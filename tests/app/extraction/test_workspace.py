from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.extraction.page import LEFT_PX, ExtractionPage
from app.extraction.table_model import ResultsModel, with_value
from app.extraction.words import progress_line, saving_line
from app.extraction.workspace import ExtractionWorkspace
from app.settings import Settings
from app.theme import Theme
from engine.extraction.columns import Column
from engine.extraction.journal import Journal, RowResult
from engine.extraction.run import Progress
from engine.protocol import (
    Channel,
    FieldCertainty,
    FinishReason,
    PrepareForms,
    RequestFailed,
    RequestFinished,
    RequestStats,
    StructuredResult,
)
from tests.app.conftest import Bench, BenchMaker

SCHEMA = '{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object", "properties": {"n": {"type": "number"}}}}}'  # noqa: E501
ANSWER = '{"a": "x", "b": {"n": 2}}'


def _answer(bench: Bench, text: str = ANSWER, certainty: float = 0.9) -> None:
    request_id = bench.request(0)
    request = bench.engine.requests.pop(0)
    assert request.response_format is not None
    bench.engine.say(request_id, text, Channel.ANSWER)
    fields = (FieldCertainty("/a", certainty), FieldCertainty("/b/n", 0.99))
    verdict = StructuredResult(True, True, num_forced_tokens=2, fields=fields)
    stats = RequestStats(10, 4, 3, 1.0, 2.0, 3.0, 99.0, 7)
    bench.engine.on_event(RequestFinished(request_id, FinishReason.STOP, stats, verdict))


def _started(bench: Bench, text: str = "one\ntwo\nthree") -> ExtractionWorkspace:
    workspace = bench.context.extraction
    workspace.notice.connect(bench.notices.append)
    with bench.qtbot.waitSignal(workspace.source_changed):
        workspace.choose_lines(text)
    workspace.start("Read it.", SCHEMA)
    return workspace


def _wait_results(bench: Bench, number: int) -> Journal:
    journal = bench.context.extraction.journal
    assert journal is not None
    bench.qtbot.waitUntil(lambda: len(journal.results) == number)
    return journal


def test_rows_are_answered_and_kept(bench: Bench) -> None:
    workspace = _started(bench)
    assert workspace.is_running
    for number in range(1, 4):
        _answer(bench)
        journal = _wait_results(bench, number)
    assert workspace.is_finished
    assert not workspace.is_running
    assert journal.results[2] == RowResult(2, {"a": "x", "b": {"n": 2}}, {"/a": 0.9, "/b/n": 0.99})
    assert Journal.open(journal.path).results == journal.results


def test_an_interrupted_extraction_goes_on_after_a_restart(
    bench: Bench, make_bench: BenchMaker, tmp_path: Path
) -> None:
    table = tmp_path / "in.csv"
    table.write_text("text,more\none,1\ntwo,2\nthree,3\n", encoding="utf-8")
    workspace = bench.context.extraction
    with bench.qtbot.waitSignal(workspace.source_changed):
        workspace.choose_input(table)
    workspace.start("Read it.", SCHEMA, ("text",))
    _answer(bench)
    _wait_results(bench, 1)
    make_bench.close(bench)

    again = make_bench()
    workspace = again.context.extraction
    [earlier] = workspace.earlier()
    assert (earlier.name, earlier.num_results) == ("in.csv", 1)
    with again.qtbot.waitSignal(workspace.opened):
        workspace.open(earlier.path)
    assert not workspace.is_running
    workspace.resume()
    assert again.engine.requests[0].messages[0].content.endswith("Text:\ntwo")
    for number in (2, 3):
        _answer(again)
        _wait_results(again, number)
    assert workspace.is_finished
    workspace.delete(earlier.path)
    assert workspace.earlier() == []
    assert workspace.source is None


def test_an_input_that_is_gone_leaves_the_workspace_as_it_is(bench: Bench, tmp_path: Path) -> None:
    table = tmp_path / "in.csv"
    table.write_text("text\none\n", encoding="utf-8")
    workspace = bench.context.extraction
    workspace.notice.connect(bench.notices.append)
    with bench.qtbot.waitSignal(workspace.source_changed):
        workspace.choose_input(table)
    workspace.start("", SCHEMA)
    _answer(bench)
    path = _wait_results(bench, 1).path
    workspace.close_journal()
    table.unlink()
    workspace.open(path)
    bench.qtbot.waitUntil(lambda: bool(bench.notices))
    assert bench.notices == ["in.csv could not be read: No such file or directory."]
    assert workspace.journal is None


def test_pause_gives_rows_back_and_a_failed_row_can_be_asked_again(bench: Bench) -> None:
    workspace = _started(bench)
    first = bench.request()
    workspace.pause()
    bench.qtbot.waitUntil(lambda: not workspace.is_asked(0))
    assert not workspace.is_running
    bench.engine.requests.clear()
    workspace.resume()
    request_id = bench.request(0)
    assert request_id != first
    bench.engine.requests.pop(0)
    bench.engine.on_event(RequestFailed(request_id, "Too long."))
    journal = _wait_results(bench, 1)
    assert journal.results[0].error == "Too long.", "rows are asked about in their order again"
    _answer(bench)
    _answer(bench)
    _wait_results(bench, 3)
    workspace.retry([0])
    _answer(bench)
    bench.qtbot.waitUntil(lambda: workspace.is_finished)
    assert journal.results[0].error == ""


def test_a_long_text_makes_no_row_doubtful(bench: Bench, theme: Theme) -> None:
    workspace = _started(bench, "one")
    model = ResultsModel(workspace, theme)
    _answer(bench, json.dumps({"a": "It says. " * 20, "b": {"n": 2}}), certainty=0.02)
    _wait_results(bench, 1)
    assert model.index(0, 4).data() == "99 %"
    shown = model.index(0, 2).data(Qt.ItemDataRole.ForegroundRole)
    assert shown is None, "its cell is not marked either"
    explanation = model.index(0, 4).data(Qt.ItemDataRole.ToolTipRole)
    assert explanation.splitlines() == ["a: a long text, which is not judged", "b/n: 99 %"]


def test_an_answer_is_edited_and_exported(bench: Bench, tmp_path: Path, theme: Theme) -> None:
    workspace = _started(bench, "one")
    model = ResultsModel(workspace, theme)
    _answer(bench, certainty=0.2)
    _wait_results(bench, 1)
    assert [model.headerData(column, Qt.Orientation.Horizontal) for column in range(model.columnCount())] == [
        "#", "input", "a", "b.n", "certainty",
    ]  # fmt: skip
    assert [model.index(0, column).data() for column in range(5)] == ["1", "one", "x", "2", "20 % ⚠"]
    cell = model.index(0, 3)
    assert model.flags(cell) & Qt.ItemFlag.ItemIsEditable
    assert not model.flags(model.index(0, 1)) & Qt.ItemFlag.ItemIsEditable
    assert model.setData(cell, "7.5")
    assert not model.setData(cell, "7.5")
    assert workspace.journal is not None
    assert workspace.journal.results[0].value == {"a": "x", "b": {"n": 7.5}}
    assert model.index(0, 4).data() == "100 %", "what the person wrote is beyond doubt"
    workspace.export(tmp_path / "out.csv")
    bench.qtbot.waitUntil(lambda: bool(bench.notices))
    assert bench.notices == ["1 row was saved as out.csv."]
    with (tmp_path / "out.csv").open(encoding="utf-8-sig", newline="") as stream:
        assert next(csv.DictReader(stream)) == {
            "row": "1", "a": "x", "b.n": "7.5", "certainty": "1.0", "error": "",
        }  # fmt: skip


def test_without_a_model_rows_wait_for_one(make_bench: BenchMaker) -> None:
    bench = make_bench(None)
    workspace = _started(bench)
    assert bench.engine.requests == []
    bench.controller.load_model("model.gguf")
    bench.request()
    assert workspace.is_running


def test_values_keep_their_type_where_the_text_allows_it() -> None:
    value = {"s": "1", "n": 2, "tags": ["a"], "yes": True, "g": {"x": None}}
    assert with_value(value, Column(("s",)), "5")["s"] == "5"
    assert with_value(value, Column(("n",)), "5")["n"] == 5
    assert with_value(value, Column(("n",)), "many")["n"] == "many"
    assert with_value(value, Column(("n",)), "NaN")["n"] == "NaN"
    assert with_value(value, Column(("n",)), "1e999")["n"] == "1e999"
    assert with_value(value, Column(("n",)), "12345678901234567890")["n"] == 12345678901234567890
    assert with_value(value, Column(("tags",)), "b; c")["tags"] == ["b", "c"]
    assert with_value(value, Column(("yes",)), "false")["yes"] is False
    assert with_value(value, Column(("g", "x")), "new")["g"] == {"x": "new"}
    assert with_value(value, Column(("Nr.",)), "7") == {**value, "Nr.": "7"}
    assert with_value(None, Column(("a", "b")), "1") == {"a": {"b": "1"}}
    assert with_value(["a"], Column(()), "b; c") == ["b", "c"]
    assert value["n"] == 2


def test_the_words_for_progress() -> None:
    progress = Progress(200, 127, 1, 41.2, 105.0, 412, 0.58)
    assert progress_line(progress, is_running=True) == (
        "128 of 200 rows · 1 failed · 41 rows a minute · about 2 min left"
    )
    assert progress_line(progress, is_running=False) == "128 of 200 rows · 1 failed"
    assert (
        saving_line(progress) == "Prefix of 412 tokens read once for 200 rows · 58 % of tokens forced by the schema"
    )
    assert saving_line(Progress(1, 0, 0)) == ""


@pytest.fixture
def page(bench: Bench, theme: Theme, qtbot: QtBot) -> ExtractionPage:
    made = ExtractionPage(bench.context.extraction, bench.context.schemas, theme)
    qtbot.addWidget(made)
    made.resize(1000, 700)
    made.show()
    return made


def test_the_page_from_a_table_to_results(page: ExtractionPage, bench: Bench, tmp_path: Path, qtbot: QtBot) -> None:
    assert not page.run_button.isEnabled()
    assert page.run_button.toolTip() == "Choose an input first."
    table = tmp_path / "people.csv"
    table.write_text("name,note\nAda,first\nBob,second\n", encoding="utf-8")
    with qtbot.waitSignal(bench.context.extraction.source_changed):
        page.choose_input(table)
    assert page.run_button.toolTip() == "The schema cannot be used yet."
    page.editor.show_schema(SCHEMA)
    assert page.run_button.isEnabled()
    page._on_column("note", False)
    page.instruction.setPlainText("Who is it?")
    page.run_button.click()
    assert page.run_button.text() == "Pause"
    qtbot.waitUntil(lambda: bool(bench.engine.requests))
    request = bench.engine.requests[0]
    assert request.messages[0].content.startswith("Who is it?")
    assert request.messages[0].content.endswith("Text:\nAda")
    _answer(bench)
    _answer(bench)
    _wait_results(bench, 2)
    qtbot.waitUntil(lambda: page.run_button.text() == "Start anew")
    assert page.export_button.isEnabled()
    assert page._progress.whole_text == "2 of 2 rows"
    page.table.selectRow(1)
    page.table.copy()
    assert QApplication.clipboard().text() == "2\tBob\tx\t2\t90 %"
    names = [action.text() for action in page.table.make_menu([0, 1]).actions()]
    assert names == ["Ask about 2 rows again", "Copy"]
    assert [action.text() for action in page.make_title_menu().actions() if action.text()] == [
        "New extraction",
        "people.csv\t2 rows",
        "Delete this extraction",
    ]


@pytest.mark.parametrize("zoom", [1.0, 2.0])
def test_a_small_page_covers_and_squeezes_nothing(
    page: ExtractionPage, settings: Settings, theme: Theme, qtbot: QtBot, zoom: float
) -> None:
    settings.set("zoom", zoom)
    page.resize(theme.px(640), theme.px(380))
    qtbot.wait(1)
    left, answers = page._left_scroll, page._empty.parentWidget()
    assert left.mapTo(page, left.rect().topRight()).x() < answers.mapTo(page, QPoint(0, 0)).x()
    assert page.rect().contains(answers.geometry())
    bar = left.verticalScrollBar()
    assert bar.maximum() > 0
    for part in (page._choose, page.editor._open):
        assert part.height() >= part.minimumSizeHint().height()
    bar.setValue(bar.maximum())
    assert left.viewport().rect().contains(page.editor._open.mapTo(left.viewport(), QPoint(0, 0)))
    page.resize(theme.px(1000), theme.px(800))
    assert left.width() == theme.px(LEFT_PX)


def test_rows_are_sorted_by_doubt(page: ExtractionPage, bench: Bench, qtbot: QtBot) -> None:
    _started(bench)
    for number, certainty in enumerate((0.9, 0.1, 0.5), start=1):
        _answer(bench, certainty=certainty)
        _wait_results(bench, number)
    page.table.sortByColumn(page.table.results.columnCount() - 1, Qt.SortOrder.AscendingOrder)
    assert [page.table.sorted.index(row, 1).data() for row in range(3)] == ["two", "three", "one"]


def test_the_engine_gets_ready_once_the_person_comes_to_extract(bench: Bench) -> None:
    def num_prepared() -> int:
        return sum(isinstance(command, PrepareForms) for command in bench.engine.commands)

    assert num_prepared() == 0  # whoever only chats pays nothing
    bench.context.extraction.expect()
    assert num_prepared() == 1
    bench.controller.set_options({"schema": SCHEMA})
    assert num_prepared() == 2
    bench.controller.set_options({})
    assert num_prepared() == 2
    bench.engine.load(Path("other.gguf"))
    bench.qtbot.waitUntil(lambda: num_prepared() == 3)


def test_numbers_are_sorted_as_numbers_and_gaps_come_last(page: ExtractionPage, bench: Bench) -> None:
    workspace = _started(bench, "a\nb\nc\nd\ne\nf")
    workspace.pause()
    journal = workspace.journal
    assert journal is not None
    for row, number in enumerate([1.10, 1.05, -3, 10**20, None]):
        journal.add(RowResult(row, {"a": "x", "b": {"n": number}}))
    page.table.sortByColumn(3, Qt.SortOrder.AscendingOrder)
    assert [page.table.sorted.index(row, 1).data() for row in range(6)] == ["c", "b", "a", "d", "e", "f"]


def test_answers_to_other_rows_are_not_passed_off_as_answers_to_these(
    bench: Bench, make_bench: BenchMaker, tmp_path: Path
) -> None:
    table = tmp_path / "in.csv"
    table.write_text("text,more\none,1\ntwo,2\n", encoding="utf-8")
    workspace = bench.context.extraction
    with bench.qtbot.waitSignal(workspace.source_changed):
        workspace.choose_input(table)
    workspace.start("Read it.", SCHEMA)
    _answer(bench)
    _wait_results(bench, 1)
    make_bench.close(bench)

    def said_when_opened() -> list[str]:
        again = make_bench()
        said: list[str] = []
        again.context.extraction.notice.connect(said.append)
        with again.qtbot.waitSignal(again.context.extraction.opened):
            again.context.extraction.open(again.context.extraction.earlier()[0].path)
        make_bench.close(again)
        return said

    assert said_when_opened() == []
    table.write_text("text,more\ntwo,2\none,1\n", encoding="utf-8")
    assert said_when_opened() == ["in.csv is another table than before: the answers may be about other rows."]


def test_a_deleted_extraction_comes_back(page: ExtractionPage, bench: Bench, qtbot: QtBot) -> None:
    workspace = _started(bench, "one")
    _answer(bench)
    journal = _wait_results(bench, 1)
    workspace.delete(journal.path)
    assert workspace.journal is None
    assert workspace.earlier() == []
    assert page.notice_bar.text == "The extraction was deleted."
    page.notice_bar._action_button.click()
    qtbot.waitUntil(lambda: workspace.journal is not None)
    assert workspace.journal is not None
    assert workspace.journal.results == journal.results
    workspace.delete(journal.path)
    workspace.close()
    assert list(journal.path.parent.iterdir()) == [], "gone for good with the end of the app"
    workspace.restore(journal.path)
    assert bench.notices[-1] == "The extraction could not be brought back: No such file or directory."
