"""The tokens that every engine reads: random ones, for speed does not depend on them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def random_token_ids(vocab_size: int, num_tokens: int) -> npt.NDArray[np.int32]:
    """(num_tokens,) int32, the same in each process; without the vocabulary's ends, where control tokens live."""
    margin = vocab_size // 10
    return np.random.default_rng(1).integers(margin, vocab_size - margin, num_tokens, dtype=np.int32)
