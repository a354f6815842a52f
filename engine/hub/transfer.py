"""One file from the hub to the disk: resumed where it stopped, hashed while it streams, tried again when cut.

The bytes go to a ``.part`` file whose length says how far it is; nothing else needs to survive a kill. They are
asked for in ranges of ``BLOCK_BYTES``, so that a transfer that ends leaves at most that much sent in vain.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO

import httpx2

from engine.errors import (
    DamagedDownloadError,
    DiskFullError,
    DownloadError,
    HubAccessError,
    HubAnswerError,
    HubBusyError,
    HubError,
    HubNotFoundError,
    HubUnreachableError,
    RemoteChangedError,
)
from engine.gguf import HEAD_BYTES, describe_non_model
from engine.hub.connection import STALLED_AFTER_S, Answer, Connection
from engine.hub.download_record import DOWNLOADS_FOLDER
from engine.hub.faults import fault_of_exception
from engine.hub.names import RemoteFile
from engine.hub.remote_header import first_of, size_of
from engine.hub.stall import ALIVE_BYTES, StallWatch
from engine.sizes import size_text

BLOCK_BYTES = 32 << 20
READ_BYTES = 1 << 20
MAX_REFUSALS = 1  # a refusal is asked about once more: the address behind the hub's may have run out
_SHA256 = re.compile(r'"?([0-9a-f]{64})"?', re.I)
_VALIDATORS = ("x-linked-etag", "etag")  # headers that change with the content
_NO_ROOM = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


class Stopped(Exception):  # noqa: N818  # not an error: it was asked for
    """The transfer was told to stop; what it has is on the disk."""


class _SleptError(HubUnreachableError):
    """The connection did not outlive a sleep of this computer."""


class Stop:
    """Tells a transfer to stop, from any thread, and wakes it where it waits for bytes."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._cut: Callable[[], None] = lambda: None

    def set(self) -> None:
        """Stop now."""
        self._event.set()
        with self._lock:
            self._cut()

    @property
    def is_set(self) -> bool:
        """Whether it was told to stop."""
        return self._event.is_set()

    def check(self) -> None:
        """Raises Stopped when told to stop."""
        if self._event.is_set():
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Wait; raises Stopped as soon as told to stop."""
        if self._event.wait(seconds):
            raise Stopped

    @contextlib.contextmanager
    def watching(self, cut: Callable[[], None]) -> Iterator[None]:
        """Meanwhile ``cut`` is called when told to stop."""
        with self._lock:
            self._cut = cut
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._cut = lambda: None


@dataclass(frozen=True)
class RetryPolicy:
    """When to try again: after ``first_s``, then twice as long each time up to ``longest_s``.

    Attributes:
        max_failures: so many in a row end the transfer.
        longest_asked_s: a hub that asks to wait longer ends it, too.
    """

    first_s: float = 1.0
    longest_s: float = 60.0
    max_failures: int = 8
    longest_asked_s: float = 900.0
    stalled_after_s: float = STALLED_AFTER_S

    def delay_s(self, failures: int, error: HubError) -> float:
        """How long to wait after so many failures in a row; raises ``error`` where it is final."""
        asked = error.retry_after_s if isinstance(error, HubBusyError) else None
        if failures > self.max_failures or (asked or 0.0) > self.longest_asked_s:
            raise error
        return max(asked or 0.0, min(self.longest_s, self.first_s * 2.0 ** (failures - 1)))


OnLearned = Callable[[RemoteFile, dict[str, str]], None]


class Transfer:
    """The transfer of one file.

    What the hub's list did not say of the file, its answer may: ``on_learned`` is told, before a byte is kept, the
    file as it is known now and the ``validators``, which tell a changed file where no hash does. They are to be
    given again to the transfer that goes on with the part.

    Attributes:
        num_received: bytes that the part has.
        message: what it waits for; "" while bytes come.
    """

    def __init__(
        self,
        connection: Connection,
        url: str,
        file: RemoteFile,
        part: Path,
        *,
        stop: Stop | None = None,
        policy: RetryPolicy | None = None,
        on_change: Callable[[], None] = lambda: None,
        validators: Mapping[str, str] | None = None,
        on_learned: OnLearned = lambda file, validators: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.num_received = 0
        self.message = ""
        self._connection = connection
        self._url = url
        self._direct_url = ""  # where the hub sends us, used until it is refused
        self._file = file
        self._name = PurePosixPath(file.path).name
        self._part = part
        self._stop = stop or Stop()
        self._policy = policy or RetryPolicy()
        self._on_change = on_change
        self._size = file.size
        self._sha256 = file.sha256
        self._hash = hashlib.sha256()
        self._validators = dict(validators or {})
        self._on_learned = on_learned
        self._clock = clock

    def run(self) -> None:
        """Return when the part is complete and its hash is right.

        Damaged bytes are fetched once more from the start. Raises Stopped, HubError and DownloadError in their
        kinds; what was received stays for the next time, except where it is wrong.
        """
        try:
            for is_last_try in (False, True):
                self._hash_part()
                self._receive_all()
                if not self._sha256 or self._hash.hexdigest() == self._sha256:
                    return
                self._part.unlink(missing_ok=True)
                self._direct_url = ""  # the hub may have another file by now
                if not is_last_try:
                    self._say("It came damaged and is fetched once more")
        except OSError as error:
            raise disk_fault(error, self._part, self._size - self.num_received) from error
        raise DamagedDownloadError(
            f"{self._name} came damaged twice: its checksum is not the one that the hub states. It was deleted; "
            "try again later, or choose another model."
        )

    def _say(self, message: str) -> None:
        if message != self.message:
            self.message = message
            self._on_change()

    def _hash_part(self) -> None:
        """Take up what is there already."""
        self._hash = hashlib.sha256()
        self.num_received = 0
        if not self._part.exists():
            return
        if self._size and self._part.stat().st_size > self._size:
            self._part.unlink()
            return
        self._say("Checking what is here already")
        with open(self._part, "rb") as stream:
            while piece := stream.read(READ_BYTES):
                self._stop.check()
                self._hash.update(piece)
                self.num_received += len(piece)
        self._say("")

    def _receive_all(self) -> None:
        failures = refusals = 0
        while not self._size or self.num_received < self._size:
            self._stop.check()
            before = self.num_received
            try:
                self._receive_block()
                failures = refusals = 0
            except HubError as error:
                self._stop.check()
                self._direct_url = ""  # its signature may have run out
                if isinstance(error, _SleptError):
                    continue  # nobody failed: it is asked for anew at once
                if self.num_received - before >= ALIVE_BYTES:
                    failures = refusals = 0
                failures += 1
                refusals += isinstance(error, HubAccessError | HubNotFoundError | HubAnswerError)
                if refusals > MAX_REFUSALS:
                    raise
                self._wait(self._policy.delay_s(failures, error), error, failures)
        self._stop.check()
        with open(self._part, "ab") as stream:
            os.fsync(stream.fileno())

    def _wait(self, seconds: float, error: HubError, failures: int) -> None:
        reason = "Waiting for the network" if isinstance(error, HubUnreachableError) else "Waiting for the hub"
        self._say(f"{reason}: try {failures} of {self._policy.max_failures} in {max(seconds, 1):.0f} s. {error}")
        self._stop.wait(seconds)

    def _receive_block(self) -> None:
        start = self.num_received
        stop = min(start + BLOCK_BYTES, self._size or start + BLOCK_BYTES)
        with (
            self._stop.watching(self._connection.cut),
            self._connection.open(self._direct_url or self._url, self._name, start, stop) as answer,
        ):
            self._check(answer, start)
            is_whole = answer.response.status_code == 200  # the range was ignored: take all of it at once
            skipped, stop = (start, self._size) if is_whole else (0, min(stop, self._size))
            watch = StallWatch(self._policy.stalled_after_s, self._connection.read_timeout_s, self._clock)
            with open(self._part, "ab", buffering=0) as stream:
                try:
                    self._append(answer, stream, watch, skipped, stop)
                except (httpx2.HTTPError, httpx2.StreamError) as error:
                    self._stop.check()
                    if watch.has_slept:
                        raise _SleptError(
                            f"The connection for {self._name} ended while this computer slept."
                        ) from error
                    raise fault_of_exception(error, answer.url) from error
            if answer.url != self._url:
                self._direct_url = answer.url

    def _check(self, answer: Answer, start: int) -> None:
        """Hold the answer against what the hub promised, before a byte of it is kept."""
        headers = answer.response.headers
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise HubAnswerError(f"Something on the way to the hub packs {self._name}: turn such a proxy off.")
        linked = _SHA256.fullmatch(answer.linked.get("x-linked-etag", ""))
        if linked and self._sha256 and linked[1].lower() != self._sha256:
            raise self._changed()
        if linked and not self._sha256:
            self._sha256 = linked[1].lower()
        if answer.response.status_code == 206 and first_of(headers) != start:
            raise HubAnswerError(f"The hub sent another part of {self._name} than the one asked for.")
        size = size_of(headers, start)
        if not self._size:
            self._size = size
        if not self._size:
            if headers.get("content-length") == "0":
                raise HubAnswerError(f"{self._name} is empty at the hub: choose another version.")
            raise HubAnswerError(f"The hub does not say how large {self._name} is: choose another version.")
        linked_size = answer.linked.get("x-linked-size", str(self._size))
        is_part = answer.response.status_code == 206
        if linked_size != str(self._size) or (is_part and size not in {0, self._size}):
            raise self._changed()
        self._check_validators(answer)

    def _check_validators(self, answer: Answer) -> None:
        """Two files of one name and size are told apart by the hub's marks where it states no hash."""
        given = {**answer.response.headers, **answer.linked}
        validators = {name: given[name] for name in _VALIDATORS if given.get(name)} if not self._sha256 else {}
        if self.num_received and any(self._validators.get(name, mark) != mark for name, mark in validators.items()):
            raise self._changed()
        known = replace(self._file, size=self._size, sha256=self._sha256)
        if known != self._file or (self._validators | validators) != self._validators:
            self._file, self._validators = known, self._validators | validators
            self._on_learned(known, self._validators)

    def _append(self, answer: Answer, stream: IO[bytes], watch: StallWatch, skipped: int, stop: int) -> None:
        """Write what comes up to ``stop``, but for the first ``skipped`` bytes, which are here already."""
        num_bytes = 0
        is_beginning = skipped > 0 or not self.num_received
        for raw in answer.response.iter_raw():
            self._stop.check()
            if is_beginning and not num_bytes:
                self._check_head(raw)
                self._check_length(answer)
            num_bytes += len(raw)
            piece = raw[max(0, skipped - (num_bytes - len(raw))) :] if num_bytes > skipped else b""
            piece = piece[: self._size - self.num_received]
            if piece:
                self._write(stream, piece)
            if watch.is_stalled(num_bytes):
                raise HubUnreachableError(f"{self._name} stalled: hardly a byte came any more.")
            if self.num_received >= stop:
                return
        if self.num_received < stop:
            raise HubUnreachableError(f"The connection ended before {self._name} was complete.")

    def _check_head(self, head: bytes) -> None:
        """A sign-in page or an error message in place of a model is known by its first bytes."""
        if self._name.lower().endswith(".gguf") and len(head) >= len(b"GGUF"):
            description = describe_non_model(head[:HEAD_BYTES])
            if description is not None:
                raise HubAnswerError(f"What came in place of {self._name} is {description}.")

    def _check_length(self, answer: Answer) -> None:
        """A whole file in place of the range has the file's own length, or it is something else."""
        size = size_of(answer.response.headers, 0)
        if answer.response.status_code == 200 and size not in {0, self._size}:
            raise HubAnswerError(f"What came in place of {self._name} is something else, of {size:,} bytes.")

    def _write(self, stream: IO[bytes], piece: bytes) -> None:
        written = 0
        while written < len(piece):
            count = stream.write(piece[written:])
            self._hash.update(piece[written : written + count])
            written += count
            self.num_received += count
        self._say("")

    def _changed(self) -> RemoteChangedError:
        return RemoteChangedError(f"{self._name} is another file at the hub now: fetch the new one from the start.")


def disk_fault(error: OSError, path: Path, missing_bytes: int) -> DownloadError:
    """The error of a disk that refused to take a file."""
    folder = next((place.parent for place in path.parents if place.name == DOWNLOADS_FOLDER), path.parent)
    if error.errno in _NO_ROOM:
        room = size_text(missing_bytes) if missing_bytes > 0 else "some space"
        return DiskFullError(f"The disk of {folder} is full: free {room} and go on.", missing_bytes)
    if error.errno == errno.EFBIG:
        return DownloadError(
            f"The disk of {folder} cannot hold so large a file: move the models folder to another one."
        )
    return DownloadError(f"{path.name} cannot be written in {path.parent}: {error.strerror or error}.")
