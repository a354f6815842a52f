"""What the scanner makes of folders, ours and those of other programs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from engine.gguf import open_model
from engine.hub.names import RemoteFile, group_files
from engine.library import (
    FileState,
    FoundModel,
    Origin,
    Place,
    Repair,
    Scanner,
    describe,
    other_places,
    repair_of,
)
from engine.library import scan as scan_module
from engine.library.places import models_folder, point_to
from engine.library.repairs import version_with
from engine.library.scan import model_files, repository_in
from tests.gguf_writer import write_gguf, write_shards


def _touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def _found(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in model_files(folder)}


def _scan(folder: Path, origin: Origin = Origin.OWN) -> dict[str, FileState]:
    return {model.name: model.state for model in Scanner().scan([Place(origin, folder)])}


def test_models_at_any_depth_one_row_per_set(tmp_path: Path) -> None:
    _touch(
        tmp_path, "a.gguf", "b.GGUF", "x/y/z/Модель 日本 😀.gguf",
        "set/m-00001-of-00003.gguf", "set/m-00002-of-00003.gguf", "set/m-00003-of-00003.gguf",
        "set/n-00002-of-00002.gguf", "other/m-00001-of-00002.gguf", "other/m-00001-of-00003.gguf",
    )  # fmt: skip
    assert _found(tmp_path) == {
        "a.gguf", "b.GGUF", "x/y/z/Модель 日本 😀.gguf", "set/m-00001-of-00003.gguf", "set/n-00002-of-00002.gguf",
        "other/m-00001-of-00002.gguf", "other/m-00001-of-00003.gguf",
    }  # fmt: skip


def test_what_is_no_model_is_not_listed(tmp_path: Path) -> None:
    _touch(
        tmp_path, "a.gguf.part", "b.gguf.part1of2", "c.part1of2.gguf", "d.gguf.split-aa", "e.gguf.tmp",
        "f.tmp.gguf", "g.gguf.incomplete", "h.incomplete.gguf", ".downloads/x/model.gguf", ".hidden.gguf",
        "._a.gguf", "notes.txt", "gguf", ".gguf",
    )  # fmt: skip
    (tmp_path / "folder.gguf").mkdir()
    assert _found(tmp_path) == set()


def test_links_do_not_loop_and_missing_folders_are_empty(tmp_path: Path) -> None:
    _touch(tmp_path, "real/a.gguf")
    os.symlink(tmp_path, tmp_path / "real" / "up")
    os.symlink(tmp_path / "nowhere.gguf", tmp_path / "dangling.gguf")
    assert _found(tmp_path) == {"real/a.gguf", "dangling.gguf"}  # the link to nothing is told as such
    assert _scan(tmp_path / "absent") == {}
    assert _scan(tmp_path / "real" / "a.gguf") == {}


def test_every_state_is_told_with_one_thing_to_do(tmp_path: Path) -> None:
    tensors = {"token_embd.weight": np.zeros((64, 32), np.float32)}
    write_gguf(tmp_path / "unsupported.gguf", {"general.architecture": "from-the-future"}, tensors)
    whole = write_gguf(tmp_path / "partial.gguf", {"general.architecture": "llama"}, tensors)
    os.truncate(whole, whole.stat().st_size - 100)
    (tmp_path / "page.gguf").write_bytes(b"<!DOCTYPE html><html>" * 50)
    (tmp_path / "empty.gguf").write_bytes(b"")
    write_gguf(tmp_path / "mmproj-x.gguf", {"general.architecture": "clip"})
    write_gguf(tmp_path / "clip.gguf", {"general.architecture": "clip"})
    for path in write_shards(tmp_path, "set", {"general.architecture": "llama"}, [tensors, {}, {}])[1:2]:
        path.unlink()
    models = {model.name: model for model in Scanner().scan([Place(Origin.OWN, tmp_path)])}
    assert {name: model.state for name, model in models.items()} == {
        "unsupported": FileState.UNSUPPORTED,
        "partial": FileState.PARTIAL,
        "page": FileState.DAMAGED,
        "empty": FileState.DAMAGED,
        "mmproj-x": FileState.COMPANION,
        "clip": FileState.COMPANION,
        "set": FileState.MISSING,
    }
    assert "2 of 3" in models["set"].problem
    assert len(models["set"].paths) == 2
    for model in models.values():
        assert bool(model.problem) == (model.state is not FileState.COMPANION)
        assert (repair_of(model) is not None) == bool(model.problem)
    assert "download" not in models["unsupported"].problem


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user whom modes bind")
def test_an_unreadable_file_hides_no_other(tmp_path: Path) -> None:
    _touch(tmp_path, "a.gguf", "b.gguf")
    (tmp_path / "a.gguf").chmod(0)
    assert _scan(tmp_path) == {"a": FileState.UNREADABLE, "b": FileState.DAMAGED}


@pytest.mark.parametrize("is_put_back", [True, False])
def test_what_could_not_be_read_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_put_back: bool
) -> None:
    path = write_gguf(tmp_path / "a.gguf", {"general.architecture": "from-the-future"})
    opening = open_model

    def refuse(path: Path) -> object:
        raise PermissionError(13, "permission is denied")

    scanner, places = Scanner(), [Place(Origin.OWN, tmp_path)]
    monkeypatch.setattr(scan_module, "open_model", refuse)
    assert scanner.scan(places)[0].state is FileState.UNREADABLE
    if is_put_back:
        monkeypatch.setattr(scan_module, "open_model", opening)
    expected = FileState.UNSUPPORTED if is_put_back else FileState.UNREADABLE
    assert scanner.scan(places)[0].state is expected
    if is_put_back and os.name != "nt":  # and what can be read no more
        monkeypatch.setattr(scan_module, "open_model", refuse)
        path.chmod(0o400)
        assert scanner.scan(places)[0].state is FileState.UNREADABLE


def test_files_that_differ_in_the_case_of_the_ending_are_two(tmp_path: Path) -> None:
    names = {"m.gguf", "m.GGUF", "s-00001-of-00002.gguf", "s-00001-of-00002.GGUF"}
    _touch(tmp_path, *names)
    assert _found(tmp_path) == set(os.listdir(tmp_path))  # all four, but where the disk takes them for two


def test_a_set_that_lacks_its_last_shards_lists_what_is_there(tmp_path: Path) -> None:
    _touch(tmp_path, *(f"m-{number:05d}-of-01500.gguf" for number in range(1, 1001)))
    (model,) = Scanner().scan([Place(Origin.OWN, tmp_path)])
    assert model.state is FileState.MISSING
    assert (len(model.paths), model.num_parts) == (1000, 1500)


def test_a_real_model_is_named_and_measured(smollm2_path: Path, gemma3_path: Path) -> None:
    model = describe(smollm2_path)
    assert (model.name, model.quantization, model.state) == ("SmolLM2-135M-Instruct", "Q4_1", FileState.READY)
    assert (model.architecture, model.num_parameters, model.context_length) == ("llama", 134_515_008, 8192)
    model = describe(gemma3_path)
    assert (model.name, model.quantization, model.problem) == ("gemma-3-270m", "Q4_K_M", "")


def test_a_name_without_a_type_gets_it_from_the_header(smollm2_path: Path, tmp_path: Path) -> None:
    os.symlink(smollm2_path, tmp_path / "mine.gguf")
    assert describe(tmp_path / "mine.gguf").quantization == "Q4_1"


def test_a_changed_file_is_looked_at_again(tmp_path: Path, smollm2_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"broken")
    scanner, places = Scanner(), [Place(Origin.OWN, tmp_path)]
    assert scanner.scan(places)[0].problem
    assert scanner.scan(places)[0] is scanner.scan(places)[0]
    shutil.copyfile(smollm2_path, tmp_path / "a.gguf")
    assert scanner.scan(places)[0].problem == ""


def _ollama(folder: Path, name: str, manifest: object) -> None:
    path = folder / "manifests" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(manifest if isinstance(manifest, str) else json.dumps(manifest), encoding="utf-8")


def _layers(digest: str, kind: str = "model") -> dict[str, object]:
    return {"layers": [{"mediaType": f"application/vnd.ollama.image.{kind}", "digest": digest, "size": 1}]}


def test_ollama_models_have_their_names(tmp_path: Path, smollm2_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    os.symlink(smollm2_path, tmp_path / "blobs" / f"sha256-{'a' * 64}")
    os.symlink(smollm2_path.with_name("gemma-3-270m-q4_k_m.gguf"), tmp_path / "blobs" / f"sha256-{'b' * 64}")
    _ollama(tmp_path, "registry.example/library/smol/latest", _layers("sha256:" + "a" * 64))
    _ollama(tmp_path, "hub.example/acme/gem/270m", _layers("sha256:" + "b" * 64))
    _ollama(tmp_path, "registry.example/library/evil/latest", _layers("sha256:../../../../etc/passwd"))
    _ollama(tmp_path, "registry.example/library/gone/latest", _layers("sha256:" + "c" * 64))
    _ollama(tmp_path, "registry.example/library/bad/latest", "{")
    _ollama(tmp_path, "registry.example/library/odd/latest", [1])
    states = {"smol": FileState.READY, "acme/gem:270m": FileState.READY, "gone": FileState.GONE}
    assert _scan(tmp_path, Origin.OLLAMA) == states


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("origin", [Origin.OLLAMA, Origin.OWN])
def test_a_pipe_is_not_waited_for(tmp_path: Path, origin: Origin) -> None:
    for name in ("manifests/registry.example/library/pipe/latest", f"blobs/sha256-{'a' * 64}", "m.gguf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(tmp_path / name)
    os.symlink("m.gguf", tmp_path / "link.gguf")
    _ollama(tmp_path, "registry.example/library/blob/latest", _layers("sha256:" + "a" * 64))
    assert _scan(tmp_path, origin) == {}


def test_other_programs_layouts(tmp_path: Path, smollm2_path: Path) -> None:
    name = "ggml-org_SmolLM2-135M-Instruct-GGUF_SmolLM2-135M-Instruct-Q4_1.gguf"
    for path in ("llama/" + name, "jan/smol-2/model.gguf", "lm/acme/Smol-GGUF/Smol-Q4_1.gguf"):
        (tmp_path / path).parent.mkdir(parents=True)
        os.symlink(smollm2_path, tmp_path / path)
    scanner = Scanner()
    found = {
        origin: scanner.scan([Place(origin, tmp_path / folder)])[0].name
        for origin, folder in ((Origin.LLAMA_CPP, "llama"), (Origin.JAN, "jan"), (Origin.LM_STUDIO, "lm"))
    }
    assert found == {
        Origin.LLAMA_CPP: "SmolLM2-135M-Instruct",
        Origin.JAN: "smol-2",
        Origin.LM_STUDIO: "Smol",
    }


def test_the_hugging_face_cache_shows_each_file_once(tmp_path: Path, smollm2_path: Path) -> None:
    blob = tmp_path / "models--acme--m" / "blobs" / ("d" * 64)
    blob.parent.mkdir(parents=True)
    os.symlink(smollm2_path, blob)
    for revision in ("one", "two"):
        snapshot = tmp_path / "models--acme--m" / "snapshots" / revision
        snapshot.mkdir(parents=True)
        os.symlink(blob, snapshot / "m-Q4_1.gguf")
    _touch(tmp_path, "models--acme--m/blobs/x.incomplete")
    assert _scan(tmp_path, Origin.HUGGING_FACE) == {"m": FileState.READY}


def test_a_model_of_two_places_is_the_first_ones(tmp_path: Path, smollm2_path: Path) -> None:
    for folder in ("own", "other"):
        (tmp_path / folder).mkdir()
        os.symlink(smollm2_path, tmp_path / folder / "a.gguf")
    places = [Place(Origin.OWN, tmp_path / "own"), Place(Origin.JAN, tmp_path / "other")]
    assert [model.origin for model in Scanner().scan(places)] == [Origin.OWN]


def test_places_are_those_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "OLLAMA_MODELS", "LLAMA_CACHE", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    mine = tmp_path / "mine"
    for folder in (mine, tmp_path / ".lmstudio" / "models", tmp_path / ".ollama" / "models"):
        folder.mkdir(parents=True)
    origins = [place.origin for place in other_places([mine, mine, tmp_path / "absent"])]
    assert origins[:3] == [Origin.PERSON, Origin.LM_STUDIO, Origin.OLLAMA]
    monkeypatch.setenv("OLLAMA_MODELS", str(mine))
    assert next(place.folder for place in other_places() if place.origin is Origin.OLLAMA) == mine


def test_the_models_folder_can_be_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRESIDE_HOME", str(tmp_path))
    assert models_folder() == tmp_path / "models"
    point_to(tmp_path / "ä b")
    assert models_folder() == tmp_path / "ä b"
    point_to(tmp_path / "models")
    assert models_folder() == tmp_path / "models"
    (tmp_path / "models-folder.txt").write_text("relative/nonsense")
    assert models_folder() == tmp_path / "models"


def _broken(place: Place, path: Path, state: FileState) -> tuple[str, Repair | None]:
    """Repository and repair of a model in such a state."""
    model = FoundModel(path, "m", place.origin, state=state, repository=repository_in(place, path))
    return model.repository, repair_of(model)


@pytest.mark.parametrize(
    ("origin", "path", "state", "expected"),
    [
        (Origin.OWN, "acme/m/m.gguf", FileState.DAMAGED, ("acme/m", Repair.FETCH_AGAIN)),
        (Origin.OWN, "acme/m/sub/m.gguf", FileState.PARTIAL, ("acme/m", Repair.COMPLETE)),
        (Origin.OWN, "acme/m/m-00001-of-00003.gguf", FileState.MISSING, ("acme/m", Repair.FETCH_MISSING)),
        (Origin.OWN, "acme/m/m.gguf", FileState.UNSUPPORTED, ("acme/m", Repair.FIND_ANOTHER)),
        (Origin.OWN, "acme/m/m.gguf", FileState.UNREADABLE, ("acme/m", Repair.SHOW)),
        (Origin.OWN, "acme/m/m.gguf", FileState.GONE, ("acme/m", Repair.REMOVE)),
        (Origin.OWN, "acme/m/m.gguf", FileState.READY, ("acme/m", None)),
        (Origin.OWN, "m.gguf", FileState.DAMAGED, ("", Repair.FIND)),
        (Origin.OWN, "folder/m.gguf", FileState.PARTIAL, ("", Repair.FIND)),
        (Origin.LM_STUDIO, "acme/m/m.gguf", FileState.PARTIAL, ("acme/m", Repair.COMPLETE)),
        (Origin.PERSON, "acme/m/m.gguf", FileState.PARTIAL, ("", Repair.FIND)),
        (
            Origin.HUGGING_FACE,
            "models--acme--m/snapshots/0a/m.gguf",
            FileState.GONE,
            ("acme/m", Repair.FETCH_AGAIN),
        ),
        (Origin.HUGGING_FACE, "datasets--acme--m/snapshots/0a/m.gguf", FileState.GONE, ("", Repair.FIND)),
        (Origin.OLLAMA, "blobs/sha256-00", FileState.GONE, ("", Repair.FIND)),
    ],
)
def test_where_it_is_from_and_what_helps(
    tmp_path: Path, origin: Origin, path: str, state: FileState, expected: tuple[str, Repair | None]
) -> None:
    assert _broken(Place(origin, tmp_path), tmp_path / path, state) == expected


def test_a_link_to_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "lost-Q4_0.gguf").symlink_to(tmp_path / "elsewhere.gguf")
    (model,) = Scanner().scan([Place(Origin.OWN, tmp_path)])
    assert model.state is FileState.GONE
    assert model.problem == f"lost-Q4_0.gguf leads to {tmp_path / 'elsewhere.gguf'}, which is not there any more."


def test_the_version_that_a_file_is_of() -> None:
    files = [RemoteFile(f"sub/m-Q4_0-0000{number}-of-00002.gguf", 5) for number in (1, 2)]
    groups = group_files([*files, RemoteFile("m-Q8_0.gguf", 9)])
    model = FoundModel(Path("/x/acme/m/sub/m-Q4_0-00002-of-00002.gguf"), "m", Origin.OWN)
    found = version_with(model, groups.versions)
    assert found is not None
    assert found.label == "Q4_0"
    assert version_with(FoundModel(Path("/x/other.gguf"), "m", Origin.OWN), groups.versions) is None
