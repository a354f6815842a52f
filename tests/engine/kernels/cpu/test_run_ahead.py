"""Tokens that follow a step without Python are the same to the bit, on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.gguf import open_model
from engine.kernels.backend import RunAhead, SequenceSlice, StepInterruptedError
from engine.kernels.cpu import CpuBackend
from engine.kernels.cpu.run_ahead import MAX_AHEAD_TOKENS
from engine.model import load_plan
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from tests.golden_models import write_golden_model
from tests.tiny_models import RECIPES, write_tiny_model

PROMPT = [5, 9, 30, 77, 12, 5, 9]
TABLE = [7, 3, 1, 6, 2]
NO_END = frozenset[int]()


@pytest.fixture(params=[("llama_q8", 1), ("llama_q8", 3), ("gemma3_q8", 2), ("llama-moe_q8", 2), ("qwen35_q8", 2)])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CpuBackend]:
    """Windows, experts and recurrent states among them."""
    name, num_threads = request.param
    path = write_tiny_model(name, tmp_path) if name in RECIPES else write_golden_model(name, tmp_path)
    with open_model(path) as file:
        backend = CpuBackend(load_plan(file, 128)[1], num_blocks=8, num_threads=num_threads)
        yield backend
        backend.close()


def _answer(
    backend: CpuBackend, sampler: Sampler, count: int, num_ahead: int, end: frozenset[int] = NO_END
) -> tuple[list[int], bytes, bytes]:
    """``count`` tokens or those up to an end token, the logits of the last one, and what is kept of them."""
    if backend.state_bytes:
        backend.write_state(0, None)
    tokens = list(PROMPT)
    logits = backend.run([SequenceSlice(tokens, 0, TABLE, is_prompt=True)])
    tokens.append(sampler.sample(logits[0], tokens))
    while len(tokens) < len(PROMPT) + count and tokens[-1] not in end:
        number = min(num_ahead, len(PROMPT) + count - len(tokens) - 1)
        ahead = sampler.run_ahead(number, end, backend.vocab_size) if number else None
        logits = backend.run([SequenceSlice(tokens[-1:], len(tokens) - 1, TABLE)], ahead)
        if ahead is not None:
            sampler.note_ahead(ahead)
            tokens += ahead.token_ids
        tokens.append(sampler.sample(logits[0], tokens))
    kept = np.empty((len(TABLE), backend.block_bytes), np.uint8)
    backend.read_blocks(np.array(TABLE, np.int32), kept)
    state = backend.read_state(0).tobytes() if backend.state_bytes else b""
    return tokens[len(PROMPT) :], logits.tobytes(), kept.tobytes() + state


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_nothing_differs_from_one_token_a_step(backend: CpuBackend, temperature: float) -> None:
    """Over the ends of blocks, too."""
    params = SamplingParams(temperature=temperature, top_k=0, seed=3)
    one_by_one = _answer(backend, Sampler(params), 50, 0)
    num_steps = backend.steps[0]
    for num_ahead in (1, 4, MAX_AHEAD_TOKENS):
        assert _answer(backend, Sampler(params), 50, num_ahead) == one_by_one
    assert backend.steps[0] - num_steps == 3 * 50, "each token counts as a step"


def test_an_end_token_is_left_to_the_engine(backend: CpuBackend) -> None:
    params = SamplingParams(temperature=1.5, top_k=0, seed=4)
    tokens = _answer(backend, Sampler(params), 30, 0)[0]
    for index in (1, 2, 5, 20):
        end = frozenset([tokens[index]])
        expected = tokens[: tokens.index(tokens[index]) + 1]
        assert _answer(backend, Sampler(params), 30, 6, end)[0] == expected


def test_an_interrupted_step_uses_no_random_number(backend: CpuBackend) -> None:
    params = SamplingParams(temperature=1.5, top_k=0, seed=5)
    expected = _answer(backend, Sampler(params), 3, 0)[0]
    sampler = Sampler(params)
    _answer(backend, sampler, 1, 0)
    backend.interrupt()
    part = SequenceSlice(expected[:1], len(PROMPT), TABLE)
    ahead = sampler.run_ahead(4, NO_END, backend.vocab_size)
    with pytest.raises(StepInterruptedError):
        backend.run([part], ahead)
    assert ahead.token_ids == []
    if not backend.state_bytes:  # which an interrupted step may have changed
        assert sampler.sample(backend.run([part])[0], []) == expected[1]


def test_what_does_not_fit_is_refused(backend: CpuBackend) -> None:
    part = SequenceSlice([5], 0, TABLE)
    sampler = Sampler(SamplingParams(temperature=0))

    def ahead(count: int) -> RunAhead:
        return sampler.run_ahead(count, NO_END, backend.vocab_size)

    with pytest.raises(ValueError, match="single token"):
        backend.run([SequenceSlice([5, 6], 0, TABLE)], ahead(2))
    with pytest.raises(ValueError, match="single token"):
        backend.run([part, SequenceSlice([6], 1, TABLE)], ahead(2))
    with pytest.raises(ValueError, match="does not cover 81 positions"):
        backend.run([SequenceSlice([5], 78, TABLE)], ahead(2))
    with pytest.raises(ValueError, match="16 tokens ahead"):
        backend.run([part], ahead(16))
    assert backend.run([part]).shape == (1, backend.vocab_size)
