"""Names of shards and raw parts, and shard sets opened as one model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import CorruptFileError, MissingShardsError, SplitFileError, TruncatedFileError
from engine.gguf import (
    RawPart,
    ShardName,
    is_model_file,
    open_model,
    present_shards,
    raw_part_of,
    shard_of,
    shard_paths,
)
from tests.gguf_writer import Value, encode_gguf, write_gguf, write_shards

METADATA = {"general.architecture": "llama", "llama.block_count": 2}
PARTS: list[dict[str, Any]] = [
    {"a": np.full((2, 4), 1, np.float32)},
    {"b": np.full((3, 4), 2, np.float32), "c": np.full(4, 3, np.float16)},
    {"d": np.full((1, 4), 4, np.float32)},
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-00001-of-00003.gguf", ShardName("a", 1, 3)),
        ("a-00003-of-00003.GGUF", ShardName("a", 3, 3, ".GGUF")),
        ("модель 模型-00002-of-00011.gguf", ShardName("модель 模型", 2, 11)),
        ("x-00001-of-00002-00001-of-00003.gguf", ShardName("x-00001-of-00002", 1, 3)),
        ("best-of-breed.gguf", None),
        ("a-1-of-3.gguf", None),
        ("a-000001-of-000003.gguf", None),
        ("a-00004-of-00003.gguf", None),
        ("a-00000-of-00003.gguf", None),
        ("a-00001-of-00000.gguf", None),
        ("a-00001-of-00003.gguf.part", None),
        ("-00001-of-00003.gguf", None),
        ("a-0000١-of-00003.gguf", None),  # an Arabic digit
        ("a-00001-of-00003.safetensors", None),
    ],
)
def test_shard_of(name: str, expected: ShardName | None) -> None:
    assert shard_of(name) == expected
    if expected is not None:
        assert expected.name_of(expected.number) == name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x.gguf.part1of2", RawPart("x.gguf", "1", 2)),
        ("x.gguf.part2of2", RawPart("x.gguf", "2", 2)),
        ("x.Q6_K.gguf-part-01-of-03", RawPart("x.Q6_K.gguf", "1", 3)),
        ("x.part1of2.gguf", RawPart("x.gguf", "1", 2)),
        ("x.gguf.part00", RawPart("x.gguf", "00", None)),
        ("x.gguf-split-a", RawPart("x.gguf", "a", None)),
        ("x.gguf.part-aa", RawPart("x.gguf", "aa", None)),
        ("x.gguf.001", RawPart("x.gguf", "001", None)),
        ("x.gguf", None),
        ("x.gguf.part", None),  # a browser's unfinished download
        ("x.gguf.part1of1", None),
        ("x.gguf.part3of2", None),
        ("a-00001-of-00003.gguf", None),
        ("model.part-time.gguf", None),
        ("counterpart1.gguf", None),
    ],
)
def test_raw_part_of(name: str, expected: RawPart | None) -> None:
    assert raw_part_of(name) == expected


def test_is_model_file() -> None:
    models = ["a.gguf", "B.GGUF", "a-00001-of-00003.gguf", "best-of-breed.gguf", "モデル ü.gguf"]
    others = [
        "x.gguf.part1of2",
        "x.gguf.part",
        "x.part1of2.gguf",
        "._a.gguf",
        "a.safetensors",
        "gguf",
        "a.gguf.tmp",
    ]
    assert [name for name in models + others if is_model_file(name)] == models


def test_the_shards_of_a_listing() -> None:
    shard = shard_of("a-00003-of-00003.gguf")
    assert shard is not None
    others = ["b-00002-of-00003.gguf", "a-00002-of-00004.gguf", "a-00002-of-00003.GGUF", "a-2-of-3.gguf", "a.gguf"]
    assert present_shards(shard, ["a-00003-of-00003.gguf", "a-00001-of-00003.gguf", *others]) == (1, 3)
    assert present_shards(shard, others) == ()


def test_a_claimed_count_asks_the_disk_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (2, 99999):
        (tmp_path / f"a-{number:05d}-of-99999.gguf").touch()
    asked: list[str] = []
    exists = os.path.exists

    def look(path: str) -> bool:
        asked.append(path)
        return exists(path)

    monkeypatch.setattr(os.path, "exists", look)
    with pytest.raises(MissingShardsError, match="shards 1 and 3-99998 of 99999"):
        shard_paths(tmp_path / "a-00002-of-99999.gguf")
    assert len(asked) == 2


def test_a_set_that_lacks_its_last_shards_is_incomplete(tmp_path: Path) -> None:
    shard = ShardName("a", 1, 1500)
    for number in range(1, 1001):
        (tmp_path / shard.name_of(number)).touch()
    assert present_shards(shard, os.listdir(tmp_path)) == tuple(range(1, 1001))
    with pytest.raises(MissingShardsError, match="shards 1001-1500 of 1500 are missing"):
        shard_paths(tmp_path / shard.name_of(1))


@pytest.mark.parametrize("opened", [0, 1, 2])
def test_a_set_opens_as_one_model_from_any_shard(tmp_path: Path, opened: int) -> None:
    paths = write_shards(tmp_path, "a", METADATA, PARTS)
    with open_model(paths[opened]) as file:
        assert file.path == paths[0]
        assert file.paths == tuple(paths)
        assert file.file_bytes == sum(path.stat().st_size for path in paths)
        assert file.architecture == "llama"
        assert list(file.tensors) == ["a", "b", "c", "d"]
        assert [tensor.shard for tensor in file.tensors.values()] == [0, 1, 1, 2]
        for part in PARTS:
            for name, values in part.items():
                assert file.tensors[name].shape == values.shape
                assert file.tensor_data(name).tobytes() == values.tobytes()


def test_a_first_shard_without_tensors(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "a", METADATA, [{}, PARTS[1]])
    with open_model(paths[1]) as file:
        assert list(file.tensors) == ["b", "c"]
        assert file.metadata.integer("llama.block_count") == 2


def test_missing_shards_are_named_by_number(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "a", METADATA, PARTS)
    paths[1].unlink()
    with pytest.raises(MissingShardsError, match="shard 2 of 3 is missing"):
        open_model(paths[2])
    paths[0].unlink()
    with pytest.raises(MissingShardsError, match="shards 1 and 2 of 3 are missing"):
        shard_paths(paths[2])


def test_many_missing_shards_make_one_short_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a-00004-of-99999.gguf"
    path.write_bytes(encode_gguf())
    with pytest.raises(MissingShardsError, match=r"shards 1-3 and 5-99999 of 99999 are missing"):
        open_model(path)


def test_look_alikes_are_single_files(tmp_path: Path) -> None:
    for name in ("best-of-breed.gguf", "a-1-of-3.gguf"):
        path = write_gguf(tmp_path / name, METADATA, PARTS[0])
        with open_model(path) as file:
            assert file.paths == (path,)


def test_a_set_of_one_and_a_merged_file_are_single_files(tmp_path: Path) -> None:
    (alone,) = write_shards(tmp_path, "a", METADATA, PARTS[:1])
    with open_model(alone) as file:
        assert list(file.tensors) == ["a"]
    merged = write_gguf(tmp_path / "merged.gguf", {**METADATA, "split.count": Value("uint16", 0)}, PARTS[0])
    with open_model(merged) as file:
        assert file.paths == (merged,)


def test_shards_without_split_keys_open_by_their_names(tmp_path: Path) -> None:
    write_gguf(tmp_path / "a-00001-of-00002.gguf", METADATA, PARTS[0])
    second = write_gguf(tmp_path / "a-00002-of-00002.gguf", {}, PARTS[1])
    with open_model(second) as file:
        assert list(file.tensors) == ["a", "b", "c"]


def test_a_swapped_shard_is_refused(tmp_path: Path) -> None:
    first, second, _third = write_shards(tmp_path, "a", METADATA, PARTS)
    swapped = tmp_path / "swapped"
    second.rename(swapped)
    first.rename(second)
    swapped.rename(first)
    with pytest.raises(CorruptFileError, match="name says shard 1 of 3 but its content says 2 of 3"):
        open_model(first)


def test_a_shard_of_another_set_is_refused(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "a", METADATA, PARTS)
    other = write_shards(tmp_path, "b", METADATA, PARTS[:2])
    other[1].replace(paths[1])
    with pytest.raises(CorruptFileError, match="content says 2 of 2"):
        open_model(paths[0])


def test_a_shard_under_another_name_is_refused(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "a", METADATA, PARTS)
    renamed = paths[1].rename(tmp_path / "model.gguf")
    with pytest.raises(MissingShardsError, match="shard 2 of 3 of a model under another name"):
        open_model(renamed)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "a", METADATA, [PARTS[0], PARTS[0]])
    with pytest.raises(CorruptFileError, match=r"'a' is also in a-00001-of-00002\.gguf"):
        open_model(paths[0])


def test_too_few_tensors_in_the_set_are_refused(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "a", METADATA, PARTS)
    keys = {"split.no": Value("uint16", 1), "split.count": Value("uint16", 3)}
    write_gguf(paths[1], keys, {"b": PARTS[1]["b"]})
    with pytest.raises(CorruptFileError, match="hold 3 of the 4 tensors"):
        open_model(paths[2])


def test_a_truncated_shard_is_named(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "a", METADATA, PARTS)
    paths[2].write_bytes(paths[2].read_bytes()[:-20])
    with pytest.raises(TruncatedFileError, match=r"^a-00003-of-00003\.gguf: "):
        open_model(paths[0])


@pytest.mark.parametrize(("name", "half"), [("x.gguf.part1of2", 0), ("x.gguf.part2of2", 1)])
def test_raw_parts_say_that_they_must_be_joined(tmp_path: Path, name: str, half: int) -> None:
    data = encode_gguf(METADATA, PARTS[0])
    middle = len(data) // 2
    path = tmp_path / name
    path.write_bytes(data[:middle] if half == 0 else data[middle:])
    with pytest.raises(SplitFileError, match=rf"part {half + 1} of 2 of a split file .* into x\.gguf"):
        open_model(path)


def test_a_raw_part_whose_name_has_no_count(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf.part00"
    path.write_bytes(encode_gguf(METADATA, PARTS[0])[:100])
    with pytest.raises(SplitFileError, match="part 00 of a split file"):
        open_model(path)
