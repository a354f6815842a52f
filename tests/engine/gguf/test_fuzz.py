"""Mutated files: whatever the bytes say, opening gives a model or an EngineError, soon and in little memory."""

from __future__ import annotations

import contextlib
import math
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.errors import EngineError, MetadataError
from engine.gguf import GGUFFile, Metadata, open_model
from tests.gguf_writer import RawTensor, Value, encode_gguf

SOUND = encode_gguf(
    {
        "general.architecture": "llama",
        "general.alignment": 32,
        "llama.block_count": 1,
        "llama.rope.freq_base": 10000.0,
        "llama.per_layer": Value("uint16", [1, 2, 3]),
        "wide": Value("uint64", 2**40),
        "on": True,
        "flags": [True, False],
        "tokenizer.ggml.tokens": ["<s>", "", "ü", "\U0001f999" * 3],
        "tokenizer.ggml.scores": [0.5, -1.0, 3.0, 4.0],
        "tokenizer.chat_template": "{{ messages }}" * 5,
        "split.count": Value("uint16", 0),
    },
    {
        "token_embd.weight": np.ones((4, 32), np.float32),
        "blk.0.ffn_down.weight": RawTensor(2, (2, 64), bytes(72)),
        "output_norm.weight": np.ones(32, np.float16),
    },
)
MEMORY_BYTES = 4 << 20  # the file has under 2 KiB; the rest is room for Python itself
LIMIT_S = 60.0  # of milliseconds

positions = st.integers(0, len(SOUND) - 1)
tricky = st.sampled_from(
    [
        0,
        1,
        7,
        8,
        9,
        12,
        13,
        255,
        2**15,
        2**16,
        2**24,
        2**31 - 1,
        2**31,
        2**32 - 1,
        2**61,
        2**62,
        2**63 - 1,
        2**63,
        2**64 - 1,
    ]
)
mutations = st.lists(
    st.one_of(
        st.tuples(st.just("byte"), positions, st.integers(0, 255)),
        st.tuples(st.just("u32"), positions, tricky),
        st.tuples(st.just("u64"), positions, tricky | st.integers(0, 2000)),
        st.tuples(st.just("insert"), positions, st.integers(0, 255)),
        st.tuples(st.just("delete"), positions, st.integers(1, 40)),
        st.tuples(st.just("repeat"), positions, st.integers(1, 80)),
        st.tuples(st.just("cut"), positions, st.just(0)),
    ),
    min_size=1,
    max_size=4,
)


def mutate(data: bytes, changes: list[tuple[str, int, int]]) -> bytes:
    """The data after the changes, each given as what, where and a value."""
    result = bytearray(data)
    for what, position, value in changes:
        if what == "byte":
            result[position : position + 1] = bytes([value])
        elif what == "u32":
            result[position : position + 4] = struct.pack("<I", value % 2**32)
        elif what == "u64":
            result[position : position + 8] = struct.pack("<Q", value)
        elif what == "insert":
            result[position:position] = bytes([value])
        elif what == "delete":
            del result[position : position + value]
        elif what == "repeat":
            result[position:position] = result[position : position + value]
        else:
            del result[position:]
    return bytes(result)


GETTERS: list[Callable[..., Any]] = [
    Metadata.string,
    Metadata.integer,
    Metadata.number,
    Metadata.boolean,
    Metadata.strings,
    Metadata.byte_strings,
    Metadata.integers,
    Metadata.numbers,
    Metadata.booleans,
]


def use(file: GGUFFile) -> None:
    """Reads all that the file has; a getter of the wrong type may raise MetadataError and nothing else."""
    for key in file.metadata:
        file.metadata.raw(key)
        for getter in GETTERS:
            with contextlib.suppress(MetadataError):
                getter(file.metadata, key)
    for name, tensor in file.tensors.items():
        assert file.tensor_data(name).sum(dtype=np.int64) >= 0
        assert tensor.type.row_bytes(math.prod(tensor.shape)) == tensor.num_bytes


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "fuzz.gguf"


def opens(path: Path, data: bytes) -> bool:
    """Whether the data opens as a model; asserts that the attempt behaves."""
    path.write_bytes(data)
    tracemalloc.start()
    start = time.perf_counter()
    try:
        with open_model(path) as file:
            use(file)
        opened = True
    except EngineError as error:
        message = str(error)
        assert message.startswith("fuzz.gguf: ")
        assert message.isprintable()
        assert len(message) < 500
        opened = False
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MEMORY_BYTES
    assert time.perf_counter() - start < LIMIT_S
    return opened


def test_the_sound_file_opens(path: Path) -> None:
    assert opens(path, SOUND)


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutations)
@example([("u64", 8, 2**63)])
@example([("u64", 16, 2**64 - 1)])
def test_mutated_files(path: Path, changes: list[tuple[str, int, int]]) -> None:
    opens(path, mutate(SOUND, changes))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300), st.integers(0, 3), st.integers(0, 3))
def test_arbitrary_bytes_after_a_sound_beginning(
    path: Path, data: bytes, num_tensors: int, num_metadata: int
) -> None:
    opens(path, b"GGUF" + struct.pack("<IQQ", 3, num_tensors, num_metadata) + data)


@pytest.mark.parametrize("value", [0, 0xFF, 2**63 - 1, 2**63, 2**64 - 1])
def test_every_position_overwritten(path: Path, value: int) -> None:
    for position in range(0, len(SOUND), 3):
        opens(path, mutate(SOUND, [("u64", position, value)]))
