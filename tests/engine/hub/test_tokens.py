from __future__ import annotations

import stat
import sys
import time
from pathlib import Path

import keyring
import keyring.backend
import keyring.backends.fail
import keyring.errors
import pytest

from engine.hub import tokens
from engine.hub.tokens import TokenStore

HUB = "https://huggingface.co"


class MemoryKeyring(keyring.backend.KeyringBackend):
    priority = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise keyring.errors.PasswordDeleteError


class LockedKeyring(MemoryKeyring):
    def set_password(self, service: str, username: str, password: str) -> None:
        time.sleep(60)


def _use(monkeypatch: pytest.MonkeyPatch, ring: keyring.backend.KeyringBackend) -> None:
    monkeypatch.setattr(keyring, "get_keyring", lambda: ring)
    for name in ("get_password", "set_password", "delete_password"):
        monkeypatch.setattr(keyring, name, getattr(ring, name))


def test_the_keyring_keeps_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _use(monkeypatch, MemoryKeyring())
    store = TokenStore(tmp_path / "hub-token")
    assert store.get(HUB) == ""
    assert store.set(" hf_abc \n", HUB)
    assert store.get(HUB) == "hf_abc"
    assert not store.file.exists()
    assert not store.set("", HUB)
    assert store.get(HUB) == ""


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
@pytest.mark.parametrize("ring", [keyring.backends.fail.Keyring(), LockedKeyring()])
def test_without_a_keyring_a_file_for_the_owner_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ring: keyring.backend.KeyringBackend
) -> None:
    monkeypatch.setattr(tokens, "KEYRING_WAIT_S", 0.1)
    _use(monkeypatch, ring)
    store = TokenStore(tmp_path / "config" / "hub-token")
    assert not store.set("hf_abc", HUB)
    assert store.get(HUB) == "hf_abc"
    assert stat.S_IMODE(store.file.stat().st_mode) == 0o600
    store.set("", HUB)
    assert store.get(HUB) == ""


def test_nonsense_is_refused(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "hub-token")
    for text in ("a b", "ü", "x" * 501, "a\nb"):
        with pytest.raises(ValueError, match="no access token"):
            store.set(text, HUB)


def test_the_environment_stands_above(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_env")
    assert TokenStore(tmp_path / "hub-token").get(HUB) == "hf_env"


def test_a_token_is_of_the_hub_that_it_was_kept_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tokens, "KEYRING_WAIT_S", 0.1)
    for ring in (MemoryKeyring(), keyring.backends.fail.Keyring()):
        _use(monkeypatch, ring)
        store = TokenStore(tmp_path / "hub-token")
        store.set("hf_abc", "hub.example.org:8443/hf/")
        assert store.get("https://hub.example.org:8443/hf") == "hf_abc"
        for other in (
            HUB,
            "",
            "http://hub.example.org:8443",
            "https://hub.example.org",
            "https://evil.example.org",
        ):
            assert store.get(other) == ""
        store.set("hf_abc", "")
        assert store.get(HUB) == store.get("") == "hf_abc"
        assert store.get("https://hub.example.org:8443") == ""


def test_a_token_of_an_older_program_is_the_public_hub_s(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "hub-token")
    store.file.write_text("hf_old\n")
    assert store.get(HUB) == "hf_old"
    assert store.get("https://hub.example.org") == ""


def test_the_token_of_the_environment_is_the_chosen_hub_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_env")
    store = TokenStore(tmp_path / "hub-token")
    assert store.get("https://hub.example.org") == "hf_env"
    assert store.get("https://hub.example.org", "hub.example.org/") == "hf_env"
    assert store.get("https://hub.example.org", HUB) == ""
