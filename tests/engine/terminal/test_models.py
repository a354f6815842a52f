"""Which file MODEL means."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.terminal.cli import main
from engine.terminal.models import ModelChoiceError, find_model
from tests.tiny_models import write_tiny_model


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models folder with two versions of one model, one of another, and a damaged file."""
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "person" / ".cache"))
    monkeypatch.setenv("FIRESIDE_HOME", str(tmp_path))
    for name in ("HF_HUB_CACHE", "HF_HOME", "OLLAMA_MODELS", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "models"
    content = write_tiny_model("llama", tmp_path).read_bytes()
    for path in ("acme/Tiny-GGUF/Tiny-Q8_0.gguf", "acme/Tiny-GGUF/Tiny-Q4_1.gguf", "zeta/Mini-GGUF/Mini-Q4_1.gguf"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    (folder / "Broken-Q4_0.gguf").write_bytes(b"no model")
    return folder


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("Tiny-Q8_0.gguf", "acme/Tiny-GGUF/Tiny-Q8_0.gguf"),
        ("tiny-q4_1", "acme/Tiny-GGUF/Tiny-Q4_1.gguf"),
        ("tiny Q4_1", "acme/Tiny-GGUF/Tiny-Q4_1.gguf"),
        ("acme/Tiny-GGUF Q8_0", "acme/Tiny-GGUF/Tiny-Q8_0.gguf"),
        ("acme/Tiny-GGUF/Tiny-Q8_0", "acme/Tiny-GGUF/Tiny-Q8_0.gguf"),
        ("zeta/mini-gguf", "zeta/Mini-GGUF/Mini-Q4_1.gguf"),
        ("zeta/Mini-GGUF", "zeta/Mini-GGUF/Mini-Q4_1.gguf"),
        ("mini", "zeta/Mini-GGUF/Mini-Q4_1.gguf"),
    ],
)
def test_a_name_wherever_the_file_lies(models: Path, given: str, path: str) -> None:
    assert find_model(given) == models / path


def test_names_of_more_than_one(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "is more than one model; name one of these: Tiny Q4_1, Tiny Q8_0."
    for arguments in (["inspect", "Tiny"], ["generate", "acme/Tiny-GGUF", "hi"], ["models", "advise", "tiny"]):
        assert main(arguments) == 1
        assert said in capsys.readouterr().err
    with pytest.raises(ModelChoiceError, match=r"Broken-Q4_0\.gguf"):
        find_model("broken q4_0")


def test_a_copy_of_one_file_is_no_second_model(models: Path, tmp_path: Path) -> None:
    copy = tmp_path / "person" / ".lmstudio" / "models" / "a" / "b" / "Mini-Q4_1.gguf"
    copy.parent.mkdir(parents=True)
    copy.write_bytes((models / "zeta/Mini-GGUF/Mini-Q4_1.gguf").read_bytes())
    assert find_model("mini") == models / "zeta/Mini-GGUF/Mini-Q4_1.gguf"
