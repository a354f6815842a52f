"""The reference backend against llama.cpp with exact weights, on the two real models.

Log-probabilities of SmolLM2 must agree to 1e-3. Gemma's goldens carry the rounding of a GELU table (16-bit floats
in and out), which moves llama.cpp itself by 1e-2 between one batch and token by token; hence the wider
bounds there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.kernels.reference import ReferenceBackend
from engine.model import load_plan
from engine.model.plan import BLOCK_SIZE

Floats = npt.NDArray[np.float64]
NUM_BLOCKS = 160


@dataclass(frozen=True)
class Bounds:
    """How far results may be from the goldens, in log-probability; a choice may differ where the gap is smaller."""

    largest: float
    mean: float


SMOLLM2, GEMMA3 = Bounds(1e-3, 1e-4), Bounds(3e-2, 2e-3)


@dataclass(frozen=True)
class Subject:
    backend: ReferenceBackend
    goldens: dict[str, Any]
    bounds: Bounds


def _subject(path: Path, goldens: Path, bounds: Bounds) -> Iterator[Subject]:
    with open_model(path) as file:
        _, plan = load_plan(file)
        backend = ReferenceBackend(plan, num_blocks=NUM_BLOCKS, max_batch_tokens=512)
        yield Subject(backend, json.loads(goldens.read_text(encoding="utf-8")), bounds)
        backend.close()
        del plan, backend


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path, goldens: Path) -> Iterator[Subject]:
    yield from _subject(smollm2_path, goldens / "logits_smollm2.json", SMOLLM2)


@pytest.fixture(scope="module")
def gemma3(gemma3_path: Path, goldens: Path) -> Iterator[Subject]:
    yield from _subject(gemma3_path, goldens / "logits_gemma3.json", GEMMA3)


def test_smollm2_agrees_on_every_prompt(smollm2: Subject) -> None:
    _check_prompts(smollm2)


def test_gemma3_agrees_on_every_prompt(gemma3: Subject) -> None:
    _check_prompts(gemma3)


def test_smollm2_writes_the_same_64_tokens(smollm2: Subject) -> None:
    """Greedy, all short prompts in one batch, each in blocks from anywhere."""
    prompts = [prompt for prompt in smollm2.goldens["prompts"] if len(prompt["tokens"]) < 64]
    shuffled = np.random.default_rng(7).permutation(NUM_BLOCKS).astype(np.int32)
    tables = shuffled[: len(prompts) * 8].reshape(-1, 8)
    sequences = [list(prompt["tokens"]) for prompt in prompts]
    num_computed = [0] * len(prompts)
    for _ in range(64):
        slices = [
            SequenceSlice(np.array(tokens[done:], np.int32), done, table)
            for tokens, done, table in zip(sequences, num_computed, tables, strict=True)
        ]
        num_computed = [len(tokens) for tokens in sequences]
        for tokens, logits in zip(sequences, smollm2.backend.run(slices), strict=True):
            tokens.append(int(logits.argmax()))
    for prompt, tokens in zip(prompts, sequences, strict=True):
        assert tokens[len(prompt["tokens"]) :] == prompt["greedy_exact"]["ids"], prompt["name"]


def test_smollm2_scores_a_text_alike(smollm2: Subject) -> None:
    _check_scores(smollm2, "gpl3_9600_chars", num_tokens=2072, num_tokens_a_step=512)
    _check_scores(smollm2, "prose", num_tokens=321, num_tokens_a_step=100)


def test_gemma3_scores_a_text_alike_beyond_its_window(gemma3: Subject) -> None:
    """600 tokens, so that the last hundred do not see the first in sliding layers."""
    _check_scores(gemma3, "gpl3_9600_chars", num_tokens=600, num_tokens_a_step=150)


def _check_prompts(subject: Subject) -> None:
    """The stored top 20 at the stored positions, and each greedy choice given the choices before it."""
    differences = []
    for prompt in subject.goldens["prompts"]:
        tokens, chosen = prompt["tokens"], prompt["greedy_exact"]["ids"]
        logits = _logits(subject.backend, tokens + chosen[:-1])
        for position, top in zip(prompt["positions"], prompt["top20_exact"], strict=True):
            log_probabilities = _log_softmax(logits[position])
            expected = np.array(top["logprobs"])
            difference = np.abs(log_probabilities[top["ids"]] - expected)
            assert difference.max() < subject.bounds.largest, (prompt["name"], position)
            differences.append(difference.mean())
        greedy = logits[len(tokens) - 1 :].argmax(axis=-1)
        gaps = np.array(prompt["greedy_exact"]["gaps"])
        is_clear = gaps > 2 * subject.bounds.largest
        assert is_clear.sum() > 50, prompt["name"]
        assert greedy[is_clear].tolist() == np.array(chosen)[is_clear].tolist(), prompt["name"]
    assert np.mean(differences) < subject.bounds.mean


def _check_scores(subject: Subject, name: str, num_tokens: int, num_tokens_a_step: int) -> None:
    """Negative log-likelihood of each 16th token, and the means that the goldens have for this length."""
    golden = subject.goldens["nll"][name]
    tokens = np.array(golden["tokens"][:num_tokens], np.int32)
    scores: list[float] = []
    table = np.arange(NUM_BLOCKS, dtype=np.int32)
    for start in range(0, num_tokens - 1, num_tokens_a_step):
        part = tokens[start : min(start + num_tokens_a_step, num_tokens - 1)]
        logits = subject.backend.run([SequenceSlice(part, start, table, "all")])
        following = tokens[start + 1 : start + 1 + len(part)]
        scores += [-_log_softmax(row)[token] for row, token in zip(logits, following, strict=True)]
    expected = np.array(golden["exact_per_token_nll_every_16th"])[: len(scores[::16])]
    assert np.abs(np.array(scores[::16]) - expected).max() < 2 * subject.bounds.largest
    exact = golden["exact_f32kv"]
    if num_tokens >= 512:
        assert np.mean(scores[:511]) == pytest.approx(exact["first_512_mean_nll"], abs=subject.bounds.mean)
    if num_tokens == golden["n_tokens"]:
        assert np.mean(scores) == pytest.approx(exact["mean_nll"], abs=subject.bounds.mean)


def _logits(backend: ReferenceBackend, tokens: list[int]) -> npt.NDArray[np.float32]:
    num_blocks = -(-len(tokens) // BLOCK_SIZE)
    table = np.arange(num_blocks, dtype=np.int32)
    return backend.run([SequenceSlice(np.array(tokens, np.int32), 0, table, "all")])


def _log_softmax(logits: npt.NDArray[np.float32]) -> Floats:
    shifted = logits.astype(np.float64) - logits.max()
    result: Floats = shifted - np.log(np.exp(shifted).sum())
    return result
