from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import close_session

from engine.hub.client import HubClient
from tests.engine.hub.loopback import LoopbackHub, loopback_hub
from tests.engine.hub.person import Person
from tests.gguf_writer import encode_gguf


@pytest.fixture(autouse=True)
def _no_proxy_and_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    close_session()  # it knows the proxy and the certificates of the test before


@pytest.fixture(autouse=True)
def _patient_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.hub.downloads.STOPPING_WAIT_S", 60.0)


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with loopback_hub() as running:
        yield running


@pytest.fixture(scope="session")
def model_bytes() -> bytes:
    """A sound file of about 3 MB."""
    rng = np.random.default_rng(1)
    tensors = {"token_embd.weight": rng.standard_normal((3000, 256), np.float32)}
    return encode_gguf({"general.architecture": "llama", "llama.block_count": 1}, tensors)


@pytest.fixture
def connect() -> Iterator[Callable[..., HubClient]]:
    """Makes clients and closes them at the end."""
    clients: list[HubClient] = []

    def new(endpoint: str, token: str = "") -> HubClient:
        clients.append(HubClient(endpoint, token))
        return clients[-1]

    yield new
    for client in clients:
        client.close()


@pytest.fixture
def person(hub: LoopbackHub, tmp_path: Path, model_bytes: bytes) -> Iterator[Person]:
    hub.add("acme/m", {"m-Q4_0.gguf": model_bytes})
    person = Person(hub, tmp_path / "models")
    yield person
    person.downloads.close()
