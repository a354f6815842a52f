"""A model file's header, fetched by byte ranges and read by the same code as files on disk.

A header is a few hundred kilobytes to some megabytes, so a model of any size can be judged before its download.
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path, PurePosixPath

import httpx2

from engine.errors import CorruptFileError, HubAnswerError, NotGGUFError, TruncatedFileError
from engine.gguf import HEAD_BYTES, HeaderFile, describe_non_model
from engine.gguf.header import Header, read_header
from engine.hub.connection import Connection
from engine.hub.faults import fault_of_exception, host_of
from engine.hub.names import RemoteFile, Version

FIRST_BYTES = 1 << 18
MAX_BYTES = 1 << 26
MAX_PIECES = 32  # that one header comes in: each asks for twice as much as the last
HEADER_S = 120.0  # for all of one header


def fetch_header(connection: Connection, repository: str, revision: str, version: Version) -> HeaderFile:
    """The headers of all files of a version, as one model without its weights.

    Raises HubError, and ModelFileError in one of its kinds for a file that is no sound model.
    """
    headers, paths, sizes = [], [], []
    for index, file in enumerate(version.files):
        path = Path(PurePosixPath(file.path).name)
        url = connection.file_url(repository, file.path, revision)
        header, size = _fetch(connection, url, path, file, index)
        headers.append(header)
        paths.append(path)
        sizes.append(size)
    return HeaderFile(tuple(paths), sizes, headers)


def _fetch(connection: Connection, url: str, path: Path, file: RemoteFile, shard: int) -> tuple[Header, int]:
    """The header of one file and the file's size; reads as much as the header turns out to need."""
    data, size = b"", file.size
    end = time.monotonic() + HEADER_S
    for _ in range(MAX_PIECES):
        stop = max(FIRST_BYTES, 2 * len(data))
        if len(data) >= MAX_BYTES:
            raise CorruptFileError(path, f"its header is longer than {MAX_BYTES >> 20} MB, more than any model has")
        piece, size = _fetch_range(connection, url, file, len(data), stop, end - time.monotonic())
        data += piece
        description = describe_non_model(data[:HEAD_BYTES])
        if description is not None:
            raise NotGGUFError(path, f"this is {description}")
        try:
            return read_header(path, _mapped(data), shard, size), size
        except TruncatedFileError:
            if len(data) >= size or not piece:
                raise
    raise HubAnswerError(f"{host_of(url)} sends {path} in pieces that are too small: try again later.")


def _fetch_range(
    connection: Connection, url: str, file: RemoteFile, start: int, stop: int, within_s: float
) -> tuple[bytes, int]:
    """The bytes ``start`` to ``stop`` and the size of the whole file."""
    name = PurePosixPath(file.path).name
    pieces: list[bytes] = []
    with connection.open(url, name, start, stop, within_s=within_s) as answer:
        size = size_of(answer.response.headers, start) or file.size
        if answer.response.status_code == 200:  # the range was ignored: take the beginning and hang up
            start, skipped = 0, start
        else:
            skipped = 0
            if first_of(answer.response.headers) != start:
                raise HubAnswerError(f"The hub sent another part of {name} than the one asked for.")
        num_bytes = 0
        try:
            for piece in answer.response.iter_raw():
                pieces.append(piece)
                num_bytes += len(piece)
                if num_bytes >= stop - start:
                    break
        except httpx2.HTTPError as error:
            raise fault_of_exception(error, answer.url) from error
    data = b"".join(pieces)[: stop - start][skipped:]
    if not data:
        raise HubAnswerError(f"The hub sent nothing of {name}; try again.")
    return data, max(size, start + skipped + len(data))


def size_of(headers: httpx2.Headers, start: int) -> int:
    """Size of the whole file by the headers of an answer that begins at ``start``; 0 where they do not tell."""
    total = headers.get("content-range", "").rpartition("/")[2].strip()
    if total.isascii() and total.isdigit():
        return int(total)
    length = headers.get("content-length", "")
    return int(length) if "content-range" not in headers and length.isascii() and length.isdigit() else 0


def first_of(headers: httpx2.Headers) -> int:
    """The position of the first byte of a partial answer; -1 where it does not tell."""
    first = headers.get("content-range", "").removeprefix("bytes").strip().partition("-")[0]
    return int(first) if first.isascii() and first.isdigit() else -1


def _mapped(data: bytes) -> mmap.mmap:
    """``data`` as the mapping that the header's reader takes."""
    mapped = mmap.mmap(-1, len(data))
    mapped[:] = data
    return mapped
