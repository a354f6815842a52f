"""What may follow: the engine's view of a grammar, token by token."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt


class TokenConstraint(Protocol):
    """Decides which tokens may follow a sequence's completion so far.

    The engine calls it in a fixed order: ``prepare`` before the model runs; then, until nothing more can be added,
    ``forced_tokens``, else ``mask`` and a choice; ``advance`` after each token of either kind, end tokens apart.
    What it raises of GenerationError ends its request alone; ``prepare`` raises nothing.
    """

    def mask(self) -> npt.NDArray[np.uint32] | None:
        """(ceil(vocab_size / 32),) uint32, bit t % 32 of word t // 32 set where token t may follow; None is all."""
        ...

    def prepare(self) -> None:
        """Begin to compute the next mask, maybe beside the model's run; may return before that is done."""
        ...

    def advance(self, token_id: int) -> None:
        """Note that ``token_id``, chosen or forced, was appended."""
        ...

    def forced_tokens(self) -> list[int]:
        """Tokens that must follow now, whatever the model says; they are appended without a choice. Often none."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether nothing more may follow, so that the completion ends here."""
        ...
