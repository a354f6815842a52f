"""What a decision asks and what comes of it: plain data that crosses the border."""

from __future__ import annotations

from engine.plain_data import dataclass

MAX_CHOICES = 256
PLACEHOLDER = "{choices}"  # in the text of a decision: where the choices are listed


@dataclass(frozen=True)
class Calibration:
    """A temperature that was fitted on examples whose answer is known.

    Attributes:
        temperature: log-probabilities are divided by it; above 1 the model was too sure.
        choices: it was fitted for.
        num_examples: it was fitted on.
        nll_before, nll_after: mean negative log-likelihood of the right answers without and with it.
    """

    temperature: float
    choices: tuple[str, ...]
    num_examples: int
    nll_before: float
    nll_after: float


@dataclass(frozen=True)
class ChoiceProbability:
    """One choice of a decision.

    Attributes:
        text: of the choice.
        probability: among the choices, all together 1.
        logprob: that the model, left free, answers exactly this and ends; of the first order alone.
    """

    text: str
    probability: float
    logprob: float


@dataclass(frozen=True)
class Decision:
    """A distribution over the choices.

    Attributes:
        choices: in the order in which they were given.
        coverage: probability that the model, left free, answers with one of the choices at all; where it is low the
            question does not fit them.
        expected_value: the mean of the choices where all are numbers, else None.
        is_calibrated: a temperature fitted on labelled examples was applied.
        num_orders: orders in which the choices were listed and over which the result is the mean.
    """

    choices: tuple[ChoiceProbability, ...]
    coverage: float
    expected_value: float | None
    is_calibrated: bool
    num_orders: int

    @property
    def best(self) -> ChoiceProbability:
        """The likeliest choice, the first of equal ones."""
        return max(self.choices, key=lambda choice: choice.probability)
