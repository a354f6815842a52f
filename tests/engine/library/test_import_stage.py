"""An import that is killed while its files get their places: whoever looks next finds the model whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.library import FileState, Origin, Place, Scanner
from engine.library.files import ImportMode, import_model
from engine.library.import_stage import finish_imports, import_stage
from tests.gguf_writer import write_shards

ROOT = Path(__file__).resolve().parents[3]
KILLED = """
import os, sys
from pathlib import Path
from engine.library.files import ImportMode, import_model
real, left = os.replace, [int(sys.argv[4])]
def replace(source, target):
    real(source, target)
    left[0] -= str(target).endswith(".gguf")
    if not left[0]:
        os._exit(9)
os.replace = replace
import_model(Path(sys.argv[1]), Path(sys.argv[2]), ImportMode(sys.argv[3]))
"""


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    (tmp_path / "there").mkdir()
    parts = [{f"t{number}": np.zeros((8, 8), np.float32)} for number in range(3)]
    return write_shards(tmp_path / "there", "s", {"general.architecture": "llama"}, parts)


@pytest.mark.parametrize("mode", [ImportMode.MOVE, ImportMode.COPY])
def test_a_set_that_was_killed_halfway_is_whole_at_the_next_look(
    tmp_path: Path, sources: list[Path], mode: ImportMode
) -> None:
    folder, contents = tmp_path / "models", [source.read_bytes() for source in sources]
    command = [sys.executable, "-c", KILLED, str(sources[0]), str(folder), mode.value, "2"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 9
    assert len(list(folder.glob("*.gguf"))) == 2
    (model,) = Scanner().scan([Place(Origin.OWN, folder)])
    assert [path.read_bytes() for path in model.paths] == contents
    assert model.state is not FileState.MISSING
    assert [source.exists() for source in sources] == [mode is ImportMode.COPY] * 3
    assert not (folder / ".downloads").exists()


def test_links_that_were_killed_halfway_can_be_made_again(tmp_path: Path, sources: list[Path]) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / sources[0].name).symlink_to(sources[0])
    import_model(sources[0], folder, ImportMode.LINK)
    assert [path.resolve() for path in sorted(folder.iterdir())] == sources


def test_an_import_under_way_is_left_alone(tmp_path: Path, sources: list[Path]) -> None:
    folder = tmp_path / "models"
    with import_stage(folder, sources[0]) as stage:
        (stage / "moves.json").write_text(json.dumps([[str(sources[0]), sources[0].name]]))
        finish_imports(folder)
        assert sources[0].exists()


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"[",
        b"5",
        b"[[1, 2]]",
        b'[["{source}"]]',
        b'[["{source}", "../out.gguf"]]',
        b'[["{source}", "x.part"]]',
    ],
)
def test_a_note_that_makes_no_sense_moves_nothing(tmp_path: Path, sources: list[Path], note: bytes) -> None:
    stage = tmp_path / "models" / ".downloads" / "copy-0"
    stage.mkdir(parents=True)
    (stage / "moves.json").write_bytes(note.replace(b"{source}", str(sources[0]).encode()))
    finish_imports(tmp_path / "models")
    assert all(source.exists() for source in sources)
    assert not list(tmp_path.glob("**/out.gguf"))


def test_what_is_no_model_is_not_placed(tmp_path: Path) -> None:
    stage = tmp_path / "models" / ".downloads" / "copy-0"
    stage.mkdir(parents=True)
    (tmp_path / "letter.txt").write_text("mine")
    (stage / "moves.json").write_text(json.dumps([[str(tmp_path / "letter.txt"), "m.gguf"]]))
    finish_imports(tmp_path / "models")
    assert (tmp_path / "letter.txt").read_text() == "mine"
