"""Import, verify, delete and move: nothing is lost, whatever happens in between."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from engine.errors import DiskFullError, ModelFileError, NotGGUFError
from engine.hub.client import HubClient
from engine.hub.downloads import Downloads
from engine.library import Origin, Place, Scanner, describe
from engine.library.files import (
    DamagedFileError,
    ImportMode,
    LibraryError,
    delete,
    import_model,
    total_size,
    verify,
)
from engine.library.hashes import keep_hashes, known_hash
from tests.gguf_writer import write_gguf, write_shards

TENSORS = {"token_embd.weight": np.zeros((64, 32), np.float32)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


def _model(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_gguf(path, {"general.architecture": "llama"}, TENSORS)


@pytest.mark.parametrize("mode", list(ImportMode))
def test_an_import_brings_all_shards(tmp_path: Path, folder: Path, mode: ImportMode) -> None:
    parts = [{f"t{number}": np.zeros((8, 8), np.float32)} for number in range(2)]
    (tmp_path / "there").mkdir()
    sources = write_shards(tmp_path / "there", "s", {"general.architecture": "llama"}, parts)
    content = [path.read_bytes() for path in sources]
    steps: list[tuple[int, int]] = []
    imported = import_model(sources[1], folder, mode, lambda done, total: steps.append((done, total)))
    assert imported == folder / sources[1].name
    assert [(folder / path.name).read_bytes() for path in sources] == content
    assert [path.exists() for path in sources] == [mode is not ImportMode.MOVE] * 2
    assert (folder / sources[0].name).is_symlink() == (mode is ImportMode.LINK)
    assert steps[-1][0] == steps[-1][1]


def test_what_is_no_model_is_not_imported(tmp_path: Path, folder: Path) -> None:
    page = tmp_path / "page.gguf"
    page.write_bytes(b"<html>" * 100)
    with pytest.raises(NotGGUFError):
        import_model(page, folder, ImportMode.MOVE)
    assert page.exists()
    assert not list(folder.iterdir())


def test_an_import_never_overwrites(tmp_path: Path, folder: Path) -> None:
    source = _model(tmp_path / "a.gguf")
    (folder / "a.gguf").write_bytes(b"mine")
    with pytest.raises(LibraryError, match="already"):
        import_model(source, folder, ImportMode.COPY)
    assert (folder / "a.gguf").read_bytes() == b"mine"
    assert import_model(_model(folder / "b.gguf"), folder, ImportMode.MOVE) == folder / "b.gguf"


def test_a_stopped_import_leaves_nothing(tmp_path: Path, folder: Path) -> None:
    source = _model(tmp_path / "a.gguf")

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_model(source, folder, ImportMode.COPY, stop)
    assert source.exists()
    assert not list(folder.iterdir())


def test_a_stopped_move_puts_back_what_it_moved(tmp_path: Path, folder: Path) -> None:
    parts = [{f"t{number}": np.zeros((8, 8), np.float32)} for number in range(2)]
    (tmp_path / "there").mkdir()
    sources = write_shards(tmp_path / "there", "s", {"general.architecture": "llama"}, parts)

    def stop(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_model(sources[0], folder, ImportMode.MOVE, stop)
    assert all(source.exists() for source in sources)
    assert not list(folder.iterdir())


def test_what_a_kill_leaves_of_a_copy_is_seen_and_can_be_deleted(tmp_path: Path, folder: Path) -> None:
    source = _model(tmp_path / "a.gguf")
    copying = Downloads(folder, HubClient)

    def look(_done: int, _total: int) -> None:
        if not list(folder.glob("*.gguf")):
            copying.start()  # another part of the program looks meanwhile: this copy is alive

    import_model(source, folder, ImportMode.COPY, look)
    assert copying.rows() == []
    left = folder / ".downloads" / "copy-0123"
    left.mkdir(parents=True)
    (left / "00000.part").write_bytes(bytes(5000))
    downloads = Downloads(folder, HubClient)
    downloads.start()
    (row,) = downloads.rows()
    assert row.num_received == 5000
    assert row.message.startswith("Copying a file into the models folder was interrupted")
    downloads.cancel(row.id)
    assert not left.exists()


def test_an_import_that_does_not_fit_is_refused(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DiskFullError, match="free"):
        import_model(_model(tmp_path / "a.gguf"), folder, ImportMode.COPY)


def test_verify_tells_right_wrong_and_unknown(folder: Path) -> None:
    path = _model(folder / "acme" / "a.gguf")
    model = describe(path)
    assert "not known" in verify(model, folder)
    keep_hashes({path: hashlib.sha256(path.read_bytes()).hexdigest()}, folder)
    assert "right checksum" in verify(model, folder)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFileError, match="damaged"):
        verify(model, folder)
    path.write_bytes(b"")
    with pytest.raises(ModelFileError):
        verify(model, folder)


def test_content_that_is_named_by_its_hash_needs_no_list(tmp_path: Path, folder: Path) -> None:
    path = _model(tmp_path / "a.gguf")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    blob = path.rename(tmp_path / f"sha256-{digest}")
    assert known_hash(blob, folder) == digest
    assert "right checksum" in verify(describe(blob, Origin.OLLAMA, "a"), folder)


def test_delete_frees_and_tidies(folder: Path) -> None:
    path = _model(folder / "acme" / "m" / "a.gguf")
    size = path.stat().st_size
    keep_hashes({path: "0" * 64}, folder)
    assert delete(describe(path), folder) == size
    assert not (folder / "acme").exists()
    assert folder.exists()
    assert known_hash(path, folder) == ""


def test_other_programs_files_are_never_deleted(tmp_path: Path, folder: Path) -> None:
    path = _model(tmp_path / "a.gguf")
    with pytest.raises(LibraryError, match="LM Studio"):
        delete(describe(path, Origin.LM_STUDIO), folder)
    assert path.exists()


def test_deleting_a_link_keeps_what_it_leads_to(tmp_path: Path, folder: Path) -> None:
    path = _model(tmp_path / "a.gguf")
    os.symlink(path, folder / "a.gguf")
    assert delete(describe(folder / "a.gguf"), folder) == 0
    assert path.exists()


def test_what_a_linked_folder_shows_is_not_deleted(tmp_path: Path, folder: Path) -> None:
    path = _model(tmp_path / "lmstudio" / "acme" / "a.gguf")
    os.symlink(tmp_path / "lmstudio", folder / "lm")
    own, other = Place(Origin.OWN, folder), Place(Origin.LM_STUDIO, tmp_path / "lmstudio")
    for places, origin in (([own, other], Origin.LM_STUDIO), ([own], Origin.PERSON)):
        (model,) = Scanner().scan(places)
        assert model.origin is origin
        with pytest.raises(LibraryError, match="delete it there"):
            delete(model, folder)
    with pytest.raises(LibraryError, match="outside the models folder"):
        delete(describe(folder / "lm" / "acme" / "a.gguf"), folder)
    assert path.exists()


def test_a_models_folder_that_is_itself_a_link_is_ones_own(tmp_path: Path, folder: Path) -> None:
    path = _model(folder / "acme" / "a.gguf")
    os.symlink(folder, tmp_path / "link")
    (model,) = Scanner().scan([Place(Origin.OWN, tmp_path / "link")])
    assert model.origin is Origin.OWN
    assert delete(model, tmp_path / "link") > 0
    assert not path.exists()


def test_deleting_one_of_two_names_frees_nothing(tmp_path: Path, folder: Path) -> None:
    path = _model(tmp_path / "a.gguf")
    os.link(path, folder / "a.gguf")
    assert delete(describe(folder / "a.gguf"), folder) == 0
    assert path.exists()
    assert not (folder / "a.gguf").exists()


@pytest.mark.parametrize("is_relative", [True, False])
def test_a_link_is_not_moved_into_the_models_folder(tmp_path: Path, folder: Path, is_relative: bool) -> None:
    blob = _model(tmp_path / "cache" / "blobs" / "0a")
    link = tmp_path / "cache" / "snapshots" / "m.gguf"
    link.parent.mkdir()
    os.symlink("../blobs/0a" if is_relative else blob, link)
    with pytest.raises(LibraryError, match="is a link"):
        import_model(link, folder, ImportMode.MOVE)
    assert link.is_symlink()
    assert not list(folder.iterdir())
    imported = import_model(link, folder, ImportMode.COPY)
    assert imported.read_bytes() == blob.read_bytes()
    assert not imported.is_symlink()
    imported.unlink()
    assert import_model(link, folder, ImportMode.LINK).read_bytes() == blob.read_bytes()


def test_total_size(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(bytes(100))
    (tmp_path / "y").write_bytes(bytes(11))
    assert total_size([tmp_path]) == 111
    assert total_size([tmp_path / "absent"]) == 0
