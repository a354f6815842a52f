"""Machine code in this process: loaded from object files, which are kept in the cache folder.

Loading takes llvmlite alone, and of it none of the compiler: a start from a warm cache neither waits for one nor
holds its pages in memory. Knows nothing of what the code does, nor of how it was made.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
import time
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from engine.cache_folder import cache_folder

ObjectCode = tuple[str, bytes]  # symbol and object file

_MAGIC = b"FIREKRN1"
_STALE_S = 30 * 86400.0
_lock = threading.Lock()


def objects_folder() -> Path:
    """Folder of the object files."""
    return cache_folder() / "kernels"


@cache
def machine_text() -> str:
    """Versions and processor of this machine; asked anew for each of 25 kernels they took a third of a load."""
    features = ",".join(k for k, v in sorted(llvm.get_host_cpu_features().items()) if v)
    versions = f"numba {metadata.version('numba')} llvmlite {metadata.version('llvmlite')}"
    return "\n".join((versions, llvm.get_default_triple(), llvm.get_host_cpu_name(), features, ""))


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

    No other object file may have defined the symbol. Raises RuntimeError where it is not in the code.
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


def read_object(path: Path) -> ObjectCode | None:
    """Symbol and code, or None when the file is absent or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    magic, digest, payload = content[:8], content[8:40], content[40:]
    if magic != _MAGIC or hashlib.sha256(payload).digest() != digest:
        return None
    symbol, _, code = payload.partition(b"\0")
    return symbol.decode(), code


def write_object(path: Path, symbol: str, code: bytes) -> None:
    """Keep an object file for the next start; a folder that cannot be written is no error.

    The file's name ends in a hyphen, what the code depends on, and ``.o``.
    """
    payload = symbol.encode() + b"\0" + code
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            temporary = Path(file.name)
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
        temporary.replace(path)
    except OSError:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Remove other versions of the code that are a month old; another build may use younger ones."""
    name = path.name.rpartition("-")[0]
    for other in path.parent.glob(f"{name}-*.o"):
        if other != path and time.time() - other.stat().st_mtime > _STALE_S:
            other.unlink(missing_ok=True)
