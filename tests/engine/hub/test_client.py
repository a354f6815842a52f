"""The real client against a hub on the loopback."""

from __future__ import annotations

import gzip
import itertools
import json
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
from engine.hub.filters import SearchFilter, parameters_in
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


def _shelf(hub: LoopbackHub) -> None:
    """Six repositories that differ in all that can be sorted and sifted by."""
    rows = [
        ("acme/tiny-135M-GGUF", "mit", 0, "llama", False, 1, 9),
        ("acme/middle-GGUF", "apache-2.0", 4 * 10**9, "qwen3", False, 5, 5),
        ("acme/large-70B", "llama3", 0, "llama", "manual", 9, 1),
        ("zeta/alien-GGUF", "mit", 4 * 10**9, "unheard-of", False, 3, 3),
        ("zeta/mystery", "mit", 0, "", False, 2, 2),
        ("zeta/mixture-8x7B", "apache-2.0", 0, "llama", "auto", 4, 4),
    ]
    for day, (name, license, total, architecture, gated, downloads, likes) in enumerate(rows, 1):
        facts = {"architecture": architecture, **({"total": total} if total else {})} if architecture else None
        hub.add(
            name, {}, tags=["gguf", f"license:{license}"], gguf=facts, gated=gated, downloads=downloads,
            likes=likes, updated=f"2026-01-{day:02}T00:00:00.000Z",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        (Sort.DOWNLOADS, ["large", "middle", "mixture", "alien", "mystery", "tiny"]),
        (Sort.LIKES, ["tiny", "middle", "mixture", "alien", "mystery", "large"]),
        (Sort.UPDATED, ["mixture", "mystery", "alien", "large", "middle", "tiny"]),
        (Sort.TRENDING, ["tiny", "middle", "large", "alien", "mystery", "mixture"]),
    ],
)
def test_each_order(hub: LoopbackHub, connect: Connect, sort: Sort, expected: list[str]) -> None:
    _shelf(hub)
    found = [model.repository.split("/")[1].split("-")[0] for model in connect(hub.url).search(sort=sort)]
    assert found == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (SearchFilter(), {"tiny", "middle", "large", "alien", "mystery", "mixture"}),
        (SearchFilter(author="ACME"), set()),  # the hub itself tells them apart by case
        (SearchFilter(author="acme"), {"tiny", "middle", "large"}),
        (SearchFilter(license="mit"), {"tiny", "alien", "mystery"}),
        (SearchFilter(is_open_only=True), {"tiny", "middle", "alien", "mystery"}),
        (SearchFilter(max_parameters=5 * 10**9), {"tiny", "middle", "alien", "mystery"}),
        (SearchFilter(min_parameters=10**9), {"middle", "alien", "large", "mixture"}),
        (SearchFilter(min_parameters=10**9, max_parameters=60 * 10**9), {"middle", "alien", "mixture"}),
        (
            SearchFilter(architectures=frozenset({"llama", "qwen3"})),
            {"tiny", "middle", "large", "mystery", "mixture"},
        ),
    ],
)
def test_each_filter(hub: LoopbackHub, connect: Connect, wanted: SearchFilter, expected: set[str]) -> None:
    _shelf(hub)
    models = connect(hub.url).search(wanted=wanted)
    assert {model.repository.split("/")[1].split("-")[0] for model in models} == expected


def test_a_mirror_that_sifts_nothing_is_sifted_here(hub: LoopbackHub, connect: Connect) -> None:
    _shelf(hub)
    hub.is_mirror = True
    wanted = SearchFilter(author="zeta", license="mit", is_open_only=True)
    found = [model.repository for model in connect(hub.url).search(wanted=wanted, limit=2)]
    assert found == ["zeta/alien-GGUF", "zeta/mystery"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Qwen3 4B", 4 * 10**9), ("gemma 3 270m it", 270 * 10**6), ("Mixtral 8x7B Instruct v0.1", 56 * 10**9),
     ("Phi 3.5 mini", 0), ("Llama 3.2 1.5B", 1_500_000_000), ("v4bit model", 0), ("4bpw", 0)],
)  # fmt: skip
def test_the_size_that_a_name_states(name: str, expected: int) -> None:
    assert parameters_in(name) == expected


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


@pytest.mark.parametrize("is_sound", [True, False])
def test_a_card_that_comes_packed(hub: LoopbackHub, model_bytes: bytes, connect: Connect, is_sound: bool) -> None:
    hub.add("acme/m", {"m-Q4_0.gguf": model_bytes, "README.md": b"x"})
    body = gzip.compress(b"# A card") if is_sound else b"# A card"
    hub.faults["store"] = [Fault(status=200, body=body, headers={"Content-Encoding": "gzip"})]
    client = connect(hub.url)
    repository = client.repository("acme/m")
    if is_sound:
        assert client.card(repository) == "# A card"
    else:
        with pytest.raises(HubAnswerError, match="cannot be decoded"):
            client.card(repository)


def test_pages_in_a_circle_show_each_model_once(hub: LoopbackHub, connect: Connect) -> None:
    link = {"Link": f'<{hub.url}/api/models?again>; rel="next"'}
    page = json.dumps([{"id": f"acme/m{number}", "tags": ["gguf"]} for number in (1, 2)]).encode()
    hub.always["api"] = Fault(status=200, body=page, headers=link)
    assert [model.repository for model in connect(hub.url).search("m", limit=20)] == ["acme/m1", "acme/m2"]


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
    with pytest.raises(HubAnswerError, match="in circles"):
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
