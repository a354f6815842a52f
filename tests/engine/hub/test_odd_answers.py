"""Answers that drip, come in crumbs or are odd just once: each question ends, nothing received is thrown away."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from engine.errors import HubAnswerError, HubUnreachableError
from engine.hub import connection as connection_module
from engine.hub import remote_header
from engine.hub.client import HubClient
from engine.hub.download_record import DownloadState
from engine.hub.downloads import Downloads
from engine.hub.names import RemoteFile, Version
from engine.hub.remote_header import MAX_PIECES, fetch_header
from tests.engine.hub.dripping import dripping_server
from tests.engine.hub.loopback import Fault, LoopbackHub
from tests.engine.hub.person import QUICK, Person

HEADERS = b"HTTP/1.1 200 OK\r\nX-A: "
BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nGGUF"
VERSION = Version("Q4_0", "Q4_0", (RemoteFile("m-Q4_0.gguf", 1_000_000, "0" * 64),))


@pytest.mark.parametrize("beginning", [HEADERS, BODY])
def test_a_header_that_drips_for_ever_ends(monkeypatch: pytest.MonkeyPatch, beginning: bytes) -> None:
    monkeypatch.setattr(remote_header, "HEADER_S", 0.3)
    with (
        dripping_server(beginning) as url,
        HubClient(url) as client,
        pytest.raises(HubUnreachableError, match=r"did not answer in time"),
    ):
        fetch_header(client.connection, "acme/m", "main", VERSION)


def test_the_headers_of_a_download_that_drip_are_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(connection_module, "ANSWER_S", 0.1)
    with dripping_server(HEADERS) as url:
        downloads = Downloads(tmp_path, HubClient, policy=QUICK)
        downloads.add(url, "acme/m", "main", VERSION)
        deadline = time.monotonic() + 120
        while downloads.rows()[0].state is not DownloadState.FAILED and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "did not answer in time" in downloads.rows()[0].message
        downloads.close()


def test_pause_wakes_a_download_that_waits_for_headers(tmp_path: Path) -> None:
    with dripping_server(HEADERS) as url:
        downloads = Downloads(tmp_path, HubClient, policy=QUICK)
        download = downloads.add(url, "acme/m", "main", VERSION)
        (item,) = downloads._items.values()
        thread = item.thread
        assert thread is not None
        time.sleep(0.2)  # it waits for the headers by now; paused before, it ends all the same
        downloads.pause(download)
        thread.join(60)
        assert not thread.is_alive()
        assert downloads.rows()[0].state is DownloadState.PAUSED
        downloads.close()


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_handshake_that_drips_ends(monkeypatch: pytest.MonkeyPatch, is_cut: bool) -> None:
    """A server's hello of 16 kB, byte by byte, takes an hour: it is in the hands of the TLS library meanwhile."""
    monkeypatch.setattr(connection_module, "CONNECT_TIMEOUT_S", 7200.0)
    monkeypatch.setattr(connection_module, "ANSWER_S", 7200.0 if is_cut else 0.2)
    with dripping_server(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xf0", b"\0", pause_s=0.2) as url:
        connection = connection_module.Connection(url.replace("http://", "https://"))
        timer = threading.Timer(0.3, connection.cut)
        if is_cut:
            timer.start()
        with (
            pytest.raises(HubUnreachableError),
            connection.open(f"{connection.endpoint}/x", "x"),
        ):
            pass
        timer.cancel()
        connection.close()


@pytest.mark.parametrize("starts", ["right", "wrong"])
def test_a_header_in_crumbs_is_given_up(hub: LoopbackHub, model_bytes: bytes, starts: str) -> None:
    hub.add("acme/m", {"m-Q4_0.gguf": model_bytes})

    def crumb(start: int) -> Fault:
        headers = {"Content-Range": f"bytes {start}-{start + 3}/{len(model_bytes)}"}
        return Fault(status=206, body=model_bytes[start : start + 4], headers=headers)

    hub.faults["store"] = [crumb(4 * number if starts == "right" else 0) for number in range(MAX_PIECES + 1)]
    with HubClient(hub.url) as client:
        version = client.repository("acme/m").groups.versions[0]
        with pytest.raises(HubAnswerError, match="too small" if starts == "right" else "another part"):
            fetch_header(client.connection, "acme/m", "main", version)
    assert len(hub.asked("store")) == (MAX_PIECES if starts == "right" else 2)


@pytest.mark.parametrize(
    ("role", "odd"),
    [
        ("store", Fault(status=416, headers={"Content-Range": "bytes */10"})),
        ("store", Fault(headers={"Content-Range": "bytes 500000-600000/777777"})),
        ("resolve", Fault(headers={"X-Linked-ETag": f'"{"0" * 64}"'})),
        ("resolve", Fault(headers={"X-Linked-Size": "5"})),
    ],
    ids=["416", "total", "etag", "size"],
)
def test_one_odd_answer_throws_nothing_away(person: Person, model_bytes: bytes, role: str, odd: Fault) -> None:
    person.hub.faults["store"] = [Fault(cut_after=500_000), *([odd] if role == "store" else [])]
    person.hub.faults["resolve"] = [None, *([odd] if role == "resolve" else [])]
    person.add()
    row = person.wait(DownloadState.DONE, DownloadState.FAILED)
    assert row.state is DownloadState.DONE, row.message
    assert person.has(model_bytes)
    assert [request.range for request in person.hub.asked("store")][-1] == f"bytes=500000-{len(model_bytes) - 1}"


def test_time_is_told_once_an_answer_says_the_size(person: Person, model_bytes: bytes) -> None:
    person.hub.always["store"] = Fault(pause_s=0.02)
    version = Version("Q4_0", "Q4_0", (RemoteFile("m-Q4_0.gguf", 0),))
    person.downloads.add(person.hub.url, "acme/m", person.hub.repositories["acme/m"]["sha"], version)
    assert person.row().seconds_left is None
    row = person.wait_for(lambda row: row.bytes_per_second > 0)
    assert row.size == len(model_bytes)
    assert row.seconds_left is not None
