"""The plan's shape: buffers that are written before they are read, KV layers, windows, and what rows switch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from engine.gguf import open_model
from engine.model import load_plan
from engine.model.plan import Attention, Buffer, Embed, MatMul, Norm, Plan, Rope, SelectRows, SoftCap
from tests import tiny_models, tiny_models_second


@contextmanager
def plan_of(name: str, folder: Path, context_length: int = 0) -> Iterator[Plan]:
    module = tiny_models if name in tiny_models.RECIPES else tiny_models_second
    with open_model(module.write_tiny_model(name, folder)) as file:
        plan = load_plan(file, context_length)[1]
        yield plan
        del plan


@pytest.mark.parametrize("name", ["llama", "gemma3", "phi3", "olmo2", "deci", "openelm", "nanbeige", "granite_swa"])
def test_every_buffer_is_declared_and_written_before_it_is_read(name: str, tmp_path: Path) -> None:
    with plan_of(name, tmp_path) as plan:
        written: set[str] = set()
        declared = {buffer.name: buffer for buffer in plan.buffers}
        assert len(declared) == len(plan.buffers)
        for op in plan.ops:
            used = {field.name: getattr(op, field.name) for field in fields(op)}
            for role, buffer in used.items():
                if isinstance(buffer, Buffer):
                    assert declared[buffer.name] is buffer
                    assert role == "out" or buffer.name in written, (name, op)
            if "out" in used:
                written.add(used["out"].name)
        assert plan.logits.name in written
        assert written == set(declared)


@pytest.mark.parametrize("name", ["llama", "gemma3", "openelm", "deci"])
def test_widths_fit_the_matrices_and_rows_change_once(name: str, tmp_path: Path) -> None:
    with plan_of(name, tmp_path) as plan:
        for op in plan.ops:
            if isinstance(op, MatMul):
                assert op.weight.shape == (op.out.width, op.x.width)
            if isinstance(op, Norm):
                assert op.weight is not None
                assert op.weight.shape == (op.x.width // op.num_groups,)
        selects = [index for index, op in enumerate(plan.ops) if isinstance(op, SelectRows)]
        assert len(selects) == 1
        for op in plan.ops[selects[0] + 1 :]:
            assert isinstance(op, (Norm, MatMul, SoftCap))
            assert op.x.rows == op.out.rows == "logits"


def test_sliding_layers_have_their_window_and_rope(tmp_path: Path) -> None:
    with plan_of("gemma3", tmp_path) as plan:
        assert [layer.window for layer in plan.kv_layers] == [8] * 5 + [None, 8]
        windows = [op.window for op in plan.ops if isinstance(op, Attention)]
        assert windows == [8] * 5 + [None, 8]
        tables = [op.table for op in plan.ops if isinstance(op, Rope)]
        assert len({id(table) for table in tables}) == 2
        assert tables[0].inv_freq[1] == pytest.approx(1e4 ** (-2 / 32))
        assert tables[10].inv_freq[1] == pytest.approx(1e6 ** (-2 / 32))


def test_a_layer_without_rope_turns_nothing(tmp_path: Path) -> None:
    with plan_of("smollm3", tmp_path) as plan:
        turned, layer = [], 0
        for op in plan.ops:
            if isinstance(op, Rope):
                turned.append(layer)
            layer += isinstance(op, Attention)
        assert sorted(set(turned)) == [0, 1, 2, 4]


def test_the_context_chooses_between_long_and_short_factors(tmp_path: Path) -> None:
    with plan_of("phi3", tmp_path, context_length=4096) as short, plan_of("phi3", tmp_path, 4097) as long:
        frequencies = [next(op.table.inv_freq for op in plan.ops if isinstance(op, Rope)) for plan in (short, long)]
        plain = 1e4 ** (-np.arange(0, 16, 2) / 16)
        np.testing.assert_allclose(plain / frequencies[0], np.linspace(1, 2, 8), rtol=1e-6)
        np.testing.assert_allclose(plain / frequencies[1], np.linspace(1, 3, 8), rtol=1e-6)
        del short, long


def test_a_residual_scale_moves_into_the_embedding_and_the_epsilon(tmp_path: Path) -> None:
    with plan_of("granite", tmp_path) as plan:
        embed = next(op for op in plan.ops if isinstance(op, Embed))
        norm = next(op for op in plan.ops if isinstance(op, Norm))
        assert embed.scale == pytest.approx(12.0 / 0.22)
        assert norm.eps == pytest.approx(1e-5 / 0.22**2)


def test_looped_layers_keep_keys_of_their_own_for_each_run(tmp_path: Path) -> None:
    with plan_of("nanbeige", tmp_path) as plan:
        assert [op.kv_layer for op in plan.ops if isinstance(op, Attention)] == [0, 1, 2, 3]
        assert len(plan.kv_layers) == 4
