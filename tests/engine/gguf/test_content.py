"""What files under a model's name really are."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
import zipfile

import pytest

from engine.gguf import HEAD_BYTES, describe_non_model
from tests.gguf_writer import encode_gguf

LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 4368439584\n"
)


def _zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
    return buffer.getvalue()


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("model.gguf"))
    return buffer.getvalue()


SAFETENSORS_HEADER = b'{"lm_head.weight":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}'

CASES = [
    (b"<!doctype html><html><head><title>Sign in</title></head></html>", "web page"),
    (b"\xef\xbb\xbf\n  <HTML lang='de'><p>\xc3\xbcber", "web page"),
    (b" " * 900 + b"<html>" + b"x" * 5000, "web page"),
    ("<!DOCTYPE html><html>Prüfung</html>".encode("latin-1"), "web page"),
    ("<html>sign in</html>".encode("utf-16"), "web page"),
    (b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code></Error>', "XML"),
    (b'{"error":"Repository not found"}', "JSON"),
    (b"Entry not found", "text file"),
    ("モデルが見つかりません".encode() * 60, "text file"),
    (LFS_POINTER, "Git LFS pointer that stands for 4,368 MB"),
    (_zip(), "ZIP"),
    (_tar(), "tar archive"),
    (pickle.dumps({"weight": [1.0]}, protocol=2), "pickle"),
    (pickle.dumps({"weight": [1.0]}, protocol=4), "pickle"),
    (struct.pack("<Q", len(SAFETENSORS_HEADER)) + SAFETENSORS_HEADER + b"\x00\x00", "safetensors"),
    (b"\x1f\x8b\x08\x00" + bytes(range(50)), "gzip"),
    (b"tjgg\x03\x00\x00\x00" + bytes(range(200)), "replaced in 2023"),
    (b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X", "macOS shadow"),
    (b"", "empty"),
    (b"GG", "first 2 bytes"),
    (bytes(4096), "nothing but zeros"),
    (bytes(range(256)) * 8, "later part of a split file"),
]


@pytest.mark.parametrize(("data", "words"), CASES)
def test_says_what_the_file_is_and_what_to_do(data: bytes, words: str) -> None:
    description = describe_non_model(data[:HEAD_BYTES])
    assert description is not None
    assert words in description
    assert "; " in description, "the description says what to do"
    assert "\n" not in description


def test_a_model_is_not_described() -> None:
    assert describe_non_model(encode_gguf({"general.architecture": "llama"})[:HEAD_BYTES]) is None


def test_a_cut_inside_a_character_does_not_hide_a_text() -> None:
    data = ("<html>" + "ü" * HEAD_BYTES).encode()
    assert "web page" in (describe_non_model(data[:HEAD_BYTES]) or "")
    assert "web page" in (describe_non_model(data[: HEAD_BYTES - 1]) or "")
