from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.logs import LogFile


class _FullDisk:
    """A file of a disk without room, until there is some."""

    def __init__(self) -> None:
        self.is_full = True
        self.text = ""

    def write(self, text: str) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.text += text

    def seek(self, *_place: int) -> None: ...

    def tell(self) -> int:
        return len(self.text)

    def flush(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def disk() -> _FullDisk:
    return _FullDisk()


@pytest.fixture
def log(tmp_path: Path, disk: _FullDisk) -> Iterator[logging.Logger]:
    handler = LogFile(tmp_path / "fireside.log")
    assert handler.stream is not None
    handler.stream.close()
    handler.stream = disk  # type: ignore[assignment]
    log = logging.Logger("of a full disk")
    log.addHandler(handler)
    yield log
    handler.close()


def test_a_full_disk_is_said_once_in_one_line(
    log: logging.Logger, disk: _FullDisk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        log.warning("a warning")
    said = f"The log file cannot be written (No space left on device): {tmp_path / 'fireside.log'}\n"
    assert capsys.readouterr().err == said
    disk.is_full = False
    log.warning("there is room")
    assert disk.text == "there is room\n"
    disk.is_full = True
    log.warning("again")
    assert capsys.readouterr().err == said, "it is another time"


def test_a_mistake_in_a_call_is_shown_with_its_place(
    log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log.warning("%d", "no number")
    assert "Logging error" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_it_ends_quietly_on_a_full_disk(capsys: pytest.CaptureFixture[str]) -> None:
    handler = LogFile(Path("/dev/full"))
    log = logging.Logger("of a full device")
    log.addHandler(handler)
    log.warning("first")
    log.warning("second")
    handler.flush()  # as logging.shutdown does, which closes nothing where this fails
    with pytest.raises(OSError, match="No space"):
        handler.close()
    assert len(capsys.readouterr().err.splitlines()) == 1
