from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.errors import InputError
from engine.extraction.journal import Journal, RowResult, Task

TASK = Task("Invoices", "Read it.", '{"type": "object"}', "/in/a.csv", columns=("text",), check_afterwards=True)


def test_results_outlast_the_session_and_the_last_word_counts(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "sub" / "j.jsonl", TASK)
    journal.add(RowResult(0, {"a": "ü\u2028"}, {"/a": 0.98765432}), RowResult(2, error="No JSON."))
    journal.add(RowResult(0, {"a": 2}, is_edited=True))
    journal.add(RowResult(3, [1]))
    journal.forget(3)
    journal.forget(9)
    again = Journal.open(journal.path)
    assert again.task == TASK
    assert again.results == {0: RowResult(0, {"a": 2}, is_edited=True), 2: RowResult(2, error="No JSON.")}


def test_a_torn_last_line_is_left_out_and_nothing_is_glued_to_it(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "j.jsonl", TASK)
    journal.add(RowResult(0, 1), RowResult(1, 2))
    data = journal.path.read_bytes()
    for cut in range(len(data) - 1, len(data) - 18, -1):
        journal.path.write_bytes(data[:cut])
        opened = Journal.open(journal.path)
        assert opened.results.keys() <= {0, 1}
        assert 0 in opened.results
        opened.add(RowResult(5, "new"))
        assert 5 in Journal.open(journal.path).results


def test_damaged_lines_hide_no_other(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "j.jsonl", TASK)
    journal.add(RowResult(0, 1))
    with journal.path.open("ab") as stream:
        stream.write(b'\xff\xfe\x00\n[1]\n{"row": "x"}\n')
    journal.add(RowResult(1, 2))
    assert set(Journal.open(journal.path).results) == {0, 1}


@pytest.mark.parametrize("data", [b"", b"hello\n", b'{"fireside_extraction": 99}\n', b"\x00" * 100])
def test_what_is_no_journal_says_so(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "j.jsonl").write_bytes(data)
    with pytest.raises(InputError, match=r"j\.jsonl holds no results that this version can go on with"):
        Journal.open(tmp_path / "j.jsonl")


def test_a_disk_that_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be kept"):
        Journal.create(tmp_path / "file" / "j.jsonl", TASK)
    journal = Journal.create(tmp_path / "gone" / "j.jsonl", TASK)
    journal.path.unlink()
    journal.path.parent.rmdir()
    with pytest.raises(InputError, match="could not be saved"):
        journal.add(RowResult(0, 1))


def test_doubt() -> None:
    assert RowResult(0, {}, {"/a": 0.9, "/b": 0.25}).doubt == 0.75
    assert RowResult(0, {}, {"/a": 0.1}, is_edited=True).doubt == 0.0
    assert RowResult(0, error="x").doubt == 1.0
    assert RowResult(0, {}).doubt == 0.0


def test_long_texts_are_not_judged() -> None:
    value = {"kind": "bill", "a/b": ["short", "It says that " * 10], "summary": "It says that " * 10}
    certainty = {"/kind": 0.9, "/a~1b/0": 0.8, "/a~1b/1": 0.01, "/summary": 0.02}
    result = RowResult(0, value, certainty)
    assert result.judged == {"/kind": 0.9, "/a~1b/0": 0.8}
    assert result.doubt == pytest.approx(0.2)
    assert result.has_certainty
    only_prose = RowResult(0, value, {"/summary": 0.02})
    assert not only_prose.has_certainty, "neither sure nor in doubt"
    assert RowResult(0, "x" * 200, {"": 0.1}).judged == {}
    assert RowResult(0, {}, {"/gone": 0.5}).doubt == 0.5


_WRITER = """
import sys
from pathlib import Path
from engine.extraction.journal import Journal, RowResult, Task
journal = Journal.create(Path(sys.argv[1]), Task("n", "i", "{}", ""))
for row in range(100_000):
    journal.add(RowResult(row, {"row": row}))
    print(row, flush=True)
"""


def test_a_killed_process_loses_no_finished_row(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
    )
    assert process.stdout is not None
    said = [int(process.stdout.readline()) for _ in range(20)]
    time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    said += [int(line) for line in process.stdout.read().split()]
    process.wait()
    process.stdout.close()
    results = Journal.open(path).results
    assert set(said) <= set(results)
    assert all(results[row].value == {"row": row} for row in results)
