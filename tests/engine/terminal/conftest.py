from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's folders with nothing in them, whatever this machine has."""
    for name in ("HF_HUB_CACHE", "HF_HOME", "OLLAMA_MODELS", "LLAMA_CACHE", "HF_TOKEN", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "person" / ".cache"))
    monkeypatch.setenv("FIRESIDE_HOME", str(tmp_path))
    monkeypatch.setattr("engine.hub.tokens._ask_keyring", lambda ask: None)
    return tmp_path
