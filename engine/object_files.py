"""Machine code in this process: loaded from object files, which are kept in the cache folder.

Loading takes llvmlite alone, and of it none of the compiler: a start from a warm cache neither waits for one nor
holds its pages in memory. Knows nothing of what the code does, nor of how it was made.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from engine.cache_folder import cache_folder
from engine.checked_file import read_checked, write_checked

ObjectCode = tuple[str, bytes]  # symbol and object file

_KIND = b"FIREKRN1"
_STALE_S = 30 * 86400.0
_lock = threading.Lock()


def objects_folder() -> Path:
    """Folder of the object files."""
    return cache_folder() / "kernels"


@cache
def machine_text() -> str:
    """Versions and processor of this machine; asked anew for each of 25 kernels they took a third of a load."""
    features = ",".join(k for k, v in sorted(llvm.get_host_cpu_features().items()) if v)
    versions = f"numba {_numba_version()} llvmlite {llvmlite.__version__}"
    return "\n".join((versions, llvm.get_default_triple(), llvm.get_host_cpu_name(), features, ""))


def _numba_version() -> str:
    """What tells versions apart, without importing numba, or what reads the records of packages: 20 ms."""
    package = importlib.util.find_spec("numba")
    if package is not None and package.origin is not None:
        with contextlib.suppress(OSError):
            return Path(package.origin).with_name("_version.py").read_text(encoding="utf-8")
    from importlib import metadata

    return metadata.version("numba")


def target_machine() -> Any:
    """What makes code for this process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")


@cache
def _execution_engine() -> Any:
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())


def load_object(symbol: str, code: bytes) -> int:
    """Address of a function or variable of an object file, which stays loaded until the process ends.

    Of two files with the symbol the later one counts, so callers load and ask one after the other, behind a lock.
    Raises RuntimeError where it is not in the code.
    """
    with _lock:
        engine = _execution_engine()
        engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
        engine.finalize_object()
    return address_of(symbol)


def address_of(symbol: str) -> int:
    """Address of a symbol of a loaded object file. Raises RuntimeError where there is none."""
    with _lock:
        address = int(_execution_engine().get_global_value_address(symbol))
    if address == 0:
        raise RuntimeError(f"the code of {symbol} did not load")
    return address


def load_assembly(symbol: str, text: str) -> int:
    """Address of a function of a text in LLVM's language, which is compiled once and kept."""
    key = hashlib.sha256((machine_text() + text).encode()).hexdigest()[:32]
    path = objects_folder() / f"{symbol}-{key}.o"
    found = read_object(path)
    if found is None:
        machine = target_machine()  # before the text is read, which needs the processor's kind
        found = symbol, bytes(machine.emit_object(llvm.parse_assembly(text)))
        write_object(path, *found)
    return load_object(*found)


def read_object(path: Path) -> ObjectCode | None:
    """Symbol and code, or None when the file is absent or damaged."""
    content = read_checked(path, _KIND)
    if content is None:
        return None
    symbol, _, code = content.partition(b"\0")
    return symbol.decode(), code


def write_object(path: Path, symbol: str, code: bytes) -> None:
    """Keep an object file for the next start; a folder that cannot be written is no error.

    The file's name ends in a hyphen, what the code depends on, and ``.o``.
    """
    with contextlib.suppress(OSError):
        _remove_stale(path)
    write_checked(path, _KIND, symbol.encode() + b"\0" + code)


def _remove_stale(path: Path) -> None:
    """Remove other versions of the code that are a month old; another build may use younger ones."""
    name = path.name.rpartition("-")[0]
    for other in path.parent.glob(f"{name}-*.o"):
        if other != path and time.time() - other.stat().st_mtime > _STALE_S:
            other.unlink(missing_ok=True)
