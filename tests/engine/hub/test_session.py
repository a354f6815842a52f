"""Questions to the hub: who gets the token, and that each of them ends."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from engine.errors import HubAccessError, HubAnswerError, HubError, HubNotFoundError, HubUnreachableError
from engine.hub import session
from engine.hub.client import HubClient
from engine.hub.filters import SearchFilter
from engine.hub.http_client import new_http
from engine.hub.session import Question
from tests.engine.hub.dripping import dripping_server
from tests.engine.hub.loopback import TOKEN, Fault, LoopbackHub

Connect = Callable[..., HubClient]


def _page(url: str, body: bytes = b"[]") -> Fault:
    return Fault(status=200, body=body, headers={"Link": f'<{url}>; rel="next"'})


# ---------------------------------------------------------------------------------------------- the token


def test_the_token_does_not_follow_the_next_page_elsewhere(hub: LoopbackHub, connect: Connect) -> None:
    hub.faults["api"] = [_page(f"{hub.store_url}/api/models?page")]
    with pytest.raises(HubError):
        list(connect(hub.url, TOKEN).search())
    assert [request.authorization for request in hub.asked("hub")] == [f"Bearer {TOKEN}"]
    assert [request.authorization for request in hub.asked("store")][:1] == [None]


def test_nor_the_next_page_of_where_a_redirect_led(hub: LoopbackHub, connect: Connect) -> None:
    hub.faults["api"] = [Fault(status=307, headers={"Location": f"{hub.store_url}/api/models"})]
    hub.faults["store"] = [_page(f"{hub.store_url}/api/models?page")]
    with pytest.raises(HubError):
        list(connect(hub.url, TOKEN).search())
    assert [request.authorization for request in hub.asked("hub")] == [f"Bearer {TOKEN}"]
    assert [request.authorization for request in hub.asked("store")][:2] == [None, None]


def test_the_token_stays_with_the_pages_of_the_hub(hub: LoopbackHub, connect: Connect) -> None:
    for number in range(3):
        hub.add(f"acme/m-{number}", {})
    assert len(list(connect(hub.url, TOKEN).search())) == 3
    assert [request.authorization for request in hub.asked("hub")] == [f"Bearer {TOKEN}"] * 2


@pytest.mark.parametrize("place", ["http://hub.example/api/models", "ftp://hub.example/"])
def test_a_secure_hub_sends_nobody_to_a_plain_address(place: str) -> None:

    with pytest.raises(HubAnswerError, match="not safe"):
        Question("https://hub.example").admit(httpx2.Request("GET", place))


@pytest.mark.parametrize("token", ["two\nlines", "sécret", "with space", "x" * 501, "a\x01b", "\udce4"])
def test_a_token_that_cannot_be_one_is_blamed(connect: Connect, token: str) -> None:
    with pytest.raises(HubAccessError, match=r"^The access token has characters that no token has"):
        connect("http://127.0.0.1:1", token)


# ---------------------------------------------------------------------------------------------- an end


@pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\nX-A: ", b"HTTP/1.1 200 OK\r\n\r\n["])
def test_an_answer_that_drips_for_ever_ends(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    monkeypatch.setattr(session, "QUESTION_S", 0.3)
    with dripping_server(beginning) as url:
        client = connect(url)
        with pytest.raises(HubUnreachableError, match=r"did not answer in time"):
            list(client.search())
        with pytest.raises(HubUnreachableError, match=r"did not answer in time"):
            client.repository("acme/m")


def test_empty_pages_without_end_are_named(hub: LoopbackHub, connect: Connect) -> None:
    hub.always["api"] = _page(f"{hub.url}/api/models?more")
    with pytest.raises(HubAnswerError, match="page after page with nothing on it"):
        list(connect(hub.url).search())
    assert len(hub.log) == session.MAX_EMPTY_PAGES


@pytest.mark.parametrize("is_packed", [False, True])
def test_an_answer_without_measure_is_named(
    hub: LoopbackHub, connect: Connect, monkeypatch: pytest.MonkeyPatch, is_packed: bool
) -> None:
    monkeypatch.setattr(session, "MAX_ANSWER_BYTES", 1 << 20)
    body = b" " * ((1 << 20) + 1)
    headers = {"Content-Encoding": "gzip"} if is_packed else {}
    hub.faults["api"] = [Fault(status=200, body=gzip.compress(body) if is_packed else body, headers=headers)]
    with pytest.raises(HubAnswerError, match="more than 1 MB, which is not what a hub sends"):
        list(connect(hub.url).search())


# ---------------------------------------------------------------------------------------------- what is to blame


@pytest.mark.parametrize(
    ("proxy", "shown"),
    [
        ("socks5://name:secret@127.0.0.1:9", "socks5://127.0.0.1:9"),
        ("foo://x", "foo://x"),
        ("http://name:secret@127.0.0.1:port", "http://127.0.0.1:port"),
    ],
)
@pytest.mark.parametrize("name", ["ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"])
def test_a_proxy_that_cannot_be_used_is_named(
    hub: LoopbackHub, connect: Connect, monkeypatch: pytest.MonkeyPatch, name: str, proxy: str, shown: str
) -> None:
    monkeypatch.setenv(name, proxy)
    client = connect(hub.url)
    with pytest.raises(HubUnreachableError) as caught:
        list(client.search())
    assert str(caught.value).startswith(f"The proxy {shown} cannot be used: write it as http://host:port")
    with (
        pytest.raises(HubUnreachableError, match=r"The proxy .* cannot be used"),
        client.connection.open(f"{hub.url}/x", "x"),
    ):
        pass


def test_certificates_that_are_none_are_named(
    hub: LoopbackHub, connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate")
    for path in (empty, tmp_path / "missing.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        named = r"^No certificates can be read from .*SSL_CERT_FILE"
        with pytest.raises(HubUnreachableError, match=named):
            list(connect(hub.url).search())
        with pytest.raises(HubUnreachableError, match=named):
            new_http(httpx2.Client)


def test_words_that_are_no_text_are_blamed(connect: Connect) -> None:
    client = connect("http://127.0.0.1:1")
    with pytest.raises(HubNotFoundError, match="What to search for"):
        list(client.search("\udcff"))
    with pytest.raises(HubNotFoundError, match="What to search for"):
        list(client.search(wanted=SearchFilter(author="\udcff")))
    with pytest.raises(HubAnswerError, match="no address"):
        connect("http://\udcff")
