"""The runner over our backend: what it feeds to it, step by step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from engine.bench.own import OwnRunner
from engine.kernels.backend import RunAhead, SequenceSlice
from tests.tiny_models import VOCAB_SIZE, write_tiny_model


class Recorder:
    """A backend that keeps (start, number of tokens) of each step and always predicts token 7."""

    max_batch_tokens = 512
    max_ahead_tokens = 3
    state_bytes = 0
    vocab_size = VOCAB_SIZE
    kv_bytes = 16_000
    num_states = 2

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.token_ids: list[int] = []
        self.num_slices: list[int] = []
        self.states: list[list[int]] = []

    def run(self, slices: list[SequenceSlice], ahead: RunAhead | None = None) -> npt.NDArray[np.float32]:
        self.num_slices.append(len(slices))
        self.states.append([part.state for part in slices])
        if len(slices) > 1:
            assert len({block for part in slices for block in part.block_table}) == sum(
                len(part.block_table) for part in slices
            ), "sequences share no block"
            return np.eye(VOCAB_SIZE, dtype=np.float32)[[part.start % VOCAB_SIZE for part in slices]]
        (part,) = slices
        num_ahead = 0 if ahead is None else len(ahead.randoms)
        assert len(part.block_table) == -(-(part.start + len(part.token_ids) + num_ahead) // 16)
        self.steps.append((part.start, len(part.token_ids) + num_ahead))
        self.token_ids.extend(map(int, part.token_ids))
        if ahead is not None:
            ahead.token_ids += range(8, 8 + num_ahead)
        return np.eye(VOCAB_SIZE, dtype=np.float32)[7:8]

    def close(self) -> None:
        self.steps.append((-1, -1))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr("engine.bench.own._make_backend", lambda *arguments: recorder)
    return recorder


@pytest.fixture
def runner(recorder: Recorder, tmp_path: Path) -> OwnRunner:
    path = write_tiny_model("llama", tmp_path)
    runner = OwnRunner(path, backend="reference", num_threads=1, num_tokens=1600)
    assert recorder.steps == [(0, 33)]  # warm-up
    recorder.steps.clear()
    recorder.token_ids.clear()
    return runner


def test_a_prompt_runs_in_full_batches(runner: OwnRunner, recorder: Recorder) -> None:
    assert runner.prefill(1100) > 0
    assert runner.prefill(512) > 0
    assert recorder.steps == [(0, 512), (512, 512), (1024, 76), (0, 512)]


def test_filling_keeps_what_is_there(runner: OwnRunner, recorder: Recorder) -> None:
    runner.prefill(1000)
    runner.fill(1100)
    runner.fill(1100)
    assert recorder.steps[2:] == [(1000, 100)]


def test_decoding_without_depth_starts_over(runner: OwnRunner, recorder: Recorder) -> None:
    runner.prefill(40)
    recorder.steps.clear()
    recorder.token_ids.clear()
    assert runner.decode(3, 0) > 0
    assert recorder.steps == [(0, 1), (1, 1), (2, 1), (3, 2)]
    assert recorder.token_ids[2:] == [7, 7]  # it feeds what it predicts
    runner.decode(6, 4)
    assert recorder.steps[4:] == [(5, 1), (6, 4), (10, 2)], "as many at once as the engine lets follow each other"
    assert recorder.token_ids[5:] == [7, 7]


def test_decoding_at_a_depth_goes_on_from_there(runner: OwnRunner, recorder: Recorder) -> None:
    runner.decode(2, 600)
    runner.decode(2, 600)
    assert recorder.steps == [(33, 512), (545, 55), (600, 1), (601, 1), (602, 1), (603, 1), (604, 2)]


def test_only_blocks_that_held_tokens_count(runner: OwnRunner) -> None:
    runner.prefill(800)
    assert runner.facts() == {"kv_bytes": 8_000}  # half of the 100 blocks


def test_closing_ends_the_backend(runner: OwnRunner, recorder: Recorder) -> None:
    runner.close()
    assert recorder.steps == [(-1, -1)]


def test_streams_take_a_token_each_in_every_step(runner: OwnRunner, recorder: Recorder) -> None:
    assert runner.decode_streams(5, 3) > 0
    assert recorder.num_slices[-6:] == [3] * 6  # their prompts, and five tokens of each
    assert recorder.states[-6:] == [[0, 1, 0]] * 6, "recurrent states of their own, as far as there are any"
    assert runner.facts()["kv_bytes"] > 0
    runner.prefill(10)
    assert recorder.steps == [(0, 10)], "what the streams left is not taken for the sequence"
