"""Downloads as a person uses them, against the loopback hub, with waits that end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.hub.client import HubClient
from engine.hub.download_item import DownloadRow
from engine.hub.download_record import DownloadState
from engine.hub.downloads import Downloads
from engine.hub.transfer import RetryPolicy
from tests.engine.hub.loopback import TOKEN, LoopbackHub

QUICK = RetryPolicy(first_s=0.01, longest_s=0.05, max_failures=4)
IMPATIENT = replace(QUICK, stalled_after_s=0.4)  # for what must stall: on a busy machine the best of hubs may pause
DEADLINE_S = 120.0


class Person:
    """One person, one hub, one models folder."""

    def __init__(self, hub: LoopbackHub, folder: Path, token: str = "", policy: RetryPolicy = QUICK) -> None:
        self.hub, self.folder, self.token = hub, folder, token
        self.done: list[DownloadRow] = []
        self.downloads = Downloads(folder, self._connect, on_done=self.done.append, policy=policy)

    def _connect(self, endpoint: str) -> HubClient:
        return HubClient(endpoint, self.token)

    def add(self, name: str = "acme/m", label: str | None = None) -> str:
        with HubClient(self.hub.url, self.token or TOKEN) as client:
            repository = client.repository(name)
        version = next(v for v in repository.groups.versions if label is None or v.label == label)
        return self.downloads.add(self.hub.url, name, repository.revision, version)

    def row(self) -> DownloadRow:
        (row,) = self.downloads.rows()
        return row

    def thread(self) -> threading.Thread:
        """That of the only download, which runs."""
        (item,) = self.downloads._items.values()
        assert item.thread is not None
        return item.thread

    def wait(self, *states: DownloadState) -> DownloadRow:
        """Until the only download is in one of the states, or gone where DONE is one of them."""
        return self.wait_for(lambda row: row.state in states)

    def wait_for(self, condition: Callable[[DownloadRow], bool]) -> DownloadRow:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            rows = self.downloads.rows() or self.done[-1:]
            if rows and condition(rows[0]):
                return rows[0]
            time.sleep(0.005)
        raise AssertionError(f"it stays at {self.downloads.rows()}")

    def path(self, name: str = "m-Q4_0.gguf") -> Path:
        return self.folder / "acme" / "m" / name

    def has(self, data: bytes, name: str = "m-Q4_0.gguf") -> bool:
        """Whether the file is there with this content, and no part of it."""
        return self.path(name).read_bytes() == data and not list(self.folder.rglob("*.part"))
