"""From the log-probabilities of choices to a distribution over them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.decision.decision import Calibration, ChoiceProbability, Decision


def normalized(logprobs: Sequence[float]) -> list[float]:
    """Probabilities with the sum 1 from log-probabilities with any constant added."""
    largest = max(logprobs)
    if largest == -math.inf:
        return [1 / len(logprobs)] * len(logprobs)
    weights = [math.exp(value - largest) for value in logprobs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def combine(
    choices: Sequence[str],
    orders: Sequence[Sequence[float]],
    content_free: Sequence[Sequence[float]] = (),
    calibration: Calibration | None = None,
) -> Decision:
    """The decision from what the model said.

    Args:
        choices: their texts.
        orders: log-probabilities of the choices for each order in which they were listed.
        content_free: the same for the question without its content, or nothing: what the model prefers without
            having read anything is divided out (Zhao et al., Calibrate Before Use, 2021).
        calibration: applied last.
    """
    corrected = [
        [value - bias for value, bias in zip(logprobs, biases)] for logprobs, biases in zip(orders, content_free)
    ]
    distributions = [normalized(logprobs) for logprobs in corrected or orders]
    mean = [math.fsum(column) / len(distributions) for column in zip(*distributions)]
    if calibration is not None:
        mean = normalized([math.log(max(value, 1e-300)) / calibration.temperature for value in mean])
    coverage = math.fsum(math.fsum(map(math.exp, logprobs)) for logprobs in orders) / len(orders)
    values = [_number(text) for text in choices]
    expected = None
    if all(value is not None for value in values):
        expected = math.fsum(value * weight for value, weight in zip(values, mean) if value is not None)
    made = tuple(ChoiceProbability(*item) for item in zip(choices, mean, orders[0]))
    return Decision(made, min(1.0, coverage), expected, calibration is not None, len(orders))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
