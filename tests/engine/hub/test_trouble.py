"""What hubs, networks, proxies and disks do worst: each is got over, or named with what to do about it."""

from __future__ import annotations

import datetime
import email.utils
import gzip
import ipaddress
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engine.errors import HubAnswerError, HubError, HubUnreachableError
from engine.hub import transfer as transfer_module
from engine.hub.client import HubClient
from engine.hub.download_record import DownloadState
from engine.hub.faults import fault_of_status, retry_after_s
from tests.engine.hub import random_trouble
from tests.engine.hub.loopback import TOKEN, Fault, LoopbackHub, loopback_hub
from tests.engine.hub.person import Person

Connect = Callable[..., HubClient]


# ---------------------------------------------------------------------------------------------- the way there


@pytest.fixture
def proxy() -> Iterator[ThreadingHTTPServer]:
    """A proxy that wants to know who asks; its own status can be set."""

    class Handler(BaseHTTPRequestHandler):
        def refuse(self) -> None:
            self.send_response(server.status, "no way")  # type: ignore[attr-defined]
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_CONNECT = refuse  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.status = 407  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def _through(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://somebody:secret@127.0.0.1:{port}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("status", "url", "words"),
    [
        (407, "http://hub.invalid", "proxy asks for a name and a password"),
        (407, "https://hub.invalid", "proxy asks for a name and a password"),
        (502, "http://hub.invalid", "in trouble .it answered 502"),
        (503, "https://hub.invalid", "proxy .*hub.invalid.*503"),
    ],
)
def test_a_proxy_that_refuses_is_named(
    proxy: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch, connect: Connect, status: int, url: str, words: str
) -> None:
    proxy.status = status  # type: ignore[attr-defined]
    _through(monkeypatch, proxy.server_address[1])
    with pytest.raises(HubError, match=words) as caught:
        list(connect(url).search())
    assert "secret" not in str(caught.value)
    with pytest.raises(HubError, match=words), connect(url).connection.open(f"{url}/x", "x"):
        pass


def test_a_proxy_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, connect: Connect) -> None:
    _through(monkeypatch, 9)  # discard: nobody listens
    with pytest.raises(HubUnreachableError, match=r"proxy 127.0.0.1:9, which leads to hub.invalid") as caught:
        list(connect("http://hub.invalid").search())
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("no_proxy", "hub.invalid")
    with pytest.raises(HubUnreachableError, match=r"hub.invalid cannot be found"):
        list(connect("http://hub.invalid").search())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate for 127.0.0.1, signed by itself."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def secure_hub(certificate: Path) -> Iterator[LoopbackHub]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with loopback_hub(context) as running:
        yield running


def test_a_certificate_that_nobody_vouches_for_is_named(secure_hub: LoopbackHub, connect: Connect) -> None:
    client = connect(secure_hub.url)
    with pytest.raises(HubUnreachableError, match=r"certificate of 127.0.0.1 is not trusted here.*SSL_CERT_FILE"):
        list(client.search())
    with (
        pytest.raises(HubUnreachableError, match=r"certificate of 127.0.0.1 is not trusted here"),
        client.connection.open(f"{secure_hub.url}/x", "x"),
    ):
        pass
    assert secure_hub.log == []


def test_a_certificate_that_the_person_names_is_trusted(
    secure_hub: LoopbackHub, certificate: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model_bytes: bytes
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    secure_hub.add("acme/m", {"m-Q4_0.gguf": model_bytes})
    person = Person(secure_hub, tmp_path / "models")
    person.add()
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)
    person.downloads.close()


def test_cancel_and_pause_wake_a_secure_connection(
    secure_hub: LoopbackHub, certificate: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model_bytes: bytes
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    secure_hub.add("acme/m", {"m-Q4_0.gguf": model_bytes})
    secure_hub.always["store"] = Fault(pause_s=300.0)
    person = Person(secure_hub, tmp_path / "models")
    download = person.add()
    person.wait_for(lambda row: row.num_received > 0)
    person.downloads.pause(download)
    person.wait_for(lambda row: person.downloads.is_idle())
    thread = person.thread()
    thread.join(15)
    assert not thread.is_alive(), "it waits for the hub no more"
    person.downloads.cancel(download)
    assert person.downloads.rows() == []
    person.downloads.close()


def test_a_plain_hub_behind_a_secure_address_is_named(hub: LoopbackHub, connect: Connect) -> None:
    with pytest.raises(HubUnreachableError, match=r"No secure connection to 127.0.0.1.*begins with http://"):
        list(connect(hub.url.replace("http:", "https:")).search())


# ---------------------------------------------------------------------------------------------- answers


def test_a_ring_of_redirects_ends(person: Person, connect: Connect) -> None:
    hub = person.hub
    hub.always["resolve"] = Fault(headers={"Location": f"{hub.url}/acme/m/resolve/main/m-Q4_0.gguf"})
    person.add()
    row = person.wait(DownloadState.FAILED)
    assert "sends us in circles for m-Q4_0.gguf" in row.message
    hub.always["api"] = Fault(status=302, headers={"Location": f"{hub.url}/api/models"})
    with pytest.raises(HubAnswerError, match=r"sends us in circles"):
        list(connect(hub.url).search())


@pytest.mark.parametrize("place", ["http://[", "//[x/", "http://a b/", "data:,x", "", "http://127.0.0.1:99999/"])
def test_a_redirect_to_nonsense_is_named(person: Person, place: str) -> None:
    person.hub.always["resolve"] = Fault(status=302, headers={"Location": place})
    person.add()
    row = person.wait(DownloadState.FAILED)
    assert re.search("not safe|in circles|no address|not reached|cannot be", row.message), row.message


@pytest.mark.parametrize("address", ["http://[", "hub", "http://", "http://a b", "ftp://hub", "http://hub:99999"])
def test_a_hub_that_has_no_address_is_named(connect: Connect, address: str) -> None:
    with pytest.raises(
        HubError, match=rf"^{re.escape(repr(address.rstrip('/')))} is no address of a hub: write it as https"
    ):
        connect(address)


def test_the_token_does_not_follow_a_search_elsewhere(hub: LoopbackHub, connect: Connect) -> None:
    hub.always["api"] = Fault(status=307, headers={"Location": f"{hub.store_url}/api/models"})
    with pytest.raises(HubError):
        list(connect(hub.url, TOKEN).search())
    assert [request.authorization for request in hub.asked("hub")] == [f"Bearer {TOKEN}"]
    assert [request.authorization for request in hub.asked("store")] == [None]


@pytest.mark.parametrize(
    "faults",
    [
        [Fault(is_chunked=True)],
        [Fault(is_chunked=True, cut_after=1_000_000)],
        [Fault(cut_after=300_000), Fault(status=200, body=b"<html>Sign in</html>" * 50)],
        [Fault(cut_after=3000), Fault(status=200, body=b"{}" * 4000)],  # longer than what is here, and no page
        [Fault(headers={"Content-Encoding": "gzip"}, cut_after=1000)],
        [Fault(headers={"Content-Length": "a lot"})],
        [Fault(headers={"Content-Range": "bytes */3"})],
        [Fault(piece=2048, pause_s=0.01, cut_after=200_000)],  # a drip, but it lives
        [Fault(status=204), Fault(status=204)][:1],
    ],
    ids=lambda faults: str([fault.headers or fault.status or fault.cut_after for fault in faults]),
)
def test_answers_that_make_no_sense_are_asked_for_again(
    person: Person, model_bytes: bytes, faults: list[Fault]
) -> None:
    person.hub.faults["store"] = list(faults)
    person.add()
    row = person.wait(DownloadState.DONE, DownloadState.FAILED)
    assert row.state is DownloadState.DONE, row.message
    assert person.has(model_bytes)
    assert person.hub.num_sent <= 2 * len(model_bytes)


def test_a_page_in_place_of_the_rest_is_not_appended(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["store"] = [Fault(cut_after=3000), *[Fault(status=200, body=b"GGUF" * 2000)] * 9]
    person.add()
    row = person.wait(DownloadState.FAILED)
    assert "something else, of 8,000 bytes" in row.message
    assert row.num_received == 3000
    person.hub.faults["store"].clear()
    person.downloads.resume(row.id)
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)


def test_a_pointer_in_place_of_the_file_is_named(person: Person) -> None:
    """What a mirror without the large files has: the text that stands for one."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 3000000\n"
    person.hub.always["store"] = Fault(status=200, body=pointer)
    person.add()
    row = person.wait(DownloadState.FAILED)
    assert "What came in place of m-Q4_0.gguf is" in row.message
    assert "pointer" in row.message
    assert row.num_received == 0


def test_a_packed_answer_that_ends_too_early_is_named(hub: LoopbackHub, connect: Connect) -> None:
    packed = gzip.compress(b"[" + b"{}," * 1000 + b"{}]")
    for body in (packed[:-20], packed[:10], b"no gzip at all"):
        hub.faults["api"] = [Fault(status=200, body=body, headers={"Content-Encoding": "gzip"})]
        with pytest.raises(HubError, match=r"cannot be decoded|not what a hub sends"):
            list(connect(hub.url).search())


def test_the_content_changes_between_two_blocks(
    person: Person, model_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address stays, and with it what the store said before: only the hash can tell."""
    monkeypatch.setattr(transfer_module, "BLOCK_BYTES", 1 << 20)
    changed = model_bytes[:-10] + bytes(10)
    hub = person.hub
    hub.always["store"] = Fault(pause_s=0.002)
    person.add()
    person.wait_for(lambda row: row.num_received > 100_000)
    hashes, revision = (hub.repositories["acme/m"][name] for name in ("hashes", "sha"))
    hub.add("acme/m", {"m-Q4_0.gguf": changed})
    hub.repositories["acme/m"]["sha"] = revision
    hub.blobs[hashes["m-Q4_0.gguf"]] = changed
    hub.always.clear()
    row = person.wait(DownloadState.DONE, DownloadState.FAILED)
    assert row.state is DownloadState.DONE, row.message
    assert person.has(changed)


def test_a_new_etag_begins_anew(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["resolve"] = [None, Fault(headers={"X-Linked-ETag": f'"{"0" * 64}"'}), None]
    person.hub.faults["store"] = [Fault(cut_after=500_000)]
    person.add()
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)


def test_an_empty_file_is_named(person: Person) -> None:
    person.hub.add("acme/m", {"m-Q4_0.gguf": b""})
    person.add()
    row = person.wait(DownloadState.FAILED)
    assert row.message == "m-Q4_0.gguf is empty at the hub: choose another version."
    assert not list(person.folder.rglob("*.gguf"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0), ("120", 120), (" 7 ", 7), ("-5", None), ("soon", None), ("1e9", None), ("9" * 40, None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("Wed, 99 Foo 2015", None), ("", None),
    ],
)  # fmt: skip
def test_when_to_come_back(value: str, expected: float | None) -> None:
    assert retry_after_s({"retry-after": value}) == expected


def test_a_date_to_come_back_at() -> None:
    date = email.utils.format_datetime(datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=90))
    wait = retry_after_s({"retry-after": date.replace("+0000", "GMT")})
    assert wait is not None
    assert 80 < wait <= 90


@pytest.mark.parametrize(
    ("seconds", "words"), [("45", "in 45 s"), ("600", "in 10 minutes"), ("86400", "in 24 hours")]
)
def test_a_long_wait_is_told_in_its_unit(seconds: str, words: str) -> None:
    assert words in str(fault_of_status(429, {"retry-after": seconds}, "the hub", "http://hub"))


@pytest.mark.parametrize("is_date", [False, True])
def test_too_many_requests_are_waited_for(person: Person, model_bytes: bytes, is_date: bool) -> None:
    date = email.utils.format_datetime(datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2))
    person.hub.faults["store"] = [Fault(status=429, headers={"Retry-After": date if is_date else "1"})]
    person.add()
    person.wait_for(lambda row: "Waiting for the hub: try 1" in row.message or row.state is DownloadState.DONE)
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)


@pytest.mark.parametrize("seed", range(6))
def test_random_trouble_ends_well(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many more of them: ``python -m tests.engine.hub.random_trouble SECONDS``."""
    monkeypatch.setattr(transfer_module, "BLOCK_BYTES", random_trouble.BLOCK_BYTES)
    assert random_trouble.one_download(seed, tmp_path)
