"""The NumPy definitions against loops written out, and batches, chunks and blocks against one shot."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from engine.gguf import TensorType, open_model
from engine.kernels import definitions
from engine.kernels.backend import Backend, SequenceSlice
from engine.kernels.dequantize import DequantizedWeights, dequantize_rows, dequantize_vector
from engine.kernels.reference import ReferenceBackend, ReferenceKVType, kv_bytes_per_block
from engine.model import load_plan
from engine.model.plan import Activation, Attention, Buffer, Norm, Plan, RopeTable, Tensor
from engine.model.weights import MATRIX_TYPES
from tests.tiny_models import write_tiny_model

Floats = npt.NDArray[np.float32]
RANDOM = np.random.default_rng(3)


def floats(*shape: int) -> Floats:
    return RANDOM.standard_normal(shape, np.float32)


def tensor(values: Floats) -> Tensor:
    return Tensor("w", TensorType.F32, values.shape, values.reshape(-1).view(np.uint8))


# ------------------------------------------------------------------------------------------------ ops


def test_rms_norm_divides_each_group_by_its_own_root_mean_square() -> None:
    x, weight, buffer = floats(3, 8), floats(4), Buffer("b", 8)
    normed = definitions.norm(x, Norm(buffer, tensor(weight), buffer, 1e-5, num_groups=2))
    for row in range(3):
        for group in range(2):
            part = x[row, group * 4 : group * 4 + 4].astype(np.float64)
            expected = part / math.sqrt((part**2).mean() + 1e-5) * weight
            np.testing.assert_allclose(normed[row, group * 4 : group * 4 + 4], expected, rtol=1e-6)


@pytest.mark.parametrize("is_interleaved", [True, False])
def test_rotate_turns_each_pair_by_its_angle(is_interleaved: bool) -> None:
    table = RopeTable(np.array([1.0, 0.1, 0.01]), magnitude=1.25, interleaved=is_interleaved)
    x, positions = floats(2, 16), np.array([0, 1000])
    rotated = definitions.rotate(x, positions, table, head_dim=8)
    for token, position in enumerate(positions):
        for head in range(2):
            before = x[token, head * 8 : head * 8 + 8]
            expected = before.copy()
            for pair, frequency in enumerate(table.inv_freq):
                first, second = (2 * pair, 2 * pair + 1) if is_interleaved else (pair, pair + 3)
                turn = complex(before[first], before[second]) * 1.25 * np.exp(1j * position * frequency)
                expected[first], expected[second] = turn.real, turn.imag
            np.testing.assert_allclose(rotated[token, head * 8 : head * 8 + 8], expected, atol=1e-6)


def test_activations_have_their_textbook_values_and_never_overflow() -> None:
    x = np.array([-1e4, -3.0, -0.5, 0.0, 0.5, 3.0, 1e4], np.float32)
    middle = x[1:-1].astype(np.float64)
    silu = middle / (1 + np.exp(-middle))
    gelu = 0.5 * middle * (1 + np.tanh(math.sqrt(2 / math.pi) * (middle + 0.044715 * middle**3)))
    for activation, expected in ((Activation.SILU, silu), (Activation.GELU, gelu)):
        result = definitions.activate(x, activation)
        np.testing.assert_allclose(result[1:-1], expected, atol=1e-6)
        assert (result[0], result[-1]) == (0.0, 1e4)


def test_soft_cap_squeezes_and_keeps_small_values() -> None:
    capped = definitions.soft_cap(np.array([0.01, 50.0, 1e6], np.float32), 30.0)
    np.testing.assert_allclose(capped, [0.01, 30 * math.tanh(50 / 30), 30.0], rtol=1e-5)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("soft_cap", [None, 2.0])
@pytest.mark.parametrize("has_sinks", [False, True])
def test_attend_equals_a_loop_over_positions(window: int | None, soft_cap: float | None, has_sinks: bool) -> None:
    num_tokens, start, num_heads, num_kv_heads, key_dim, value_dim = 5, 2, 4, 2, 8, 6
    query = floats(num_tokens, num_heads * key_dim)
    keys = floats(start + num_tokens, num_kv_heads, key_dim)
    values = floats(start + num_tokens, num_kv_heads, value_dim)
    sinks = floats(num_heads)
    buffer = Buffer("b", 1)
    op = Attention(
        0,
        buffer,
        buffer,
        num_heads,
        scale=0.4,
        window=window,
        soft_cap=soft_cap,
        sinks=tensor(sinks) if has_sinks else None,
    )
    attended = definitions.attend(query, keys, values, start, op)
    for token in range(num_tokens):
        for head in range(num_heads):
            q, position = query[token, head * key_dim : (head + 1) * key_dim], start + token
            seen = [j for j in range(position + 1) if window is None or position - j < window]
            scores = [0.4 * float(q @ keys[j, head // 2]) for j in seen]
            if soft_cap is not None:
                scores = [soft_cap * math.tanh(score / soft_cap) for score in scores]
            total = sum(map(math.exp, scores)) + (math.exp(sinks[head]) if has_sinks else 0.0)
            parts = [math.exp(s) / total * values[j, head // 2] for s, j in zip(scores, seen, strict=True)]
            result = attended[token, head * value_dim : (head + 1) * value_dim]
            np.testing.assert_allclose(result, sum(parts), atol=1e-5)


# ------------------------------------------------------------------------------------------------ weights


def test_every_type_a_matrix_may_have_is_read_as_ggml_reads_it(goldens: Path) -> None:
    formats = json.loads((goldens / "quant_formats.json").read_text(encoding="utf-8"))["formats"]
    assert {kind.name for kind in MATRIX_TYPES} == {*formats, "F32"}
    for name, golden in formats.items():
        stored = np.frombuffer(base64.b64decode(golden["blocks_b64"]), np.uint8)
        expected = np.frombuffer(base64.b64decode(golden["values_b64"]), np.float32)
        values = dequantize_vector(Tensor(name, TensorType[name], (golden["n"],), stored))
        np.testing.assert_array_equal(values, expected, err_msg=name)


def test_chosen_rows_equal_the_rows_of_the_whole() -> None:
    matrix = tensor(floats(10, 4))
    rows = np.array([7, 0, 7], np.int32)
    np.testing.assert_array_equal(dequantize_rows(matrix, rows), dequantize_rows(matrix, slice(None))[rows])


def test_kept_weights_stay_below_their_bound_and_the_least_recent_goes() -> None:
    matrices = [tensor(floats(8, 8)) for _ in range(3)]
    weights = DequantizedWeights(max_bytes=2 * 8 * 8 * 4)
    first = next(values for _, values in weights.panels(matrices[0]))
    list(weights.panels(matrices[1]))
    assert next(values for _, values in weights.panels(matrices[0])) is first
    list(weights.panels(matrices[2]))  # drops matrices[1], not matrices[0]
    assert next(values for _, values in weights.panels(matrices[0])) is first
    assert weights.kept_bytes == 2 * 8 * 8 * 4


def test_a_matrix_beyond_the_bound_comes_in_panels_that_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.kernels.dequantize.PANEL_BYTES", 3 * 8 * 4)
    matrix = tensor(floats(8, 8))
    weights = DequantizedWeights(max_bytes=8)
    panels = list(weights.panels(matrix))
    assert [panel.shape[0] for _, panel in panels] == [3, 3, 2]
    np.testing.assert_array_equal(
        np.concatenate([panel for _, panel in panels]), matrix.data.view(np.float32).reshape(8, 8)
    )
    assert weights.kept_bytes == 0


# ------------------------------------------------------------------------------------------------ backend


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plan]:
    """Seven layers, six of which see 8 tokens."""
    with open_model(write_tiny_model("gemma3", tmp_path_factory.mktemp("models"))) as file:
        plan = load_plan(file)[1]
        yield plan
        del plan


TOKENS = np.random.default_rng(5).integers(0, 320, 60).astype(np.int32)
TABLE = np.array([5, 2, 7, 0], np.int32)


def backend(plan: Plan, **options: object) -> ReferenceBackend:
    return ReferenceBackend(plan, num_blocks=12, max_batch_tokens=128, **options)  # type: ignore[arg-type]


def one_shot(plan: Plan, tokens: npt.NDArray[np.int32] = TOKENS) -> Floats:
    return backend(plan).run([SequenceSlice(tokens, 0, np.arange(4, dtype=np.int32), "all")])


@pytest.mark.parametrize("cuts", [[1, 2, 3], [16], [15, 17, 33], [31, 32, 59], list(range(1, 60))])
def test_any_split_of_a_prompt_equals_one_shot_in_any_blocks(plan: Plan, cuts: list[int]) -> None:
    runner = backend(plan)
    rows = [
        runner.run([SequenceSlice(TOKENS[start:stop], start, TABLE, "all")])
        for start, stop in zip([0, *cuts], [*cuts, 60], strict=True)
    ]
    np.testing.assert_allclose(np.concatenate(rows), one_shot(plan), atol=1e-5)


def test_sequences_of_a_batch_do_not_see_each_other(plan: Plan) -> None:
    other = TOKENS[::-1].copy()
    runner = backend(plan)
    tables = [np.array([11, 3, 6, 1], np.int32), np.array([0, 9, 2, 8], np.int32)]
    runner.run([SequenceSlice(TOKENS[:40], 0, tables[0], "none"), SequenceSlice(other[:3], 0, tables[1], "none")])
    logits = runner.run(
        [
            SequenceSlice(other[3:50], 3, tables[1], "last"),
            SequenceSlice(TOKENS[40:41], 40, tables[0], "none"),
            SequenceSlice(other[50:52], 50, tables[1], "all"),
        ]
    )
    last = runner.run([SequenceSlice(TOKENS[41:44], 41, tables[0], "last")])
    np.testing.assert_allclose(logits, one_shot(plan, other)[49:52], atol=1e-5)
    np.testing.assert_allclose(last, one_shot(plan)[43:44], atol=1e-5)


def test_a_step_without_wanted_logits_gives_no_rows(plan: Plan) -> None:
    assert backend(plan).run([SequenceSlice(TOKENS[:5], 0, TABLE, "none")]).shape == (0, 320)


def test_a_copied_block_serves_a_branch_and_leaves_the_original_alone(plan: Plan) -> None:
    runner = backend(plan)
    runner.run([SequenceSlice(TOKENS[:24], 0, np.array([4, 8], np.int32), "none")])
    runner.copy_block(8, 9)
    branch = np.concatenate([TOKENS[:20], TOKENS[50:54]])
    branched = runner.run([SequenceSlice(branch[20:], 20, np.array([4, 9], np.int32), "all")])
    np.testing.assert_allclose(branched, one_shot(plan, branch)[20:], atol=1e-5)
    ahead = runner.run([SequenceSlice(TOKENS[24:30], 24, np.array([4, 8], np.int32), "all")])
    np.testing.assert_allclose(ahead, one_shot(plan)[24:30], atol=1e-5)


@pytest.mark.parametrize("kv_type", ["f32", "f16", "q8_0"])
def test_blocks_that_were_read_serve_another_backend(plan: Plan, kv_type: ReferenceKVType) -> None:
    first, second = backend(plan, kv_type=kv_type), backend(plan, kv_type=kv_type)
    first.run([SequenceSlice(TOKENS[:24], 0, np.array([4, 8], np.int32), "none")])
    data = np.empty((2, first.block_bytes), np.uint8)
    first.read_blocks(np.array([4, 8], np.int32), data)
    second.write_blocks(np.array([6, 1], np.int32), data)
    expected = first.run([SequenceSlice(TOKENS[24:30], 24, np.array([4, 8], np.int32), "all")]).copy()
    went_on = second.run([SequenceSlice(TOKENS[24:30], 24, np.array([6, 1], np.int32), "all")])
    np.testing.assert_array_equal(went_on, expected)
    assert first.kv_format == second.kv_format


def test_sixteen_bit_keys_and_values_cost_little_and_take_half(plan: Plan) -> None:
    small, large = backend(plan, kv_type="f16"), backend(plan)
    logits = small.run([SequenceSlice(TOKENS, 0, TABLE, "all")])
    difference = np.abs(logits - one_shot(plan)).max()
    assert 0 < difference < 1e-2
    assert small.kv_bytes * 2 == large.kv_bytes == 12 * kv_bytes_per_block(plan)


def test_weights_that_do_not_fit_give_the_same_logits(plan: Plan) -> None:
    logits = backend(plan, max_weight_bytes=0).run([SequenceSlice(TOKENS, 0, TABLE, "all")])
    np.testing.assert_allclose(logits, one_shot(plan), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token_ids": np.array([320], np.int32)}, "token ids"),
        ({"token_ids": np.array([-1], np.int32)}, "token ids"),
        ({"token_ids": np.array([], np.int32)}, "at least one token"),
        ({"start": -1}, "position"),
        ({"start": 64}, "does not cover"),
        ({"block_table": np.array([12], np.int32)}, "block ids"),
        ({"logits": "some"}, "logits"),
        ({"token_ids": np.zeros(129, np.int32), "block_table": np.arange(9, dtype=np.int32)}, "129 tokens"),
    ],
)
def test_slices_that_do_not_fit_are_refused(plan: Plan, change: dict[str, object], message: str) -> None:
    part = replace(SequenceSlice(TOKENS[:1], 0, TABLE), **change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        backend(plan).run([part])


def test_the_backend_is_a_backend(plan: Plan) -> None:
    runner: Backend = backend(plan)
    runner.close()
    runner.close()


@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38])
def test_damaged_weights_give_logits_that_tell_and_no_warning(plan: Plan, value: float) -> None:
    damaged = tensor(np.full((plan.vocab_size, plan.ops[0].weight.shape[1]), value, np.float32))  # type: ignore[union-attr]
    broken = replace(plan, ops=(replace(plan.ops[0], weight=damaged), *plan.ops[1:]))  # type: ignore[call-arg]
    assert not np.isfinite(one_shot(broken)).all()
