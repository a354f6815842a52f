"""``python -m engine models`` against a loopback hub."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.terminal.cli import main
from tests.engine.hub.loopback import LoopbackHub, loopback_hub


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HUB_CACHE", "HF_HOME", "OLLAMA_MODELS", "LLAMA_CACHE", "HF_TOKEN", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "person" / ".cache"))
    monkeypatch.setenv("FIRESIDE_HOME", str(tmp_path))
    monkeypatch.setattr("engine.hub.tokens._ask_keyring", lambda ask: None)
    return tmp_path


@pytest.fixture
def hub(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    with loopback_hub() as running:
        running.add("acme/Smol-GGUF", {"smol-Q4_1.gguf": smollm2_path.read_bytes(), "smol-F16.gguf": b"GGUF"})
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> object:
    code = main([*arguments, "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert code == (1 if isinstance(printed, dict) and "error" in printed else 0)
    return printed


def test_search_inspect_download_list(
    home: Path, hub: LoopbackHub, smollm2_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = _json(capsys, "models", "search", "smol")  # type: ignore[misc]
    assert found["repository"] == "acme/Smol-GGUF"
    versions = _json(capsys, "models", "inspect", "acme/Smol-GGUF")["versions"]  # type: ignore[index, call-overload]
    assert [(version["label"], version["quality"]) for version in versions] == [("F16", "exact"), ("Q4_1", "good")]
    facts = _json(capsys, "models", "inspect", "acme/Smol-GGUF", "q4_1")
    assert isinstance(facts, dict)
    assert (facts["architecture"], facts["file_bytes"]) == ("llama", smollm2_path.stat().st_size)
    assert hub.num_sent < 5_000_000
    assert _json(capsys, "models", "list") == []
    done = _json(capsys, "models", "download", "acme/Smol-GGUF", "Q4_1")
    path = home / "models" / "acme" / "Smol-GGUF" / "smol-Q4_1.gguf"
    assert done == {"paths": [str(path)], "size": path.stat().st_size}
    (model,) = _json(capsys, "models", "list")  # type: ignore[misc]
    assert (model["name"], model["state"], model["origin"]) == ("smol", "ready", "Fireside")
    assert main(["inspect", "smol", "--json"]) == 0  # by the name that the list shows
    assert json.loads(capsys.readouterr().out)["architecture"] == "llama"


def test_what_cannot_be_done_is_one_sentence(
    home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "owner/name" in _json(capsys, "models", "inspect", "nonsense")["error"]  # type: ignore[index, call-overload]
    answer = _json(capsys, "models", "download", "acme/Smol-GGUF", "Q9_9")
    assert isinstance(answer, dict)
    assert "F16, Q4_1" in answer["error"]
    assert main(["models", "search", "x", "--endpoint", "http://127.0.0.1:1"]) == 1
    assert "cannot be reached" in capsys.readouterr().err
    assert not os.path.exists(home / "models" / ".downloads")


def test_lists_for_people(home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "search"]) == 0
    assert main(["models", "inspect", "acme/Smol-GGUF"]) == 0
    assert main(["models", "list"]) == 0
    printed = capsys.readouterr().out
    assert "acme/Smol-GGUF" in printed
    assert "nearly exact" not in printed
    assert "There is no model yet" in printed
