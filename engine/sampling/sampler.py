"""The sampler: one row of logits in, one token id out.

Owns the checks of the parameters, the random numbers and the tokens that penalties apply to; ``reference`` defines
the choice and ``kernels`` makes it. Knows nothing of sequences or text.
"""

from __future__ import annotations

import math
import random
import secrets
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidParameterError
from engine.kernels.backend import RunAhead
from engine.sampling.params import SamplingParams
from engine.sampling.reference import has_penalties

if TYPE_CHECKING:
    from engine.sampling.choice import TokenLogprob

_SEED_MASK = (1 << 64) - 1


def check_params(params: SamplingParams) -> None:
    """Raise InvalidParameterError, naming the parameter and its range, where ``params`` makes no sense."""

    def check(name: str, is_valid: bool, allowed: str) -> None:
        if not is_valid:
            value = getattr(params, name)
            raise InvalidParameterError(f"{name} is {value!r}, but it must be {allowed}.")

    check("temperature", 0 <= params.temperature < math.inf, "0 (greedy) or larger")
    check("top_p", 0 <= params.top_p <= 1, "between 0 and 1")
    check("min_p", 0 <= params.min_p <= 1, "between 0 and 1")
    check("repeat_penalty", 0 < params.repeat_penalty <= 100, "larger than 0 and at most 100")
    check("presence_penalty", -100 <= params.presence_penalty <= 100, "between -100 and 100")
    check("frequency_penalty", -100 <= params.frequency_penalty <= 100, "between -100 and 100")


class Sampler:
    """Chooses the tokens of one sequence; the same seed and logits give the same tokens.

    Attributes:
        seed: of the random choice, drawn where the parameters name none.
    """

    def __init__(self, params: SamplingParams) -> None:
        check_params(params)
        self._params = params
        self.seed = secrets.randbits(32) if params.seed is None else params.seed
        self._random = random.Random(self.seed & _SEED_MASK)  # NumPy's would have to be imported first
        self._recent = _RecentTokens(params.penalty_window if has_penalties(params) else 0)
        self._drawn: deque[float] = deque()  # random numbers that are to be used next
        self._choose: Callable[..., int] | None = None

    def sample(
        self,
        logits: npt.NDArray[np.float32],
        token_ids: Sequence[int],
        mask: npt.NDArray[np.uint32] | None = None,
    ) -> int:
        """Choose the next token.

        Args:
            logits: (vocab_size,) float32, not changed. -inf marks a token that may not be chosen.
            token_ids: the sequence so far, for the penalties; from call to call it grows at its end or is cut.
            mask: (ceil(vocab_size / 32),) uint32, bit ``t % 32`` of word ``t // 32`` set where token ``t`` is
                allowed; None allows all.

        Raises NumericError when a logit is NaN or +inf, or when none is left to choose.
        """
        if self._choose is None:
            from engine.sampling.choice import choose  # llvmlite is not imported before a model is loaded

            self._choose = choose
        place = self._drawn.popleft() if self._drawn else self._draw()
        return self._choose(logits, self._recent.of(token_ids), self._params, place, mask)

    @property
    def can_run_ahead(self) -> bool:
        """Whether a choice depends on no other token."""
        return not has_penalties(self._params)

    def run_ahead(self, count: int, end_token_ids: frozenset[int], vocab_size: int) -> RunAhead:
        """The next ``count`` choices, to be made by a backend; ``note_ahead`` is to be told of what it chose."""
        from engine.sampling.choice import native_choice

        while len(self._drawn) < count:
            self._drawn.append(self._draw())
        randoms = list(self._drawn)[:count]
        return RunAhead(native_choice(self._params, vocab_size), randoms, end_token_ids)

    def note_ahead(self, ahead: RunAhead) -> None:
        """So many choices were made elsewhere: their random numbers are used."""
        for _ in ahead.token_ids:
            self._drawn.popleft()

    def _draw(self) -> float:
        return self._random.random() if self._params.temperature > 0 else 0.0

    def top_logprobs(
        self, logits: npt.NDArray[np.float32], count: int, token_id: int | None = None
    ) -> list[TokenLogprob]:
        """The ``count`` likeliest tokens of the model's own distribution: no mask, penalty or temperature.

        Likeliest first, equal ones by lowest id; ``token_id``, where given and not among them, comes last. Raises
        NumericError as ``sample`` does.
        """
        from engine.sampling import choice

        return choice.rank(logits, count, token_id)


class _RecentTokens:
    """The last tokens of a sequence as an array, without converting the whole sequence again for each token."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._array = array("i")

    def of(self, token_ids: Sequence[int]) -> array[int]:
        """The last ``window`` tokens, all where it is negative; valid until the next call."""
        known = self._array
        if self._window >= 0:
            del known[:]
            token_ids = token_ids[-self._window :] if self._window else ()
        elif known and (len(known) > len(token_ids) or known[-1] != token_ids[len(known) - 1]):
            del known[:]
        known.extend(token_ids[len(known) :])
        return known
