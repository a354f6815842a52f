"""A download while the program runs: its thread, its parts, how fast it comes, and the row that a person sees."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from engine.hub.download_record import DownloadRecord, DownloadState
from engine.hub.transfer import Stop, Transfer

RATE_WINDOW_S = 5.0


@dataclass(frozen=True)
class DownloadRow:
    """What a person sees of a download.

    Attributes:
        id: names it to ``Downloads``.
        num_received, size: bytes.
        bytes_per_second: of the last seconds; 0 while nothing comes.
        seconds_left: None where nothing can be said.
        message: what it waits for, or why it stopped; "" where all is well.
        paths: where the finished files lie, or will.
    """

    id: str
    repository: str
    label: str
    state: DownloadState
    num_received: int
    size: int
    bytes_per_second: float
    seconds_left: float | None
    message: str
    paths: tuple[Path, ...]


class DownloadItem:
    """One download of the queue; who changes it holds the queue's lock, but for the thread that works on it.

    Attributes:
        record: what lies on the disk.
        stop: tells the thread to end.
        transfer: of the file that comes at the moment.
        message: what the thread does beside transfers; "" for nothing.
        has_lock: whether this process holds the folder against others.
        is_wrong: indices of files in their place whose content is not the hub's.
    """

    def __init__(self, folder: Path, models_folder: Path, record: DownloadRecord) -> None:
        self.folder = folder
        self.record = record
        self.stop = Stop()
        self.thread: threading.Thread | None = None
        self.transfer: Transfer | None = None
        self.message = ""
        self.is_cancelled = False
        self.has_lock = False
        self.is_wrong: set[int] = set()
        self.targets = tuple(record.target(models_folder, file) for file in record.files)
        self._samples: deque[tuple[float, int]] = deque(maxlen=64)

    def part(self, index: int) -> Path:
        """Where the bytes of a file go."""
        return self.folder / f"{index:05d}.part"

    def num_received(self) -> int:
        """Bytes on the disk, of all files."""
        received = 0
        for index, (file, target) in enumerate(zip(self.record.files, self.targets, strict=True)):
            if index in self.record.checked:
                received += file.size
                continue
            with contextlib.suppress(OSError):
                received += self.part(index).stat().st_size
                continue
            if index not in self.is_wrong and has_size(target, file.size):
                received += file.size
        return received

    def num_missing(self) -> int:
        """Bytes that have still to come."""
        return max(0, self.record.size - self.num_received())

    def forget_rate(self) -> None:
        """What came before a pause says nothing of what comes now."""
        self._samples.clear()

    def row(self) -> DownloadRow:
        """As it is now; takes a sample of how fast it comes."""
        record, transfer = self.record, self.transfer
        received = self.num_received()
        is_running = record.state is DownloadState.RUNNING
        rate = self._rate(received) if is_running else 0.0
        has_all_sizes = all(file.size for file in record.files) and received <= record.size
        message = record.message if not is_running else transfer.message if transfer is not None else self.message
        return DownloadRow(
            id=record.id,
            repository=record.repository,
            label=record.label,
            state=record.state,
            num_received=received,
            size=record.size,
            bytes_per_second=rate,
            seconds_left=(record.size - received) / rate if rate > 0 and has_all_sizes else None,
            message=message,
            paths=self.targets,
        )

    def _rate(self, received: int) -> float:
        """Bytes a second."""
        now = time.monotonic()
        self._samples.append((now, received))
        while len(self._samples) > 2 and now - self._samples[0][0] > RATE_WINDOW_S:
            self._samples.popleft()
        (first, before), elapsed = self._samples[0], now - self._samples[0][0]
        return max(0.0, (received - before) / elapsed) if elapsed > 0.2 and now > first else 0.0


def has_size(path: Path, size: int) -> bool:
    """Whether a file of just so many bytes lies there; one of no bytes never counts."""
    try:
        return size > 0 and path.is_file() and path.stat().st_size == size
    except OSError:
        return False
