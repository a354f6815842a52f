"""The sampler: one row of logits in, one token id out.

Order: penalties, top-k, top-p, min-p, temperature, random choice. The truncations look at the model's own
distribution, before the temperature, so that a high temperature cannot bring back what they cut away.
Knows nothing of sequences or text.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidParameterError, NumericError
from engine.sampling import processors
from engine.sampling.params import SamplingParams

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
        self._random = np.random.Generator(np.random.PCG64(self.seed & _SEED_MASK))
        self._has_penalties = processors.has_penalties(params)

    def sample(
        self,
        logits: npt.NDArray[np.float32],
        token_ids: Sequence[int],
        mask: npt.NDArray[np.uint32] | None = None,
    ) -> int:
        """Choose the next token.

        Args:
            logits: (vocab_size,) float32, not changed. -inf marks a token that may not be chosen.
            token_ids: the sequence so far, for the penalties.
            mask: (ceil(vocab_size / 32),) uint32, bit t % 32 of word t // 32 set where token t may be chosen.

        Raises NumericError when a logit is NaN or +inf, or when none is left to choose.
        """
        best = int(logits.argmax())  # the first NaN, where there is one
        if not math.isfinite(logits[best]):
            raise NumericError("The model produced invalid numbers; the answer ends here.")
        if mask is not None:
            logits = processors.masked(logits, mask)
            best = int(logits.argmax())
            if not math.isfinite(logits[best]):
                raise NumericError("No token that the model offers is allowed here; the answer ends here.")
        with np.errstate(over="ignore"):  # tiny parameters and huge logits: quotients are inf, weights 0
            if self._has_penalties:
                logits = logits.copy()
                processors.apply_penalties(logits, token_ids, self._params)
                best = int(logits.argmax())
            if self._params.temperature == 0:
                return best
            candidates = self._candidates(logits)
            if candidates is not None and candidates.size == 1:
                return int(candidates[0])
            return self._choose(logits, candidates)

    def _candidates(self, logits: npt.NDArray[np.float32]) -> processors.TokenIds | None:
        """Ids that are left after truncation, likeliest first; None is the whole vocabulary in order of ids."""
        params = self._params
        candidates: processors.TokenIds | None = None
        if 0 < params.top_k < logits.size:
            candidates = processors.likeliest(logits, params.top_k)
        if params.top_p < 1:
            if candidates is None:
                candidates = processors.nucleus(logits, params.top_p)
            else:
                candidates = candidates[processors.nucleus(logits[candidates], params.top_p)]
        if params.min_p > 0:
            if candidates is None:
                candidates = processors.at_least(logits, params.min_p)
            else:
                candidates = candidates[processors.at_least(logits[candidates], params.min_p)]
        return candidates

    def _choose(self, logits: npt.NDArray[np.float32], candidates: processors.TokenIds | None) -> int:
        """Draw one of ``candidates`` by its probability at the temperature."""
        kept = logits if candidates is None else logits[candidates]
        weights = np.exp((kept.astype(np.float64) - float(kept.max())) / self._params.temperature)
        mass = np.cumsum(weights)
        index = int(np.searchsorted(mass, self._random.random() * mass[-1], side="right"))
        index = min(index, kept.size - 1)
        return index if candidates is None else int(candidates[index])
