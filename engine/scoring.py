"""How well a model predicts a text: the negative log-likelihood of each token given those before it.

The plainest measure of a forward pass, by which the quality of tensor types and kernels is judged. Token ids only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from engine.cache.kv_cache import num_blocks_for
from engine.errors import InvalidParameterError, NumericError
from engine.kernels.backend import Backend, SequenceSlice

MAX_LOGITS_BYTES = 64 << 20  # of one step, so that a vocabulary of 262,144 stays in bounds


def score_tokens(
    backend: Backend,
    token_ids: Sequence[int],
    *,
    vocab_size: int,
    context_length: int,
    on_progress: Callable[[float], None] = lambda fraction: None,
    on_logits: Callable[[npt.NDArray[np.float32], npt.NDArray[np.int32]], None] = lambda logits, targets: None,
) -> npt.NDArray[np.float64]:
    """Negative log-likelihoods, (num_predicted,) float64, of all tokens but the first.

    A text longer than the context is scored in windows of ``context_length`` tokens, and the first token of each
    window is given, not predicted. The backend's first blocks and its first recurrent state are overwritten.
    ``on_logits`` gets the logits of all predicted tokens in order, in pieces of (tokens, vocab_size), with the
    tokens; it must not keep the array.

    Raises InvalidParameterError for fewer than two tokens or a context of one, NumericError where the model gives
    invalid numbers.
    """
    if len(token_ids) < 2:
        raise InvalidParameterError("The text has fewer than two tokens, so there is nothing to predict.")
    if context_length < 2:
        raise InvalidParameterError("A context of one token leaves nothing to predict from; choose a larger one.")
    ids = np.asarray(token_ids, dtype=np.int32)
    block_table = np.arange(num_blocks_for(min(context_length, ids.size)), dtype=np.int32)
    chunk = max(1, min(backend.max_batch_tokens, MAX_LOGITS_BYTES // (4 * vocab_size)))
    scores: list[npt.NDArray[np.float64]] = []
    for begin in range(0, ids.size, context_length):
        window = ids[begin : begin + context_length]
        if backend.state_bytes:
            backend.write_state(0, None)  # a window knows nothing of the one before it
        for start in range(0, window.size - 1, chunk):
            part = window[start : min(start + chunk, window.size - 1)]
            logits = backend.run([SequenceSlice(part, start, block_table, logits="all")])
            targets = window[start + 1 : start + 1 + part.size]
            on_logits(logits, targets)
            scores.append(_negative_log_likelihoods(logits, targets))
            on_progress((begin + start + part.size) / ids.size)
    result = np.concatenate(scores)
    if not np.isfinite(result).all():
        raise NumericError("The model produced invalid numbers, so the text has no score.")
    return result


def num_predicted_tokens(num_tokens: int, context_length: int) -> int:
    """Tokens that have a score: all but the first of each window."""
    return num_tokens - -(-num_tokens // context_length)


def _negative_log_likelihoods(
    logits: npt.NDArray[np.float32], targets: npt.NDArray[np.int32]
) -> npt.NDArray[np.float64]:
    """(tokens,) float64 from (tokens, vocab_size) logits and the token that came next."""
    chosen = logits[np.arange(targets.size), targets].astype(np.float64)
    largest = logits.max(axis=1, keepdims=True)
    masses = np.exp(logits - largest).sum(axis=1, dtype=np.float64)
    scores: npt.NDArray[np.float64] = np.log(masses) + largest[:, 0].astype(np.float64) - chosen
    return scores
