"""A temperature fitted on examples whose answer is known.

Guo et al., On Calibration of Modern Neural Networks, 2017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.decision.combine import normalized
from engine.decision.decision import Calibration, Decision
from engine.errors import InvalidParameterError

MIN_EXAMPLES = 10
_LOWEST, _HIGHEST = 0.05, 20.0
_GOLDEN = (math.sqrt(5) - 1) / 2


def fit_temperature(decisions: Sequence[Decision], answers: Sequence[str]) -> Calibration:
    """The temperature that makes the right answers likeliest.

    Args:
        decisions: uncalibrated, all over the same choices.
        answers: the right choice of each.

    Raises InvalidParameterError for fewer than ``MIN_EXAMPLES``, or an answer that is no choice.
    """
    if len(decisions) < MIN_EXAMPLES:
        raise InvalidParameterError(
            f"{len(decisions)} examples are too few to calibrate with; give at least {MIN_EXAMPLES}."
        )
    choices = tuple(choice.text for choice in decisions[0].choices)
    for answer in answers:
        if answer not in choices:
            raise InvalidParameterError(f"The answer {answer!r} is none of the choices {', '.join(choices)}.")
    rows = [[math.log(max(choice.probability, 1e-300)) for choice in decision.choices] for decision in decisions]
    right = [choices.index(answer) for answer in answers]

    def nll(log_temperature: float) -> float:
        temperature = math.exp(log_temperature)
        chosen = (normalized([value / temperature for value in row])[index] for row, index in zip(rows, right))
        return -math.fsum(math.log(max(value, 1e-300)) for value in chosen) / len(rows)

    low, high = math.log(_LOWEST), math.log(_HIGHEST)
    while high - low > 1e-6:  # the golden section: the function has one minimum
        left, other = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, other) if nll(left) <= nll(other) else (left, high)
    best = (low + high) / 2
    return Calibration(math.exp(best), choices, len(rows), nll(0.0), nll(best))
