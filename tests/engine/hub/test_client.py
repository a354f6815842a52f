"""The real client against a hub on the loopback."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from engine.errors import (
    CorruptFileError,
    HubAccessError,
    HubAnswerError,
    HubBusyError,
    HubNotFoundError,
    HubUnreachableError,
    NotGGUFError,
)
from engine.hub.client import HubClient, Sort
from engine.hub.remote_header import FIRST_BYTES, fetch_header
from tests.engine.hub.loopback import TOKEN, Fault, LoopbackHub
from tests.gguf_writer import encode_gguf

Connect = Callable[..., HubClient]


def test_search_pages_sorts_and_leaves_nonsense_out(hub: LoopbackHub, connect: Connect) -> None:
    for number in range(5):
        gguf = {"total": 10**9, "architecture": "llama", "context_length": 8192}
        hub.add(f"acme/third-{number}-GGUF", {}, downloads=number, gguf=gguf, tags=["gguf", "license:mit"])
    hub.add("acme/../evil", {})
    hub.add("other/first", {}, tags=[])
    found = list(connect(hub.url).search("third", sort=Sort.DOWNLOADS, limit=4))
    assert [model.downloads for model in found] == [4, 3, 2, 1]
    assert (found[0].name, found[0].owner, found[0].license) == ("third 4", "acme", "mit")
    assert (found[0].num_parameters, found[0].architecture) == (10**9, "llama")
    assert len(hub.asked("hub")) == 2  # pages of two: only those that are needed
    assert [model.repository for model in connect(hub.url).search("acme")][-1] == "acme/third-4-GGUF"


def test_pages_are_fetched_as_they_are_taken(hub: LoopbackHub, connect: Connect) -> None:
    for number in range(6):
        hub.add(f"acme/m{number}", {})
    assert len(list(itertools.islice(connect(hub.url).search(), 2))) == 2
    assert len(hub.log) == 1


def test_a_repository_with_its_files(hub: LoopbackHub, model_bytes: bytes, connect: Connect) -> None:
    hashes = hub.add("acme/m", {"m-Q4_0.gguf": model_bytes, "README.md": "# Grüße".encode(), "../x.gguf": b"x"})
    client = connect(hub.url)
    repository = client.repository("acme/m")
    (version,) = repository.groups.versions
    assert version.files[0].sha256 == hashes["m-Q4_0.gguf"]
    assert version.size == len(model_bytes)
    assert [path for path, _ in repository.groups.refused] == ["../x.gguf"]
    assert client.card(repository) == "# Grüße"


def test_a_repository_without_a_card(hub: LoopbackHub, connect: Connect) -> None:
    hub.add("acme/m", {})
    client = connect(hub.url)
    assert client.card(client.repository("acme/m")) == ""


def test_what_is_missing_private_or_gated_says_so(hub: LoopbackHub, connect: Connect) -> None:
    hub.add("acme/secret", {}, private=True)
    hub.add("acme/gated", {"m.gguf": b"GGUF"}, gated="manual")
    stranger = connect(hub.url)
    with pytest.raises(HubAccessError, match="acme/secret does not exist, or is private"):
        stranger.repository("acme/secret")
    with pytest.raises(HubNotFoundError, match="owner/name"):
        stranger.repository("../../etc")
    with pytest.raises(HubNotFoundError):
        stranger.repository("acme/gated", revision="other")
    gated = stranger.repository("acme/gated")
    assert gated.model.gated == "manual"
    with pytest.raises(HubAccessError, match="accept its terms"):
        fetch_header(stranger.connection, "acme/gated", gated.revision, gated.groups.versions[0])
    assert connect(hub.url, TOKEN).repository("acme/secret").model.is_private


def test_the_token_stays_with_the_hub(hub: LoopbackHub, model_bytes: bytes, connect: Connect) -> None:
    hub.add("acme/gated", {"m.gguf": model_bytes}, gated="auto")
    client = connect(hub.url, TOKEN)
    repository = client.repository("acme/gated")
    fetch_header(client.connection, "acme/gated", repository.revision, repository.groups.versions[0])
    assert {request.authorization for request in hub.asked("hub")} == {f"Bearer {TOKEN}"}
    assert {request.authorization for request in hub.asked("store")} == {None}


def test_a_redirect_to_an_unsafe_address_is_refused(hub: LoopbackHub, model_bytes: bytes, connect: Connect) -> None:
    hub.add("acme/m", {"m.gguf": model_bytes})
    client = connect(hub.url)
    repository = client.repository("acme/m")
    hub.always["resolve"] = Fault(headers={"Location": "file:///etc/passwd"})
    with pytest.raises(HubAnswerError, match="not safe"):
        fetch_header(client.connection, "acme/m", repository.revision, repository.groups.versions[0])
    hub.always["resolve"] = Fault(status=302, headers={"Location": "/acme/m/resolve/main/m.gguf"})
    with pytest.raises(HubAnswerError, match="redirects"):
        fetch_header(client.connection, "acme/m", repository.revision, repository.groups.versions[0])


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (Fault(status=429, headers={"Retry-After": "7"}), HubBusyError, "7 s"),
        (Fault(status=503), HubBusyError, "in trouble"),
        (Fault(status=403), HubAccessError, "terms"),
        (Fault(status=407), HubUnreachableError, "proxy"),
        (Fault(status=400), HubAnswerError, "400"),
        (Fault(status=200, body=b"<html>Sign in</html>"), HubAnswerError, "sign in"),
        (Fault(status=200, body=b'{"id": 3'), HubAnswerError, "not what a hub sends"),
        (Fault(status=200, body=b'[["x"]]'), HubAnswerError, "not what a hub sends"),
        (Fault(status=200, body=b"[" * 100_000), HubAnswerError, "not what a hub sends"),
    ],
)
def test_what_goes_wrong_is_named(
    hub: LoopbackHub, fault: Fault, error: type[Exception], words: str, connect: Connect
) -> None:
    hub.always["api"] = fault
    with pytest.raises(error, match=words):
        list(connect(hub.url).search("x"))


def test_offline_and_wrong_addresses_are_named(connect: Connect) -> None:
    with pytest.raises(HubUnreachableError, match=r"127\.0\.0\.1 cannot be reached"):
        list(connect("http://127.0.0.1:1").search())
    with pytest.raises(HubUnreachableError, match="cannot be found"):
        list(connect("http://nowhere.invalid").search())
    with pytest.raises(HubAnswerError, match="no address"):
        list(connect("nonsense").search())


def test_a_header_is_read_by_ranges(hub: LoopbackHub, connect: Connect) -> None:
    tokens = [f"token{number}" for number in range(40_000)]
    metadata = {"general.architecture": "llama", "tokenizer.ggml.tokens": tokens}
    data = encode_gguf(metadata, {"token_embd.weight": np.zeros((40_000, 64), np.float32)})
    hub.add("acme/m", {"m-F32.gguf": data})
    client = connect(hub.url)
    repository = client.repository("acme/m")
    header = fetch_header(client.connection, "acme/m", repository.revision, repository.groups.versions[0])
    assert header.architecture == "llama"
    assert header.file_bytes == len(data)
    assert header.tensors["token_embd.weight"].shape == (40_000, 64)
    assert header.tensor_data("token_embd.weight").nbytes == 40_000 * 64 * 4
    assert header.metadata.strings("tokenizer.ggml.tokens")[-1] == "token39999"
    assert hub.num_sent < len(data) / 4
    assert len(hub.asked("store")) > 1  # the first piece does not reach


def test_a_header_from_a_hub_without_ranges(hub: LoopbackHub, model_bytes: bytes, connect: Connect) -> None:
    hub.add("acme/m", {"m.gguf": model_bytes})
    hub.always["store"] = Fault(ignores_range=True)
    client = connect(hub.url)
    repository = client.repository("acme/m")
    header = fetch_header(client.connection, "acme/m", repository.revision, repository.groups.versions[0])
    assert header.file_bytes == len(model_bytes)


def test_a_hostile_header_is_refused(hub: LoopbackHub, connect: Connect) -> None:
    hub.add("acme/m", {"a.gguf": encode_gguf({}, num_tensors=1 << 60), "b.gguf": b"<html>" + bytes(FIRST_BYTES)})
    client = connect(hub.url)
    repository = client.repository("acme/m")
    first, second = repository.groups.versions
    with pytest.raises(CorruptFileError):
        fetch_header(client.connection, "acme/m", repository.revision, first)
    with pytest.raises(NotGGUFError, match=r"web page|not a GGUF"):
        fetch_header(client.connection, "acme/m", repository.revision, second)
