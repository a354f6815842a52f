"""Addresses as people write and copy them."""

from __future__ import annotations

import pytest

from engine.errors import HubAnswerError
from engine.hub.address import ModelPage, chosen_endpoint, model_page
from engine.hub.client import HubClient


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("hub.example.org", "https://hub.example.org"),
        ("hub.example.org:8443/hf/", "https://hub.example.org:8443/hf"),
        ("127.0.0.1:8811", "http://127.0.0.1:8811"),
        ("localhost", "http://localhost"),
        ("192.168.1.5", "http://192.168.1.5"),
        ("hub.local", "http://hub.local"),
        ("nas:8080", "http://nas:8080"),
        ("[::1]:80", "http://[::1]:80"),
        ("[2606:4700::1]", "https://[2606:4700::1]"),
        ("8.8.8.8", "https://8.8.8.8"),
        (" http://hub.example.org/ ", "http://hub.example.org"),
        ("", "https://huggingface.co"),
    ],
)
def test_a_hub_without_a_scheme(monkeypatch: pytest.MonkeyPatch, written: str, meant: str) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert chosen_endpoint(written) == meant
    monkeypatch.setenv("HF_ENDPOINT", written)
    assert chosen_endpoint("") == meant
    assert chosen_endpoint("https://chosen.example.org") == "https://chosen.example.org"
    with HubClient() as client:
        assert client.endpoint == meant


@pytest.mark.parametrize("written", ["nonsense", "ftp://host", "two words.org", "http://", "http://[x"])
def test_what_is_no_hub(written: str) -> None:
    with pytest.raises(HubAnswerError, match="write it as https://host"):
        HubClient(written)


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("https://huggingface.co/acme/M-GGUF", ModelPage("acme/M-GGUF")),
        (" https://huggingface.co/acme/M-GGUF/ ", ModelPage("acme/M-GGUF")),
        ("https://huggingface.co/acme/M-GGUF/tree/main?show=gguf#x", ModelPage("acme/M-GGUF")),
        ("https://hf.co/acme/M/resolve/main/a/m-Q4_0.gguf?download=true", ModelPage("acme/M", "a/m-Q4_0.gguf")),
        ("huggingface.co/acme/M/blob/main/m%2Bn.gguf", ModelPage("acme/M", "m+n.gguf")),
        ("http://127.0.0.1:9/hf/acme/M", ModelPage("acme/M")),
        ("127.0.0.1:9/hf/acme/M", ModelPage("acme/M")),
        ("https://huggingface.co/datasets/acme/M", None),
        ("https://huggingface.co/acme", None),
        ("https://huggingface.co/acme/..%2F..", None),
        ("https://example.org/acme/M", None),
        ("http://[x/acme/M", None),
        ("acme/M-GGUF", None),
        ("llama 3", None),
        ("", None),
    ],
)  # fmt: skip
def test_what_the_address_of_a_page_names(text: str, page: ModelPage | None) -> None:
    assert model_page(text, "http://127.0.0.1:9/hf") == page
