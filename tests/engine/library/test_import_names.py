"""What is imported is listed, whatever another program calls it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelFileError, NotGGUFError, SplitFileError
from engine.library import Origin, Place, Scanner
from engine.library.files import ImportMode, LibraryError, import_model
from engine.library.import_names import listed_names
from tests.gguf_writer import write_gguf, write_shards

TENSORS = {"token_embd.weight": np.zeros((64, 32), np.float32)}
NAMES = [
    "sha256-" + "a" * 64, "b" * 64, "model.bin", "x.part.gguf", ".hidden.gguf", "._m.gguf", "m.gguf.part1of1",
    "m.gguf.tmp", "no ending",
]  # fmt: skip


def _model(path: Path, name: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_gguf(path, {"general.architecture": "llama", **({"general.name": name} if name else {})}, TENSORS)


@pytest.mark.parametrize("mode", list(ImportMode))
@pytest.mark.parametrize("name", NAMES)
def test_what_is_imported_is_listed(tmp_path: Path, name: str, mode: ImportMode) -> None:
    source = _model(tmp_path / "there" / name, "Acme: Big/Model 7B")
    content = source.read_bytes()
    imported = import_model(source, tmp_path / "models", mode)
    assert imported.name == "Acme-Big-Model-7B-F32.gguf"
    assert imported.read_bytes() == content
    (model,) = Scanner().scan([Place(Origin.OWN, tmp_path / "models")])
    assert (model.path, model.name, model.quantization) == (imported, "Acme-Big-Model-7B", "F32")


@pytest.mark.parametrize(
    ("title", "name", "expected"),
    [
        ("", "x.part.gguf", "x-F32.gguf"),
        ("", ".hidden-Q8_0.gguf", "hidden-Q8_0.gguf"),
        ("", "._m.gguf", "m-F32.gguf"),
        ("", "sha256-" + "a" * 64, "model-F32.gguf"),
        ("", "smol.bin", "smol-F32.gguf"),
        ("", ".tmp.gguf", "model-F32.gguf"),
        ("../../etc/passwd", "model.bin", "etc-passwd-F32.gguf"),
        ("CON", "model.bin", "model-F32.gguf"),
        ("a.part", "mine.bin", "mine-F32.gguf"),
        ("a-00001-of-00002", "mine.bin", "mine-F32.gguf"),
        ("é" * 200, "model.bin", "é" * 75 + "-F32.gguf"),
        ("any", "kept as it is.gguf", "kept as it is.gguf"),
    ],
)
def test_the_name_is_the_headers_else_the_files(tmp_path: Path, title: str, name: str, expected: str) -> None:
    assert listed_names([_model(tmp_path / name, title)]) == [expected]


def test_a_header_without_a_name_or_tensors_is_no_obstacle(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "vocab.bin", {"general.architecture": "llama", "general.name": 7})
    assert listed_names([path]) == ["7.gguf"]


def test_a_set_stays_a_set(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    write_shards(tmp_path / "there", ".s", {"general.architecture": "llama"}, [TENSORS, {}])
    imported = import_model(tmp_path / "there" / ".s-00002-of-00002.gguf", tmp_path / "models", ImportMode.MOVE)
    assert imported.name == "s-F32-00002-of-00002.gguf"
    (model,) = Scanner().scan([Place(Origin.OWN, tmp_path / "models")])
    assert [path.name for path in model.paths] == [f"s-F32-0000{number}-of-00002.gguf" for number in (1, 2)]


def test_what_is_no_whole_model_is_refused(tmp_path: Path) -> None:
    source = _model(tmp_path / "m.gguf.part1of2")
    with pytest.raises(SplitFileError, match="join all parts"):
        import_model(source, tmp_path / "models", ImportMode.COPY)
    page = tmp_path / "model.bin"
    page.write_bytes(b"<html>" * 100)
    with pytest.raises(NotGGUFError):
        import_model(page, tmp_path / "models", ImportMode.COPY)
    half = _model(tmp_path / "half.part.gguf")
    half.write_bytes(half.read_bytes()[:-100])
    with pytest.raises(ModelFileError):
        import_model(half, tmp_path / "models", ImportMode.COPY)
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(
    ("name", "match"), [(".m.gguf", "rename it to m-F32.gguf"), (".kept/m.gguf", "lies in .kept"), ("m.gguf", "")]
)
def test_what_lies_there_unseen_is_told(tmp_path: Path, name: str, match: str) -> None:
    path = _model(tmp_path / "models" / name)
    if not match:
        assert import_model(path, tmp_path / "models", ImportMode.MOVE) == path
        return
    with pytest.raises(LibraryError, match=match):
        import_model(path, tmp_path / "models", ImportMode.MOVE)
    assert path.exists()
