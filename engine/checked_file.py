"""Files of the cache folder that count as absent once a byte of them is wrong.

Each begins with eight bytes that tell its kind and a hash of its own name and what follows, and takes its place
whole. A name says what its content was made from, so a file under another's name is wrong, too. A folder that
cannot be written costs only the next start. Knows nothing of what is in them.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from pathlib import Path
from typing import Final

_KIND_BYTES: Final = 8
_DIGEST_BYTES: Final = 32


def read_checked(path: Path, kind: bytes) -> bytes | None:
    """The content, or None where the file is absent, damaged, of another kind or kept under another name."""
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    content = whole[_KIND_BYTES + _DIGEST_BYTES :]
    is_good = whole[: _KIND_BYTES + _DIGEST_BYTES] == kind + _digest(path, content)
    return content if is_good else None


def write_checked(path: Path, kind: bytes, content: bytes) -> None:
    """Keep the content for the next start, where that is possible; ``kind`` is eight bytes."""
    assert len(kind) == _KIND_BYTES
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            temporary = Path(file.name)
            file.write(kind + _digest(path, content) + content)
        temporary.replace(path)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def _digest(path: Path, content: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + b"\0" + content).digest()
