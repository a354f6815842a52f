"""The type table against that of the gguf package."""

from __future__ import annotations

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from engine.gguf.tensor_types import TensorType, removed_type_name


def test_every_type_of_the_specification_is_known_by_name_and_size() -> None:
    theirs = {item.name: (int(item), *GGML_QUANT_SIZES[item]) for item in GGMLQuantizationType}
    ours = {item.name: (int(item), item.block_size, item.block_bytes) for item in TensorType}
    assert {name: ours.get(name) for name in theirs} == theirs


def test_row_bytes() -> None:
    assert TensorType.Q4_K.row_bytes(512) == 288
    assert TensorType.F16.row_bytes(3) == 6


def test_removed_types_have_a_name_but_no_id() -> None:
    known = {int(item) for item in TensorType}
    named = {type_id: name for type_id in range(64) if (name := removed_type_name(type_id))}
    assert not known & named.keys()
    assert named[31] == "Q4_0_4_4"
    assert known | named.keys() >= set(range(39)), "an id the format once had is neither known nor named"
