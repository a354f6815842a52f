"""Opening model files: the real ones, small sound ones, and what is no model at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import (
    MetadataError,
    ModelFileError,
    NotGGUFError,
    TruncatedFileError,
    UnsupportedModelError,
)
from engine.gguf import TensorInfo, TensorType, open_model
from tests.engine.gguf.test_content import CASES
from tests.gguf_writer import RawTensor, encode_gguf, write_gguf

METADATA = {"general.architecture": "llama", "tokens": ["a", "b"]}


def small_tensors() -> dict[str, Any]:
    random = np.random.default_rng(7)
    return {
        "token_embd.weight": random.standard_normal((6, 32)).astype(np.float32),
        "half": random.standard_normal(5).astype(np.float16),
        "quantized": RawTensor(TensorType.Q4_1, (3, 64), random.integers(0, 256, 120).astype(np.uint8)),
        "experts": random.standard_normal((2, 3, 4)).astype(np.float32),
    }


@pytest.mark.parametrize("version", [2, 3])
def test_a_small_file(tmp_path: Path, version: int) -> None:
    tensors = small_tensors()
    path = write_gguf(tmp_path / "a.gguf", METADATA, tensors, version=version)
    with open_model(path) as file:
        assert file.version == version
        assert file.architecture == "llama"
        assert file.path == path
        assert file.paths == (path,)
        assert file.file_bytes == path.stat().st_size
        assert list(file.tensors) == list(tensors)
        for name, tensor in tensors.items():
            expected = tensor.data if isinstance(tensor, RawTensor) else tensor
            data = file.tensor_data(name)
            assert data.dtype == np.uint8
            assert data.shape == (file.tensors[name].num_bytes,)
            assert bytes(data) == bytes(expected)
            assert file.tensors[name].shape == tensor.shape
        assert file.tensors["quantized"].type is TensorType.Q4_1


def test_tensor_data_is_the_mapped_file_itself(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", METADATA, small_tensors())
    with open_model(path) as file:
        first, second = file.tensor_data("half"), file.tensor_data("half")
        assert first.ctypes.data == second.ctypes.data, "it was copied"
        assert not first.flags.writeable


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096])
def test_alignment(tmp_path: Path, alignment: int) -> None:
    values = {**METADATA, "general.alignment": alignment}
    path = write_gguf(tmp_path / "a.gguf", values, small_tensors(), alignment=alignment)
    with open_model(path) as file:
        assert np.array_equal(file.tensor_data("half").view(np.float16), small_tensors()["half"])
        assert all(tensor.offset % alignment == 0 for tensor in file.tensors.values())


def test_a_file_without_tensors_or_architecture(tmp_path: Path) -> None:
    with open_model(write_gguf(tmp_path / "a.gguf")) as file:
        assert file.tensors == {}
        assert len(file.metadata) == 0
        with pytest.raises(MetadataError, match=r"a\.gguf: general\.architecture: is missing"):
            _ = file.architecture


def test_an_absent_tensor_is_a_matter_of_layout_not_of_damage(tmp_path: Path) -> None:
    with open_model(write_gguf(tmp_path / "a.gguf", METADATA, small_tensors())) as file:
        with pytest.raises(UnsupportedModelError, match=r"a\.gguf: it has no tensor 'output\.weight'") as caught:
            file.tensor_data("output.weight")
        assert "download" not in str(caught.value)


def test_closing(tmp_path: Path) -> None:
    file = open_model(write_gguf(tmp_path / "a.gguf", METADATA, small_tensors()))
    kept = file.tensor_data("half")
    before = kept.copy()
    file.close()
    file.close()
    assert np.array_equal(kept, before), "an array outlives the file it came from"
    with pytest.raises(ModelFileError, match="the file was closed"):
        file.tensor_data("half")


@pytest.mark.parametrize(
    "folder",
    ["Загрузки", "モデル ü", "模型 🦙", "a b  c", "％ＴＥＭＰ％\u3000", "new\nline", "e\u0301", "-rf", "a%20b#?&"],
)
def test_any_path_works(tmp_path: Path, folder: str) -> None:
    place = tmp_path / folder / "a b.d"
    place.mkdir(parents=True)
    path = write_gguf(place / f"{folder} 한국어.gguf", METADATA, small_tensors())
    for given in (path, str(path)):
        with open_model(given) as file:
            assert file.path == path
            assert file.tensor_data("half").size == 10


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="shorter ones are the longest there")
def test_a_very_long_path_works(tmp_path: Path) -> None:
    place = tmp_path.joinpath(*["Загрузки モデル 🦙".ljust(120, "x")] * 20)
    place.mkdir(parents=True)
    path = write_gguf(place / f"{'x' * 240}.gguf", METADATA, small_tensors())
    assert len(os.fsencode(path)) > 2500
    with open_model(path) as file:
        assert file.tensor_data("half").size == 10


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are Unicode there")
def test_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/\xff.gguf"))
    write_gguf(path, METADATA)
    with open_model(path) as file:
        assert file.architecture == "llama"
    path.write_bytes(b"<html>")
    with pytest.raises(NotGGUFError) as caught:
        open_model(path)
    assert str(caught.value).encode("utf-8").startswith(b"\\udcff.gguf: "), "the message can be printed"


def test_a_relative_path_and_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "blob", METADATA)
    (tmp_path / "a.gguf").symlink_to("blob")
    monkeypatch.chdir(tmp_path)
    with open_model("a.gguf") as file:
        assert file.architecture == "llama"


@pytest.mark.parametrize(("data", "words"), CASES)
def test_what_is_no_model_is_named(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(NotGGUFError, match=r"^model\.gguf: this is ") as caught:
        open_model(path)
    assert words in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"^a\.gguf: there is no such file"):
        open_model(tmp_path / "a.gguf")
    with pytest.raises(ModelFileError, match=r"^a\.gguf: there is no such file"):
        open_model(tmp_path / "absent" / "a.gguf")
    (tmp_path / "broken.gguf").symlink_to("nowhere")
    with pytest.raises(ModelFileError, match="there is no such file"):
        open_model(tmp_path / "broken.gguf")
    with pytest.raises(ModelFileError, match="there is no such file"):
        open_model(tmp_path / "a.gguf.part1of2")


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").mkdir()
    with pytest.raises(ModelFileError, match="this is a folder"):
        open_model(tmp_path / "a.gguf")


@pytest.mark.parametrize("path", ["a\0b.gguf", "x" * 5000 + ".gguf"])
def test_an_impossible_path(path: str) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        open_model(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes in folders")
def test_a_pipe_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.gguf")
    with pytest.raises(ModelFileError, match="not an ordinary file"):
        open_model(tmp_path / "a.gguf")


@pytest.mark.parametrize(
    ("error", "words"),
    [(PermissionError(13, "Permission denied"), "permission is denied"), (OSError(5, "I/O error"), "I/O error")],
)
def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, words: str) -> None:
    path = write_gguf(tmp_path / "a.gguf", METADATA)

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise error

    # Not by chmod: the tests may run as root, who may read everything.
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ModelFileError, match=words):
        open_model(path)


def test_a_failed_opening_leaves_nothing_open(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("open files can be counted on Linux only")
    path = tmp_path / "a.gguf"
    path.write_bytes(encode_gguf(METADATA, small_tensors())[:-50])
    before = len(list(descriptors.iterdir()))
    for _ in range(20):
        with pytest.raises(TruncatedFileError):
            open_model(path)
    assert len(list(descriptors.iterdir())) == before


def test_smollm2(smollm2_path: Path) -> None:
    with open_model(smollm2_path) as file:
        assert file.architecture == "llama"
        assert (len(file.metadata), len(file.tensors)) == (33, 272)
        assert file.metadata.integer("llama.block_count") == 30
        assert file.metadata.boolean("tokenizer.ggml.add_bos_token") is False
        assert file.metadata.string("tokenizer.chat_template").startswith("{% for message in messages %}")
        tokens = file.metadata.strings("tokenizer.ggml.tokens")
        assert (len(tokens), tokens[1]) == (49152, "<|im_start|>")
        assert file.metadata.strings("tokenizer.ggml.merges")[:2] == ["Ġ t", "Ġ a"]
        assert file.tensors["token_embd.weight"].shape == (49152, 576)
        assert file.tensors["blk.29.ffn_down.weight"].type is TensorType.Q4_1
        last = max(file.tensors.values(), key=lambda tensor: tensor.offset)
        assert last.offset + last.num_bytes <= file.file_bytes < last.offset + last.num_bytes + 32


def test_gemma3(gemma3_path: Path) -> None:
    with open_model(gemma3_path) as file:
        assert file.architecture == "gemma3"
        assert (len(file.metadata), len(file.tensors)) == (33, 236)
        tokens = file.metadata.strings("tokenizer.ggml.tokens")
        assert (len(tokens), tokens[:3]) == (262144, ["<pad>", "<eos>", "<bos>"])
        assert "🙂" in tokens
        assert file.metadata.byte_strings("tokenizer.ggml.tokens")[:2] == [b"<pad>", b"<eos>"]
        assert file.metadata.numbers("tokenizer.ggml.scores").shape == (262144,)
        assert set(np.unique(file.metadata.integers("tokenizer.ggml.token_type"))) <= {1, 2, 3, 4, 5, 6}
        embedding = file.tensors["token_embd.weight"]
        assert embedding == TensorInfo(
            "token_embd.weight", embedding.type, (262144, 640), embedding.num_bytes, 0, embedding.offset
        )
        norm = file.tensor_data("output_norm.weight").view(np.float32)
        assert norm.shape == (640,)
        assert np.isfinite(norm).all()


def test_a_header_steps_over_the_tokens_of_its_vocabulary(gemma3_path: Path) -> None:
    num_calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal num_calls
        num_calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        file = open_model(gemma3_path)
    finally:
        sys.setprofile(before)
    with file:
        num_tokens = len(file.metadata.strings("tokenizer.ggml.tokens"))
    assert num_calls < 1.5 * num_tokens, "one each, to step over it; none is decoded before it is asked for"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody shorten a mapped file")
def test_a_file_that_is_shortened_while_open_gets_a_sentence(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {}, {"a": np.zeros(5000, np.float32)})
    with open_model(path) as file:
        os.truncate(path, 1000)
        with pytest.raises(TruncatedFileError, match=r"shortened from 20,\d+ to 1,000 bytes"):
            file.tensor_data("a")
