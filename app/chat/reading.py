"""Files into text, for attaching: plain text in its encodings, tables and code as they are, the text of PDFs.

Runs beside the GUI thread. What cannot be read raises ``AttachmentError`` with one sentence for the person.
"""

from __future__ import annotations

import codecs
import logging
from pathlib import Path

from app.translation import localised, tr

MAX_FILE_BYTES = 50_000_000
MAX_CHARACTERS = 4_000_000
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class AttachmentError(Exception):
    """A file cannot be attached; the message is one sentence for the person."""


def read_text_file(path: Path) -> str:
    """The text of a file; raises AttachmentError."""
    name = path.name
    try:
        if path.is_dir():
            raise AttachmentError(tr("{name} is a folder; attach the files in it.", name=name))
        if path.stat().st_size > MAX_FILE_BYTES:
            raise AttachmentError(
                tr(
                    "{name} is larger than {megabytes} MB; attach a part of it.",
                    name=name,
                    megabytes=MAX_FILE_BYTES // 1_000_000,
                )
            )
        data = path.read_bytes()
    except OSError as error:
        raise AttachmentError(
            tr("{name} could not be read: {strerror}.", name=name, strerror=error.strerror or error)
        ) from error
    text = _pdf_text(path) if data.startswith(b"%PDF-") else _decoded(data, name)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise AttachmentError(tr("{name} holds no text.", name=name))
    if len(text) > MAX_CHARACTERS:
        raise AttachmentError(
            tr(
                "{name} holds more than {characters} characters; attach a part of it.",
                name=name,
                characters=localised(f"{MAX_CHARACTERS:,}"),
            )
        )
    return text


def _decoded(data: bytes, name: str) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    controls = sum(text.count(chr(code)) for code in range(32) if chr(code) not in "\t\n\r\f\v\x1b")
    if "\x00" in text or controls * 100 > len(text):
        raise AttachmentError(
            tr("{name} is no text: text, Markdown, code, tables (CSV) and PDF can be attached.", name=name)
        )
    return text


def _pdf_text(path: Path) -> str:
    from pypdf import PdfReader  # only a chat with PDFs should wait for it
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every flaw that it mends
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise AttachmentError(
                tr("{name} is locked with a password; save it without one and attach it again.", name=path.name)
            )
        text = "\n\n".join(page.extract_text() for page in reader.pages)
    except AttachmentError:
        raise
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
        raise AttachmentError(tr("{name} is damaged, or no PDF that can be read.", name=path.name)) from error
    if not text.strip():
        raise AttachmentError(tr("{name} holds no text: its pages are pictures.", name=path.name))
    return text
