from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from engine.errors import InvalidParameterError, NumericError
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler

OFF = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=1)


def _logits(size: int = 1000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32) * 3


def _draw(params: SamplingParams, logits: np.ndarray, count: int = 300) -> list[int]:
    sampler = Sampler(params)
    return [sampler.sample(logits, []) for _ in range(count)]


def test_temperature_zero_is_greedy_with_ties_by_lowest_id() -> None:
    params = SamplingParams(temperature=0, top_k=40, top_p=0.9, repeat_penalty=1.1)
    logits = _logits()
    logits[[700, 300]] = 50
    assert Sampler(params).sample(logits, [1, 2, 3]) == 300
    assert Sampler(params).sample(logits, [300]) == 700, "the penalty counts before the choice"


def test_the_logits_are_not_changed() -> None:
    logits = _logits()
    before = logits.copy()
    Sampler(SamplingParams(repeat_penalty=1.5, seed=1)).sample(logits, list(range(50)))
    np.testing.assert_array_equal(logits, before)


@pytest.mark.parametrize("top_k", [0, -1, 10_000_000, 1000])
@pytest.mark.parametrize("top_p", [0.0, 1.0])
def test_top_k_off_and_top_p_at_its_ends(top_k: int, top_p: float) -> None:
    chosen = set(_draw(replace(OFF, top_k=top_k, top_p=top_p), _logits(), 50))
    if top_p == 0.0:
        assert chosen == {int(_logits().argmax())}
    else:
        assert len(chosen) > 5
        assert chosen == set(_draw(OFF, _logits(), 50)), "off is off: the same draws as without"


def test_top_k_keeps_the_k_likeliest() -> None:
    logits = _logits()
    allowed = set(np.argsort(-logits)[:5].tolist())
    assert set(_draw(replace(OFF, top_k=5, temperature=5.0), logits)) == allowed
    assert _draw(replace(OFF, top_k=1), logits, 20) == [int(logits.argmax())] * 20


def test_min_p_drops_the_unlikely_even_when_hot() -> None:
    logits = np.log(np.float32([0.5, 0.3, 0.15, 0.05]))
    assert set(_draw(replace(OFF, min_p=0.25, temperature=50.0), logits)) == {0, 1, 2}


def test_frequencies_follow_the_probabilities() -> None:
    probabilities = np.array([0.5, 0.25, 0.125, 0.125])
    draws = _draw(OFF, np.log(probabilities).astype(np.float32), 20_000)
    np.testing.assert_allclose(np.bincount(draws, minlength=4) / 20_000, probabilities, atol=0.015)
    hot = _draw(replace(OFF, temperature=2.0), np.log(probabilities).astype(np.float32), 20_000)
    expected = np.sqrt(probabilities) / np.sqrt(probabilities).sum()
    np.testing.assert_allclose(np.bincount(hot, minlength=4) / 20_000, expected, atol=0.015)


@pytest.mark.parametrize("seed", [0, 1, -1, 2**70])
def test_a_seed_gives_the_same_tokens(seed: int) -> None:
    params = SamplingParams(temperature=1.5, seed=seed)
    assert _draw(params, _logits(), 40) == _draw(params, _logits(), 40)
    assert _draw(params, _logits(), 40) != _draw(replace(params, seed=seed + 1), _logits(), 40)


def test_without_a_seed_one_is_drawn_and_reported() -> None:
    sampler = Sampler(SamplingParams(seed=None, temperature=2.0, top_k=0))
    tokens = [sampler.sample(_logits(), []) for _ in range(20)]
    assert _draw(SamplingParams(seed=sampler.seed, temperature=2.0, top_k=0), _logits(), 20) == tokens
    assert sampler.seed != Sampler(SamplingParams(seed=None)).seed


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("where", "value"),
    [
        ([0], math.nan),
        ([500], math.nan),
        ([999], math.nan),
        (slice(None), math.nan),
        ([500], math.inf),
        (slice(None), -math.inf),
    ],
)
def test_invalid_numbers_end_the_request(temperature: float, where: object, value: float) -> None:
    logits = _logits()
    logits[where] = value  # type: ignore[call-overload]
    message = "No token that the model offers" if value == -math.inf else "The model produced invalid numbers"
    with pytest.raises(NumericError, match=message):
        Sampler(SamplingParams(temperature=temperature, seed=1)).sample(logits, [])


def test_forbidden_tokens_are_never_chosen() -> None:
    logits = np.full(300, -np.inf, dtype=np.float32)
    logits[[7, 200]] = [1.0, 0.5]
    for params in (OFF, replace(OFF, top_k=40), replace(OFF, top_p=0.99), replace(OFF, min_p=0.01)):
        assert set(_draw(params, logits, 100)) == {7, 200}
    assert Sampler(replace(OFF, repeat_penalty=1.5)).sample(logits, [0, 1, 2]) in {7, 200}


@pytest.mark.parametrize("temperature", [1e-320, 1e-12, 1e300])
def test_extreme_temperatures(temperature: float) -> None:
    chosen = _draw(replace(OFF, temperature=temperature), _logits(), 50)
    assert (len(set(chosen)) == 1) is (temperature < 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("repeat_penalty", 0.0),
        ("repeat_penalty", math.inf),
        ("presence_penalty", math.nan),
        ("frequency_penalty", 1e30),
    ],
)
def test_nonsense_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(InvalidParameterError, match=name):
        Sampler(replace(OFF, **{name: value}))


@pytest.mark.parametrize("temperature", [0.0, 0.5])
@pytest.mark.parametrize("largest", [10.0, 3e38])
@pytest.mark.parametrize("penalty", [5e-324, 1e-30, 100.0])
def test_extreme_penalties_and_logits_stay_numbers(temperature: float, largest: float, penalty: float) -> None:
    logits = np.array([largest, -largest, -np.inf, 1.0, 0.5], np.float32)
    for truncation in (replace(OFF, top_k=3), replace(OFF, top_p=0.9), replace(OFF, min_p=0.05), OFF):
        params = replace(truncation, temperature=temperature, repeat_penalty=penalty, frequency_penalty=-100)
        assert Sampler(params).sample(logits, [0, 1, 2, 3, 4, 4]) in {0, 1, 3, 4}


def test_a_mask_leaves_only_what_it_allows() -> None:
    logits = _logits(70) / 10
    words = np.zeros(3, dtype=np.uint32)
    for token in (3, 31, 32, 69):
        words[token // 32] |= np.uint32(1 << token % 32)
    drawn = {Sampler(replace(OFF, seed=seed)).sample(logits, [], words) for seed in range(200)}
    assert drawn == {3, 31, 32, 69}
    best = max((3, 31, 32, 69), key=lambda token: logits[token])
    assert Sampler(SamplingParams(temperature=0)).sample(logits, [], words) == best
    logits[[3, 31, 32, 69]] = -np.inf
    with pytest.raises(NumericError, match="No token"):
        Sampler(OFF).sample(logits, [], words)
    logits[5] = np.nan
    with pytest.raises(NumericError, match="invalid numbers"):
        Sampler(OFF).sample(logits, [], words)


def test_penalties_over_all_tokens_follow_a_sequence_that_grows_and_is_cut() -> None:
    logits = np.float32([5, 4, 3, 2, 1])
    sampler = Sampler(SamplingParams(temperature=0, presence_penalty=10, penalty_window=-1))
    assert sampler.sample(logits, []) == 0
    assert sampler.sample(logits, [0]) == 1
    assert sampler.sample(logits, [0, 1, 2]) == 3
    assert sampler.sample(logits, [0]) == 1, "the sequence was cut"
    assert sampler.sample(logits, [3, 1, 2]) == 0, "and grew another way"


def test_a_mask_limits_the_choice_but_not_the_ranking() -> None:
    logits = np.float32([5, 4, 3, 2, 1])
    sampler = Sampler(SamplingParams(temperature=0))
    assert sampler.sample(logits, [], np.array([0b11000], np.uint32)) == 3
    assert [token.token_id for token in sampler.top_logprobs(logits, 2)] == [0, 1]
