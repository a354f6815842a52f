"""How many proposed tokens a step should verify: as many as make more tokens a second, often none.

A step over several tokens costs more than one over a single token, how much depends on model, machine and kernels,
and how often proposals are right depends on the text. Both are learnt from the steps themselves: the time of steps
by their number of tokens, and the share of right tokens by how long the match was that proposed them.
"""

from __future__ import annotations

from engine.scheduler.batch import Batch, ScheduledSequence
from engine.scheduler.prompt_lookup import NOTHING, Draft

WIDTHS = (1, 2, 4, 8)  # classes of numbers of tokens that steps cost alike
MAX_STEP_TOKENS = 8  # up to here a token's numbers are the same to the bit, however many are computed with it
NUM_PROPOSED = (7, 3)  # with a sequence's own token they fill a class
MAX_PROPOSED = NUM_PROPOSED[0]
MAX_STREAMS = 4  # with more, the step is full of tokens that are known to be wanted
UNKNOWN_COST = 1.2  # what a class never tried is thought to cost, against the class below it
FORGETTING = 0.995  # of a cost, with each step that does not try it: one slow step does not end it for good
NUM_PRIOR = 4.0  # proposals that the prior counts as
PRIOR = (0.4, 0.7, 0.9)  # share of right tokens after a match of 3 to 4, 5 to 8, and more tokens
WORTHWHILE = 1.05  # times the tokens a second without


class Speculation:
    """Costs of steps and rightness of proposals, over all sequences of an engine."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}  # by class: moving average of the steps that only generate
        self._num_right = [NUM_PRIOR * share for share in PRIOR]
        self._num_judged = [NUM_PRIOR] * len(PRIOR)

    def choose(self, draft: Draft, num_tokens: int, num_streams: int) -> Draft:
        """The part of ``draft`` to verify in a step that has ``num_tokens`` tokens of ``num_streams`` sequences."""
        best, best_count = WORTHWHILE * num_streams / self._cost(num_tokens), 0
        share = self._share(draft)
        for count in NUM_PROPOSED:
            if count > len(draft.token_ids) or num_tokens + count > MAX_STEP_TOKENS:
                continue
            expected = sum(share**n for n in range(1, count + 1))
            rate = (num_streams + expected) / self._cost(num_tokens + count)
            if rate > best:
                best, best_count = rate, count
        return Draft(draft.token_ids[:best_count], draft.num_matching) if best_count else NOTHING

    def judge(self, share: ScheduledSequence, num_accepted: int) -> None:
        """Learn how many of a share's proposed tokens were right."""
        if share.proposed:
            bucket = _bucket(share.draft.num_matching)
            num_judged = min(num_accepted + 1, len(share.proposed))
            self._num_right[bucket] = 0.95 * self._num_right[bucket] + num_accepted
            self._num_judged[bucket] = 0.95 * self._num_judged[bucket] + num_judged

    def observe(self, batch: Batch, seconds: float) -> None:
        """Learn what a step cost that only generates."""
        width = _class(batch.num_tokens)
        for other in self._seconds:
            if other > width:
                self._seconds[other] *= FORGETTING
        self._seconds[width] = 0.7 * self._seconds.get(width, seconds) + 0.3 * seconds

    def _share(self, draft: Draft) -> float:
        bucket = _bucket(draft.num_matching)
        return min(self._num_right[bucket] / self._num_judged[bucket], 0.99)

    def _cost(self, num_tokens: int) -> float:
        """Seconds of a step; in units of the smallest class where none was seen."""
        wanted = _class(num_tokens)
        cost = 0.0
        for width in WIDTHS:
            known = self._seconds.get(width)
            cost = max(cost, known) if known is not None else cost * UNKNOWN_COST or 1.0
            if width == wanted:
                break
        return cost


def _class(num_tokens: int) -> int:
    for width in WIDTHS:
        if num_tokens <= width:
            return width
    return WIDTHS[-1]


def _bucket(num_matching: int) -> int:
    return 0 if num_matching <= 4 else 1 if num_matching <= 8 else 2
