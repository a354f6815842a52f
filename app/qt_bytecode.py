"""Keeps the bytecode of the Python sources that PySide carries inside its library.

PySide unpacks a dozen files of Python from its own binary and compiles them at every start, which is a tenth of the
time until the window stands; Python keeps bytecode of files alone. So what PySide compiles while it is imported is
kept in the cache folder, under the same rules as any bytecode: valid for this source and this Python only, made
again when it is gone or damaged, not written where Python shall write none.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import logging
import marshal
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

_log = logging.getLogger(__name__)

_PREFIXES = ("shibokensupport/", "signature_bootstrap")
"""How the names of the sources begin that PySide gives to ``compile``."""

_Kept = dict[tuple[str, str | bytes], CodeType]  # by name and source


@contextlib.contextmanager
def kept_bytecode(folder: Path) -> Iterator[None]:
    """While PySide is imported for the first time: compile what ``folder`` has no bytecode of, and keep that."""
    path = folder / f"qt-{importlib.util.MAGIC_NUMBER.hex()}.bytecode"
    kept = _read(path)
    added: _Kept = {}
    compile_anew = builtins.compile

    def compile_once(source: Any, filename: Any, mode: str, *arguments: Any, **named: Any) -> Any:
        is_ours = isinstance(source, str | bytes) and isinstance(filename, str) and filename.startswith(_PREFIXES)
        if not is_ours or mode != "exec" or arguments or named:
            return compile_anew(source, filename, mode, *arguments, **named)
        if (code := kept.get((filename, source))) is None:
            code = added[filename, source] = compile_anew(source, filename, mode)
        return code

    builtins.compile = compile_once
    try:
        yield
    finally:
        builtins.compile = compile_anew
    if added and not sys.dont_write_bytecode:
        _write(path, added | {key: code for key, code in kept.items() if key[0] not in {name for name, _ in added}})


def _read(path: Path) -> _Kept:
    try:
        kept = marshal.loads(path.read_bytes())
    except (OSError, ValueError, EOFError, TypeError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _write(path: Path, kept: _Kept) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(marshal.dumps(kept))
        part.replace(path)
    except OSError as error:
        _log.info("no bytecode kept: %s", error)
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
