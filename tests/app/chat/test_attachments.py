from __future__ import annotations

import codecs
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pypdf import PdfWriter
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.attachment_chips import AttachmentChips
from app.chat.attachment_dialog import MAX_LINE_CHARACTERS, AttachmentDialog
from app.chat.attachments import sweep
from app.chat.chat_page import ChatPage
from app.chat.composer import Composer
from app.paths import AppPaths
from app.storage.records import AttachmentRecord
from app.theme import Theme
from app.widgets.label import Label
from engine.errors import InputError
from engine.extraction.texts import read_text_file
from tests.app.conftest import Bench, BenchMaker


def _pdf(path: Path, text: str, password: str = "", algorithm: str = "RC4-128") -> Path:
    content = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode("latin-1")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R "
        b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
    ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(data)
    data += b"xref\n0 5\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    path.write_bytes(data + b"trailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start)
    if password:
        writer = PdfWriter(clone_from=path)
        writer.encrypt(password, algorithm=algorithm)
        writer.write(path)
    return path


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("naïve — 日本\r\nzwei".encode(), "naïve — 日本\nzwei"),
        (codecs.BOM_UTF8 + b"a;b", "a;b"),
        ("x = 1\n".encode("utf-16"), "x = 1\n"),
        ("Größe".encode("cp1252"), "Größe"),
    ],
)
def test_texts_are_read_in_their_encodings(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "ö.txt"
    path.write_bytes(data)
    assert read_text_file(path) == text


def test_the_text_of_a_pdf_is_read(tmp_path: Path) -> None:
    assert read_text_file(_pdf(tmp_path / "a.pdf", "Rent is due")).strip() == "Rent is due"


LOCKED = "aes.pdf is locked with a password; use a copy without one."


@pytest.mark.parametrize(
    ("algorithm", "without_package"),
    [("AES-128", LOCKED), ("AES-256", "aes.pdf is encrypted; use a copy that is not.")],
)
def test_a_pdf_that_is_encrypted_with_aes_says_so(tmp_path: Path, algorithm: str, without_package: str) -> None:
    pytest.importorskip("cryptography")
    path = _pdf(tmp_path / "aes.pdf", "secret", "word", algorithm)
    with pytest.raises(InputError) as caught:
        read_text_file(path)
    assert str(caught.value) == LOCKED
    # And where that package is not there: what pypdf does then, in a process of its own.
    code = (
        "import sys\n"
        "sys.modules['cryptography'] = sys.modules['Crypto'] = None\n"
        "from pathlib import Path\nfrom engine.errors import InputError\n"
        "from engine.extraction.texts import read_text_file\n"
        "try:\n    read_text_file(Path(sys.argv[1]))\nexcept InputError as error:\n    print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == without_package


def test_what_cannot_be_attached_says_why(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    (tmp_path / "empty.txt").write_bytes(b" \n")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing more")
    _pdf(tmp_path / "locked.pdf", "secret", "word")
    _pdf(tmp_path / "scan.pdf", "")
    (tmp_path / "cut.txt").write_bytes("Grüße aus Köln, später mehr: 你".encode()[:-1])
    (tmp_path / "long.txt").write_bytes(b"a" * 5_000_000)
    with (tmp_path / "huge.txt").open("wb") as stream:
        stream.truncate(60_000_000)
    sentences = {
        "folder": "folder is a folder; choose the files in it.",
        "image.png": "image.png is no text: text, Markdown, code, tables (CSV) and PDF can be read.",
        "empty.txt": "empty.txt holds no text.",
        "cut.txt": "cut.txt is no UTF-8 text: byte 34 does not fit. Save it as UTF-8.",
        "broken.pdf": "broken.pdf is damaged, or no PDF that can be read.",
        "locked.pdf": "locked.pdf is locked with a password; use a copy without one.",
        "scan.pdf": "scan.pdf holds no text: its pages are pictures.",
        "long.txt": "long.txt holds more than 4,000,000 characters; use a part of it.",
        "huge.txt": "huge.txt is larger than 50 MB; use a part of it.",
        "gone.txt": "gone.txt could not be read: No such file or directory.",
    }
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "endless").symlink_to("/dev/zero")
        sentence = "is a device or a pipe, not a file; save what it holds as a file first."
        sentences |= {name: f"{name} {sentence}" for name in ("pipe", "endless")}
    for name, sentence in sentences.items():
        with pytest.raises(InputError) as caught:
            read_text_file(tmp_path / name)
        assert str(caught.value) == sentence


def _draft(bench: Bench) -> tuple[AttachmentRecord, ...]:
    return bench.controller.attachments.draft(bench.controller.current_id)


def _wait_for(bench: Bench, number: int) -> tuple[AttachmentRecord, ...]:
    bench.qtbot.waitUntil(lambda: len(_draft(bench)) == number)
    return _draft(bench)


def test_an_attachment_is_in_the_prompt_and_outlasts_a_restart(
    bench: Bench, make_bench: BenchMaker, tmp_path: Path
) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Trip\nLisbon", encoding="utf-8")
    bench.controller.attachments.add_files(bench.controller.current_conversation, [path, tmp_path / "gone.txt"])
    bench.controller.attachments.add_text(bench.controller.current_conversation, "pasted words")
    first, second = _wait_for(bench, 2)
    assert (first.name, first.num_characters, second.name) == ("notes.md", 13, "Pasted text")
    assert bench.notices == ["gone.txt could not be read: No such file or directory."]
    bench.settle()
    make_bench.close(bench)

    again = make_bench()
    path.unlink()
    assert [record.name for record in _draft(again)] == ["notes.md", "Pasted text"]
    again.controller.attachments.remove(_draft(again)[1])
    assert again.controller.send("Where to?")
    assert _draft(again) == ()
    request = again.request()
    assert (
        again.engine.requests[-1].messages[0].content
        == "[notes.md]\n# Trip\nLisbon\n[end of notes.md]\n\nWhere to?"
    )
    again.engine.finish(request)
    again.wait_idle()
    [view] = [view for view in again.controller.current_messages if view.attachments]
    assert (view.record.content, view.attachments[0].name) == ("Where to?", "notes.md")
    again.settle()
    make_bench.close(again)
    third = make_bench()
    assert third.controller.current_messages[0].attachments == view.attachments


def test_attachments_alone_can_be_sent_and_name_the_chat(bench: Bench) -> None:
    assert not bench.controller.send("")
    bench.controller.attachments.add_text(bench.controller.current_conversation, "all of it")
    _wait_for(bench, 1)
    assert bench.controller.send("")
    request = bench.request()
    assert bench.engine.requests[-1].messages[0].content.startswith("[Pasted text]\nall of it\n")
    bench.engine.finish(request)
    bench.wait_idle()
    assert bench.controller.current_conversation.title == "Pasted text"


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "The disk is full: free some space, then attach it again."),
        (errno.EIO, f"The text could not be attached: {os.strerror(errno.EIO)}."),
    ],
)
def test_what_cannot_be_kept_touches_nothing_else(
    bench: Bench, paths: AppPaths, monkeypatch: pytest.MonkeyPatch, number: int, sentence: str
) -> None:
    bench.ask("before", "it was")
    bench.controller.attachments.add_text(bench.controller.current_conversation, "kept")
    kept = _wait_for(bench, 1)
    with monkeypatch.context() as patch:

        def refuse(_file: int) -> None:
            raise OSError(number, os.strerror(number))

        patch.setattr("app.chat.attachments.os.fsync", refuse)
        bench.controller.attachments.add_text(bench.controller.current_conversation, "x" * 20_000_000)
        bench.qtbot.waitUntil(lambda: bool(bench.notices))
        assert bench.notices == [sentence]
        assert _draft(bench) == kept
        assert [path.name for path in paths.attachments.iterdir()] == [kept[0].file_name], "no part of it is left"
    bench.ask("after", "it goes on")
    contents = [view.record.content for view in bench.controller.current_messages]
    assert contents == ["before", "it was", "after", "it goes on"]
    (attached,) = bench.controller.current_messages[2].attachments
    assert bench.controller.attachments.text(attached) == "kept"


def test_edits_and_forks_keep_the_attachments(bench: Bench) -> None:
    bench.controller.attachments.add_text(bench.controller.current_conversation, "the contract")
    _wait_for(bench, 1)
    bench.ask("summarise", "short")
    question, _ = bench.controller.current_messages
    bench.controller.edit_and_resend(question.record.id, "translate")
    request = bench.request()
    assert bench.engine.requests[-1].messages[0].content.endswith("translate")
    assert "the contract" in bench.engine.requests[-1].messages[0].content
    bench.engine.finish(request)
    bench.wait_idle()
    bench.controller.fork(bench.controller.current_messages[-1].record.id)
    assert [one.name for one in bench.controller.current_messages[0].attachments] == ["Pasted text"]
    bench.ask("more", "yes")
    assert bench.notices == []


def test_two_chats_keep_their_own_drafts(bench: Bench) -> None:
    bench.ask("first", "one")
    first = bench.controller.current_id
    bench.controller.attachments.add_text(bench.controller.current_conversation, "for the first")
    _wait_for(bench, 1)
    bench.controller.new_conversation()
    assert _draft(bench) == ()
    bench.controller.open_conversation(first)
    assert len(_draft(bench)) == 1


def test_a_text_that_is_gone_is_said_in_its_place(bench: Bench) -> None:
    bench.controller.attachments.add_text(bench.controller.current_conversation, "soon gone")
    [record] = _wait_for(bench, 1)
    bench.controller.attachments.path(record).unlink()
    bench.controller.send("read it")
    bench.request()
    assert "(The text of Pasted text is missing.)" in bench.engine.requests[-1].messages[0].content


def test_texts_that_nothing_uses_are_swept_after_an_hour(tmp_path: Path) -> None:
    for name in ("used.txt", "old.txt", "new.txt"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    now = 2_000_000_000.0
    os.utime(tmp_path / "used.txt", (1, 1))
    os.utime(tmp_path / "old.txt", (1, 1))
    os.utime(tmp_path / "new.txt", (now, now))
    assert sweep(tmp_path, {"used.txt"}, now) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.txt", "used.txt"]
    assert sweep(tmp_path / "missing", set(), now) == 0


def test_a_long_paste_and_dropped_files_are_attached(theme: Theme, qtbot: QtBot, tmp_path: Path) -> None:
    composer = Composer(theme)
    qtbot.addWidget(composer)
    composer.show()
    pasted: list[str] = []
    files: list[list[Path]] = []
    composer.text_pasted.connect(pasted.append)
    composer.files_given.connect(files.append)
    clipboard = QApplication.clipboard()
    long = "line\n" * 60
    clipboard.setText(long)
    qtbot.keyClick(composer.edit, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert (pasted, composer.text) == ([long], "")
    modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(composer.edit, Qt.Key.Key_V, modifiers)
    assert (len(pasted), composer.text) == (1, long)
    composer.clear_text()
    clipboard.setText("word " * 70_000)
    qtbot.keyClick(composer.edit, Qt.Key.Key_V, modifiers)
    assert (len(pasted), composer.text) == (2, ""), "too long to be edited: it is attached all the same"
    clipboard.setText("short")
    qtbot.keyClick(composer.edit, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert composer.text == "short"
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "a b.csv")), QUrl("https://example.org/x")])
    composer.edit.insertFromMimeData(data)
    assert files == [[tmp_path / "a b.csv"]]


def test_chips_wrap_and_can_be_taken_off(theme: Theme, qtbot: QtBot) -> None:
    chips = AttachmentChips(theme, can_remove=True)
    qtbot.addWidget(chips)
    records = [
        AttachmentRecord(str(number), "c", None, number, f"file number {number}.txt", "f", 1204)
        for number in range(6)
    ]
    assert chips.isHidden()
    chips.show_attachments(records)
    chips.resize(400, chips.heightForWidth(400))
    one_row = chips.heightForWidth(4000)
    assert chips.heightForWidth(400) > 2 * one_row
    with qtbot.waitSignal(chips.removed) as caught:
        chips.chips[1].findChildren(type(chips.chips[1].layout().itemAt(1).widget()))[-1].click()
    assert caught.args == [records[1]]
    chips.show_attachments([])
    assert chips.isHidden()


@pytest.fixture
def slow_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Files are read when this is set."""
    may_read = threading.Event()

    def read(path: Path) -> str:
        may_read.wait(20)
        return read_text_file(path)

    monkeypatch.setattr("app.chat.attachments._read_file", read)
    yield may_read
    may_read.set()


def test_a_message_waits_for_what_is_being_attached(
    bench: Bench, tmp_path: Path, slow_files: threading.Event
) -> None:
    (tmp_path / "notes.txt").write_text("notes", encoding="utf-8")
    paths = [tmp_path / "notes.txt", tmp_path / "missing.txt"]
    bench.controller.attachments.add_files(bench.controller.current_conversation, paths)
    assert not bench.controller.send("Sum it up")
    assert "still being read" in bench.notices[-1]
    slow_files.set()
    _wait_for(bench, 1)
    bench.qtbot.waitUntil(lambda: len(bench.notices) == 2, timeout=3000)  # the other file is missing
    assert bench.controller.send("Sum it up")
    bench.request()
    assert "notes" in bench.engine.requests[-1].messages[-1].content


def test_what_was_attached_to_a_chat_brings_it_not_back(
    bench: Bench, tmp_path: Path, slow_files: threading.Event
) -> None:
    bench.ask("q", "a")
    (tmp_path / "notes.txt").write_text("notes", encoding="utf-8")
    gone = bench.controller.current_conversation
    bench.controller.attachments.add_files(gone, [tmp_path / "notes.txt"])
    bench.controller.delete_conversations([gone.id])
    bench.controller.trash.purge([gone.id])
    slow_files.set()
    bench.qtbot.waitUntil(lambda: not bench.controller.attachments.is_reading(gone.id), timeout=3000)
    bench.settle()
    assert bench.context.store.read_conversations() == []


def test_an_attached_text_is_read_in_the_window(bench: Bench, theme: Theme, qtbot: QtBot, tmp_path: Path) -> None:
    page = ChatPage(bench.controller, theme)
    qtbot.addWidget(page)
    page.resize(800, 600)
    page.show()
    path = tmp_path / "data.csv"
    path.write_text("name,age\nAda,36\n", encoding="utf-8")
    bench.controller.attachments.add_files(bench.controller.current_conversation, [path])
    [record] = _wait_for(bench, 1)
    page.composer.attachment_opened.emit(record)
    dialog = page.findChild(AttachmentDialog)
    assert dialog is not None
    assert dialog.isVisible()
    assert (dialog.windowTitle(), dialog.edit.toPlainText()) == ("data.csv", "name,age\nAda,36\n")
    assert dialog.edit.isReadOnly()
    dialog.reject()
    bench.controller.attachments.path(record).unlink()
    page.composer.attachment_opened.emit(record)
    assert page.notice_bar.text == "The text of data.csv is gone: its file was deleted."


def test_of_a_very_long_attached_text_the_beginning_is_shown(theme: Theme, qtbot: QtBot) -> None:
    record = AttachmentRecord("a", "c", None, 0, "long.txt", "a.txt", 1_000_000)
    dialog = AttachmentDialog(record, "line\n" * 200_000, theme)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(dialog)
    assert len(dialog.edit.toPlainText()) == 200_000
    figures = [label.text() for label in dialog.findChildren(Label)]
    assert "the first 200,000 of 1,000,000 characters" in figures


def test_a_very_long_line_of_an_attached_text_is_shown_in_parts(theme: Theme, qtbot: QtBot) -> None:
    text = "short\n" + "word " * 18_000 + "\n" + "x" * 5000 + "\nlast"
    dialog = AttachmentDialog(AttachmentRecord("a", "c", None, 0, "long.txt", "a.txt", len(text)), text, theme)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(dialog)
    lines = dialog.edit.toPlainText().split("\n")
    assert max(map(len, lines)) <= MAX_LINE_CHARACTERS
    assert (lines[0], lines[-1], len(lines)) == ("short", "last", 1 + 45 + 3 + 1)
    assert "".join(lines) == text.replace("\n", ""), "nothing is lost"
    assert all(line.endswith(" ") for line in lines[1:46]), "after a word"
    assert "95,012 characters · very long lines in parts" in [each.text() for each in dialog.findChildren(Label)]
    copy = next(each for each in dialog.findChildren(QPushButton) if each.text() == "Copy")
    copy.click()
    assert QGuiApplication.clipboard().text() == text
