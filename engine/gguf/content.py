"""What a file under a model's name really is, told from its first bytes.

Knows the signatures of what people find in place of a model: web pages, pointers, archives, other formats. Reads no
file; the library and the downloads use it on the first bytes of a transfer.
"""

from __future__ import annotations

import re

MAGIC = b"GGUF"
HEAD_BYTES = 1024  # enough of a file's beginning for describe_non_model

_AGAIN = "download the model again"
_OTHER_FORMAT = "look for a GGUF version of this model"
_UNPACK = "unpack it, or download the GGUF file itself"

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", f"a ZIP archive or a PyTorch checkpoint, not a GGUF model; {_OTHER_FORMAT}"),
    (b"\x1f\x8b", f"a gzip archive, not a GGUF model; {_UNPACK}"),
    (b"BZh", f"a bzip2 archive, not a GGUF model; {_UNPACK}"),
    (b"\xfd7zXZ\x00", f"an xz archive, not a GGUF model; {_UNPACK}"),
    (b"\x28\xb5\x2f\xfd", f"a Zstandard archive, not a GGUF model; {_UNPACK}"),
    (b"7z\xbc\xaf\x27\x1c", f"a 7-Zip archive, not a GGUF model; {_UNPACK}"),
    (b"Rar!\x1a\x07", f"a RAR archive, not a GGUF model; {_UNPACK}"),
    (b"\x89HDF\r\n", f"an HDF5 file, not a GGUF model; {_OTHER_FORMAT}"),
    (b"\x93NUMPY", f"a NumPy array, not a GGUF model; {_OTHER_FORMAT}"),
    (b"%PDF", f"a PDF document, not a GGUF model; {_AGAIN}"),
    (b"MZ", f"a Windows program, not a GGUF model; {_AGAIN}"),
    (b"\x7fELF", f"a Linux program, not a GGUF model; {_AGAIN}"),
    (b"\x89PNG", f"a picture, not a GGUF model; {_AGAIN}"),
    (b"\x00\x05\x16\x07", "a macOS shadow file that holds no model; open the file without the leading dots"),
    *(
        (magic, "a model in a format that GGUF replaced in 2023; look for a GGUF version of this model")
        for magic in (b"lmgg", b"tjgg", b"fmgg", b"algg", b"ggml", b"ggjt", b"ggmf", b"ggla")
    ),
)
_PICKLE = re.compile(rb"\x80[\x02-\x05]")  # the opcode PROTO and its protocol
_SAFETENSORS = re.compile(rb"[\x00-\xff]{5}\x00{3}\{\s*\"")  # 8 bytes of length below 2**40, then JSON
_POINTER_SIZE = re.compile(rb"^size ([0-9]{1,18})$", re.M)


def describe_non_model(head: bytes) -> str | None:
    """What the file is, with what to do about it: ``a web page ...; download the model again``.

    Args:
        head: the first bytes of the file, ``HEAD_BYTES`` of them unless the file is shorter.

    Returns:
        None where the file begins like GGUF.
    """
    if head.startswith(MAGIC):
        return None
    if not head:
        return f"an empty file; {_AGAIN}"
    if MAGIC.startswith(head):
        return f"only the first {len(head)} bytes of a file; {_AGAIN}"
    for signature, description in _SIGNATURES:
        if head.startswith(signature):
            return description
    if _SAFETENSORS.match(head):
        return f"a safetensors file, not a GGUF model; {_OTHER_FORMAT}"
    if _PICKLE.match(head):
        return f"a Python pickle or PyTorch checkpoint, not a GGUF model; {_OTHER_FORMAT}"
    if head[257:262] == b"ustar":
        return f"a tar archive, not a GGUF model; {_UNPACK}"
    if not head.strip(b"\x00"):
        return f"a file that begins with nothing but zeros, probably an unfinished download; {_AGAIN}"
    return _describe_text(head) or (
        "not a GGUF model, for it lacks the mark at the beginning; if it is a later part of a split file, join all "
        f"parts in order, otherwise {_AGAIN}"
    )


def _describe_text(head: bytes) -> str | None:
    """What a text is; None where the bytes are no text."""
    encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    text = head.decode(encoding, "ignore")
    if len(text.encode()) < len(head) // 3 or not all(map(_is_textual, text)):
        return None
    text = text.lstrip()
    if text.startswith("version https://git-lfs.github.com/"):
        size = _POINTER_SIZE.search(head)
        stands_for = f" that stands for {int(size[1]) / 1e6:,.0f} MB" if size else ""
        return f"a Git LFS pointer{stands_for}, not the model itself; download the file it points to"
    lowered = text[:256].lower()
    if lowered.startswith("<?xml"):
        return f"an XML message of a server, not a GGUF model; {_AGAIN}"
    if lowered.startswith("<"):
        return f"a web page (HTML), such as a sign-in or error page, not a GGUF model; {_AGAIN}"
    if lowered.startswith(("{", "[")):
        return f"a JSON text, perhaps an error message of a server, not a GGUF model; {_AGAIN}"
    return f"a text file, not a GGUF model; {_AGAIN}"


def _is_textual(character: str) -> bool:
    return character.isprintable() or character in "\r\n\t\f\ufeff"
