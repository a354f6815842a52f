"""``python -m engine models download``, ``discard``: what is refused, how far it is, and what is left of it."""

from __future__ import annotations

import io
import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from engine.advisor import Machine, look_at_machine
from engine.hub.download_item import DownloadRow
from engine.hub.download_record import DownloadState
from engine.hub.downloads import Downloads
from engine.terminal.cli import main
from engine.terminal.download import _progress, _watch
from engine.terminal.hub_models import new_client
from engine.terminal.output import Output
from tests.engine.hub.loopback import Fault, LoopbackHub, loopback_hub


@pytest.fixture
def home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("engine.advisor.needs_measuring", lambda: False)
    return home


@pytest.fixture
def hub(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    with loopback_hub() as running:
        running.add("acme/Smol-GGUF", {"smol-Q4_1.gguf": smollm2_path.read_bytes()})
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def test_what_is_too_large_is_refused(
    home: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def small(*arguments: object) -> Machine:
        machine: Machine = look_at_machine(home)
        return replace(machine, total_bytes=1 << 28, available_bytes=1 << 27)

    monkeypatch.setattr("engine.advisor.look_at_machine", small)
    for version in ([], ["Q4_1"]):
        assert main(["models", "download", "acme/Smol-GGUF", *version]) == 1
        said = capsys.readouterr().err
        assert said.startswith("Too large for this machine: with 8k context ")
        assert said.endswith("; --anyway downloads Q4_1, 98 MB, all the same.\n")
    assert not (home / "models" / ".downloads").exists()
    assert main(["models", "download", "acme/Smol-GGUF", "--anyway"]) == 0


def test_what_is_here_is_told_again(home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "models" / "acme" / "Smol-GGUF" / "smol-Q4_1.gguf"
    page = f"{hub.url}/acme/Smol-GGUF"
    assert main(["models", "download", f"{page}/resolve/main/smol-Q4_1.gguf?download=true"]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    num_sent = hub.num_sent
    for arguments in (["acme/Smol-GGUF", "q4_1"], ["acme/Smol-GGUF", "smol-Q4_1.gguf"], [f"{page}/tree/main"]):
        assert main(["models", "download", *arguments]) == 0
        assert capsys.readouterr().out == f"{path}\n"
    assert hub.num_sent - num_sent < 5_000_000


class _Coming:
    """A download that has one percent more at each look."""

    def __init__(self, done: list[DownloadRow]) -> None:
        self._done = done
        self._percent = 0

    def rows(self) -> list[DownloadRow]:
        if self._percent == 100:
            self._done.append(_row(100))
            return []
        self._percent += 1
        return [_row(self._percent)]


def _row(percent: int) -> DownloadRow:
    return DownloadRow(
        id="x", repository="acme/M", label="Q4_0", state=DownloadState.RUNNING, num_received=percent, size=100,
        bytes_per_second=1.0, seconds_left=None, message="", paths=(),
    )  # fmt: skip


def test_progress_without_a_screen_is_a_line_every_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.terminal.download.POLL_S", 0.0)
    log, done = io.StringIO(), list[DownloadRow]()
    _watch(cast(Downloads, _Coming(done)), done, Output(False, stderr=log))
    shares = re.findall(r"(\d+)%", log.getvalue())
    assert shares == ["10", "20", "30", "40", "50", "60", "70", "80", "90", "100"]


def test_progress_where_the_size_is_unknown() -> None:
    assert _progress(_row(50)) == "acme/M Q4_0: 50 bytes of 100 bytes, 50%, 0.0 MB/s"
    row = replace(_row(50), num_received=5_000_000, size=0, bytes_per_second=2e6)
    assert _progress(row) == "acme/M Q4_0: 5 MB, 2.0 MB/s"


@pytest.mark.skipif(sys.platform == "win32", reason="one process cannot send another's signals there")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_download_is_paused_listed_and_discarded(
    home: Path,
    hub: LoopbackHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:
    """By Ctrl+C, by the system, or because the terminal's window was closed."""
    hub.always["store"] = Fault(cut_after=3_000_000)

    def interrupt(downloads: Downloads, *_: object) -> None:
        while not downloads.rows()[0].num_received:
            time.sleep(0.01)
        signal.raise_signal(number)

    monkeypatch.setattr("engine.terminal.download._watch", interrupt)
    usual = signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)  # whoever runs the tests may have it ignored
    try:
        assert main(["models", "download", "acme/Smol-GGUF"]) == 128 + number
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, before)
    assert "`models discard` deletes what has come" in capsys.readouterr().err
    window = Downloads(home / "models", new_client)
    window.start()  # as the window does when it opens
    (row,) = window.rows()
    assert window.is_idle()
    assert (row.state.value, row.num_received > 0) == ("paused", True)
    window.close()
    assert main(["models", "list"]) == 0
    said = capsys.readouterr().out
    assert "acme/Smol-GGUF Q4_1  unfinished download, " in said
    assert "of 98 MB, paused" in said
    assert main(["models", "list", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["state"], listed["name"]) == ("unfinished", "acme/Smol-GGUF Q4_1")
    assert main(["models", "discard", "other"]) == 1
    assert "other is no unfinished download; there are: acme/Smol-GGUF Q4_1." in capsys.readouterr().err
    assert main(["models", "discard", "ACME/Smol-GGUF", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "discarded": "acme/Smol-GGUF Q4_1",
        "freed_bytes": listed["num_received"],
    }
    assert list((home / "models" / ".downloads").iterdir()) == []
    assert main(["models", "discard", "Q4_1"]) == 1
    assert "there are: none." in capsys.readouterr().err
