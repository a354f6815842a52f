"""Files that are shortened, changed or taken away while they are mapped."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelFileError, TruncatedFileError
from engine.gguf import fault_guard, open_model
from engine.gguf.mapping import MappedFile

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody shorten a mapped file")

PAGE = 1 << 16  # a multiple of every system's


def _mapped(path: Path, num_pages: int = 5) -> MappedFile:
    path.write_bytes(b"\1" * (PAGE * num_pages - 100))
    with open(path, "rb") as file:
        return MappedFile(path, file)


def test_what_a_shortened_file_does_not_hold_is_read_as_zeros_and_told(tmp_path: Path) -> None:
    mapped = _mapped(tmp_path / "a")
    data = np.frombuffer(mapped, np.uint8)
    mapped.check_unchanged()
    os.truncate(tmp_path / "a", PAGE + 10)
    assert data[PAGE : PAGE + 20].tolist() == [1] * 10 + [0] * 10, "the rest of the last page"
    assert data[2 * PAGE :].max() == 0
    with pytest.raises(TruncatedFileError, match=r"^a: the file was shortened from 327,580 to 65,546 bytes"):
        mapped.check_readable()
    os.truncate(tmp_path / "a", 5 * PAGE)
    with pytest.raises(ModelFileError, match="could not be read while it was in use; check the disk"):
        mapped.check_readable()


def test_a_file_that_is_written_to_is_told(tmp_path: Path) -> None:
    mapped = _mapped(tmp_path / "a")
    before = os.stat(tmp_path / "a")
    with open(tmp_path / "a", "r+b") as file:
        file.write(b"\2")
    os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    mapped.check_readable()
    with pytest.raises(ModelFileError, match="was changed while it was in use"):
        mapped.check_unchanged()


def test_another_file_by_its_name_does_not_matter(tmp_path: Path) -> None:
    mapped = _mapped(tmp_path / "a")
    (tmp_path / "b").write_bytes(b"")
    os.replace(tmp_path / "b", tmp_path / "a")
    assert np.frombuffer(mapped, np.uint8).min() == 1
    mapped.check_unchanged()


def test_arrays_are_guarded_as_long_as_they_live(tmp_path: Path) -> None:
    gc.collect()
    free = len(fault_guard._TABLE._free)
    mapped = _mapped(tmp_path / "a")
    data = np.frombuffer(mapped, np.uint8)
    with pytest.raises(BufferError):
        mapped.close()
    os.truncate(tmp_path / "a", 0)
    assert data.max() == 0
    del mapped, data
    gc.collect()
    assert len(fault_guard._TABLE._free) == free
    other = _mapped(tmp_path / "b")
    other.close()
    other.close()
    assert len(fault_guard._TABLE._free) == free


_CHILD = """
import ctypes, faulthandler, mmap, os, signal, sys
from pathlib import Path
from engine.gguf.mapping import MappedFile
order, way, path = sys.argv[1].split(), sys.argv[2], Path(sys.argv[3])
if order[0] == "enable":
    faulthandler.enable()
with open(path, "rb") as file:
    mapped = MappedFile(path, file)
    others = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
for word in order[order.index("map") + 1 :]:
    if word == "look":
        mapped.check_unchanged()
    elif word == "map":
        with open(path, "rb") as file:
            MappedFile(path, file)
    else:
        getattr(faulthandler, word)()
os.truncate(path, 0)
if not order[-1].endswith("able"):
    assert mapped[0] == 0
if way == "fault":
    others[0]
else:
    os.kill(os.getpid(), signal.SIGBUS)
"""


@pytest.mark.parametrize("way", ["fault", "sent"])
@pytest.mark.parametrize(
    "order",
    [
        *("map", "enable map", "map enable", "map enable look", "map enable map"),
        *("enable map disable look", "map enable look disable look", "map enable look disable enable look"),
    ],
)
def test_a_fault_of_another_mapping_ends_the_process_as_before(order: str, way: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\1" * PAGE)
    result = subprocess.run(
        [sys.executable, "-c", _CHILD, order, way, str(path)], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == -signal.SIGBUS, result.stderr
    is_enabled = "enable" in order.partition("disable")[2 if "disable" in order else 0].split()
    assert result.stderr.count("Fatal Python error: Bus error") == is_enabled


def test_more_mappings_than_can_be_guarded_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_guard._TABLE, "_free", fault_guard._TABLE._free[-1:])
    first = _mapped(tmp_path / "a")
    (tmp_path / "b.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelFileError, match=r"too many files are open .*; eject models"):
        open_model(tmp_path / "b.gguf")
    first.close()
    _mapped(tmp_path / "b").close()
