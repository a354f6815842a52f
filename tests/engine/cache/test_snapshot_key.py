from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from engine.cache.snapshot_key import snapshot_key
from engine.gguf import open_model
from engine.model import load_plan
from engine.model.plan import Attention, Plan, Rope
from tests.tiny_models import write_tiny_model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tiny_model("gemma3", tmp_path)


@pytest.fixture
def plan(path: Path) -> Plan:
    with open_model(path) as file:
        return load_plan(file)[1]


def _identity(path: Path) -> bytes:
    with open_model(path) as file:
        return file.identity()


def _with_op(plan: Plan, kind: type, **changes: object) -> Plan:
    index = next(index for index, op in enumerate(plan.ops) if isinstance(op, kind))
    ops = list(plan.ops)
    ops[index] = dataclasses.replace(ops[index], **changes)
    return dataclasses.replace(plan, ops=tuple(ops))


def test_the_same_model_has_the_same_key(path: Path) -> None:
    keys = set()
    for _ in range(2):
        with open_model(path) as file:
            keys.add(snapshot_key(file.identity(), load_plan(file)[1], "f16"))
    assert len(keys) == 1
    assert len(keys.pop()) == 32


def test_whatever_keys_and_values_depend_on_changes_the_key(plan: Plan) -> None:
    rope = next(op for op in plan.ops if isinstance(op, Rope))
    table = dataclasses.replace(rope.table, inv_freq=rope.table.inv_freq * (1 + 1e-12))
    keys = {
        snapshot_key(b"model", plan, "f16"),
        snapshot_key(b"other model", plan, "f16"),
        snapshot_key(b"model", plan, "q8_0"),
        snapshot_key(b"model", _with_op(plan, Rope, table=table), "f16"),
        snapshot_key(b"model", _with_op(plan, Attention, window=4), "f16"),
        snapshot_key(b"model", _with_op(plan, Attention, scale=0.5), "f16"),
        snapshot_key(b"model", dataclasses.replace(plan, ops=plan.ops[1:]), "f16"),
    }
    assert len(keys) == 7
    assert not np.array_equal(table.inv_freq, rope.table.inv_freq)


def test_a_changed_or_replaced_file_is_another_model(path: Path, tmp_path: Path) -> None:
    original = _identity(path)
    copy = tmp_path / "copy.gguf"
    shutil.copy2(path, copy)
    assert _identity(copy) == original
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    copy.write_bytes(content)
    stamp = path.stat()
    os.utime(copy, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert _identity(copy) != original, "though size and times are the same"
    copy.write_bytes(path.read_bytes())
    os.utime(copy, (1, 1))
    assert _identity(copy) != original, "though the bytes are the same"
