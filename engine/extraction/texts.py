"""Files into text: plain text in its encodings, tables and code as they are, the text of PDFs.

What cannot be read raises ``InputError`` with one sentence for the person.
"""

from __future__ import annotations

import codecs
import logging
import re
import stat
from pathlib import Path

from engine.errors import InputError
from engine.json_text import decode_strictly

MAX_FILE_BYTES = 50_000_000
MAX_CHARACTERS = 4_000_000
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text_file(path: Path) -> str:
    """The text of a file; raises InputError."""
    name = path.name
    data = read_regular(path, MAX_FILE_BYTES)
    text = _pdf_text(path) if data.startswith(b"%PDF-") else decoded(data, name)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise InputError(f"{name} holds no text.")
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"{name} holds more than {MAX_CHARACTERS:,} characters; use a part of it.")
    return text


def read_regular(path: Path, max_bytes: int, *, is_start_enough: bool = False) -> bytes:
    """The bytes of a file that a person chose; raises InputError, also for what could be read for ever.

    Of a file larger than ``max_bytes`` the first ones are given where ``is_start_enough``.
    """
    name = path.name
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{name} is a folder; choose the files in it.")
        if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device may never end
            raise InputError(f"{name} is a device or a pipe, not a file; save what it holds as a file first.")
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)  # it may grow, or be larger than the system says
    except ValueError as error:
        raise InputError(f"{name!r} is no name that a file can have.") from error
    except OSError as error:
        raise InputError(f"{name} could not be read: {error.strerror or error}.") from error
    if is_start_enough:
        return data[:max_bytes]
    if len(data) > max_bytes:
        raise InputError(f"{name} is larger than {max_bytes // 1_000_000} MB; use a part of it.")
    return data


def decoded(data: bytes, name: str) -> str:
    """The text of a file's bytes, by its byte order mark, as UTF-8, else as Windows-1252; raises InputError.

    No byte is replaced: what does not fit is told, for nobody would see it among many.
    """
    if (encoding := marked_encoding(data)) is not None:
        return decode_strictly(data, encoding, name)
    controls = sum(data.count(bytes((code,))) for code in range(32) if chr(code) not in "\t\n\r\f\v\x1b")
    if b"\x00" in data or controls * 100 > len(data):
        raise InputError(f"{name} is no text: text, Markdown, code, tables (CSV) and PDF can be read.")
    return decode_strictly(data, _likely_encoding(data), name)


def marked_encoding(data: bytes) -> str | None:
    """The encoding that the byte order mark at the beginning names; None without one."""
    return next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)


def _likely_encoding(data: bytes) -> str:
    """UTF-8, or Windows-1252, which has nearly every byte: in UTF-8 with some damage most letters are whole."""
    text = data.decode("utf-8", "surrogateescape")
    num_stray = len(re.findall("[\udc80-\udcff]", text))
    num_wide = len(re.findall("[^\x00-\x7f]", text)) - num_stray if num_stray else 0
    return "utf-8" if num_wide >= num_stray else "cp1252"


def _pdf_text(path: Path) -> str:
    from pypdf import PdfReader  # only who has a PDF should wait for it
    from pypdf.errors import DependencyError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every flaw that it mends
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise InputError(f"{path.name} is locked with a password; use a copy without one.")
        text = "\n\n".join(page.extract_text() for page in reader.pages)
    except InputError:
        raise
    except (DependencyError, NotImplementedError) as error:  # AES without the package for it, or another handler
        raise InputError(f"{path.name} is encrypted; use a copy that is not.") from error
    except (
        PyPdfError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        RecursionError,
        OSError,
    ) as error:
        raise InputError(f"{path.name} is damaged, or no PDF that can be read.") from error
    if not text.strip():
        raise InputError(f"{path.name} holds no text: its pages are pictures.")
    return text
