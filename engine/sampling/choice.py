"""Calls the kernels of sampling: their arrays, and what the results mean.

A thread has one workspace for each vocabulary it sampled from last, so that sequences share it.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.errors import NumericError
from engine.kernels.cpu.jit import Kernel, KernelSource, Progress, begin_kernels, load_kernels
from engine.kernels.cpu.kernel_call import run_kernel
from engine.sampling.params import SamplingParams
from engine.sampling.reference import SMALLEST_REPEAT_PENALTY

_GROUP: Final = 64  # see ``kernels``
_LANES: Final = 16
_HISTOGRAM: Final = 257
_INVALID: Final = -1
_CHOOSE: Final = KernelSource("engine.sampling.kernels", "choose")
_RANK: Final = KernelSource("engine.sampling.kernels", "rank")
_LOWEST_TEMPERATURE: Final = 1e-30  # float32 holds its inverse; it is as good as greedy
_HIGHEST_TEMPERATURE: Final = 1e30

TokenIds = npt.NDArray[np.int32]


def begin() -> None:
    """Begin to compile what ``prepare`` loads, where that is necessary; returns at once."""
    begin_kernels([_CHOOSE])


def prepare(on_progress: Progress | None = None) -> None:
    """Load the kernel that chooses, or compile it, so that the first token does not wait for it.

    That which ranks is left until somebody asks for alternatives.
    """
    load_kernels([_CHOOSE], on_progress)


class Workspace:
    """Arrays that the kernels need for one vocabulary; not to be used by two threads at once."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.choose: Kernel = load_kernels([_CHOOSE])[_CHOOSE]
        self.settings = np.zeros(8, np.float64)
        self.ids = np.empty(vocab_size + _LANES, np.int32)
        self._arrays = (
            np.zeros(vocab_size, np.int32),  # occurrences of recent tokens; zero between calls
            np.empty(-(-vocab_size // _GROUP), np.int32),  # maxima
            self.ids,
            np.empty(vocab_size + _LANES, np.int32),  # keys
            np.empty(vocab_size + _LANES, np.float32),  # weights
            np.empty(_HISTOGRAM, np.float64),
        )
        self.addresses = tuple(int(array.ctypes.data) for array in self._arrays)


_LOCAL = threading.local()


def _workspace(vocab_size: int) -> Workspace:
    found: Workspace | None = getattr(_LOCAL, "workspace", None)
    if found is None or found.vocab_size != vocab_size:
        found = _LOCAL.workspace = Workspace(vocab_size)
    return found


@dataclass(frozen=True)
class TokenLogprob:
    """A token and the logarithm of its probability."""

    token_id: int
    logprob: float


def choose(
    logits: npt.NDArray[np.float32],
    recent: TokenIds,
    params: SamplingParams,
    random: float,
    mask: npt.NDArray[np.uint32] | None = None,
) -> int:
    """The next token; see ``reference.choose``, and ``Sampler.sample`` for what it raises.

    ``recent`` are the tokens that penalties apply to, (tokens,) int32; none where there are no penalties.
    """
    row = _contiguous(logits)
    if recent.size and not row.flags.writeable:  # the kernel changes it for a moment
        row = row.copy()
    workspace = _workspace(row.size)
    if recent.size and not 0 <= int(recent.min()) <= int(recent.max()) < row.size:
        recent = recent[(recent >= 0) & (recent < row.size)]
    workspace.settings[:7] = (
        max(params.repeat_penalty, SMALLEST_REPEAT_PENALTY),
        params.presence_penalty,
        params.frequency_penalty,
        params.top_p,
        math.log(params.min_p) if params.min_p > 0 else 1.0,
        _inverse(params.temperature),
        random,
    )
    bits = 0 if mask is None else _covering(mask, row.size)
    top_k = params.top_k if 0 < params.top_k < row.size else 0
    operands = (row, row.size, bits, recent, recent.size, top_k, workspace.settings)
    saved = np.empty(recent.size, np.float32)
    return _checked(run_kernel(workspace.choose, *operands, saved, *workspace.addresses))


def rank(logits: npt.NDArray[np.float32], count: int, token_id: int | None = None) -> list[TokenLogprob]:
    """The ``count`` likeliest tokens, likeliest first; see ``Sampler.top_logprobs``."""
    row = _contiguous(logits)
    workspace = _workspace(row.size)
    wanted = min(max(count, 1), row.size)
    operands = (row, row.size, 0, 0, 0, wanted, workspace.settings, 0)
    found = _checked(run_kernel(load_kernels([_RANK])[_RANK], *operands, *workspace.addresses))
    log_total = float(workspace.settings[0]) + math.log(float(workspace.settings[1]))
    ids = workspace.ids[:found]
    ids = ids[np.argsort(-row[ids], kind="stable")][: max(count, 0)].tolist()
    if token_id is not None and token_id not in ids:
        ids.append(token_id)
    return [TokenLogprob(chosen, float(row[chosen]) - log_total) for chosen in ids]


def _inverse(temperature: float) -> float:
    """The factor of logits' differences; 0 is greedy."""
    return 1 / min(max(temperature, _LOWEST_TEMPERATURE), _HIGHEST_TEMPERATURE) if temperature > 0 else 0.0


def _contiguous(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(logits, np.float32)


def _covering(mask: npt.NDArray[np.uint32], vocab_size: int) -> npt.NDArray[np.uint32]:
    """The mask with a bit for every token; what it does not cover is forbidden."""
    mask = np.ascontiguousarray(mask, np.uint32)
    missing = -(-vocab_size // 32) - mask.size
    return np.pad(mask, (0, missing)) if missing > 0 else mask


def _checked(result: int) -> int:
    if result >= 0:
        return result
    if result == _INVALID:
        raise NumericError("The model produced invalid numbers; the answer ends here.")
    raise NumericError("No token that the model offers is allowed here; the answer ends here.")
