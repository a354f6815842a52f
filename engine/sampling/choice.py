"""Calls the kernels of sampling: their arrays, and what the results mean.

A thread has one workspace for each vocabulary it sampled from last, so that sequences share it.
"""

from __future__ import annotations

import ctypes
import math
import threading
from array import array
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.errors import NumericError
from engine.kernels.backend import NativeChoice
from engine.kernels.cpu.jit import Kernel, KernelSource, Progress, begin_kernels, load_kernels
from engine.sampling.params import SamplingParams
from engine.sampling.reference import SMALLEST_REPEAT_PENALTY

_GROUP: Final = 64  # see ``kernels``
_LANES: Final = 16
_HISTOGRAM: Final = 257
_INVALID: Final = -1
_LOGITS, _VOCAB_SIZE, _MASK, _RECENT, _NUM_RECENT, _TOP_K = range(6)
_RESULT: Final = 13
_RANDOM: Final = 6  # of the settings
_CHOOSE: Final = KernelSource("engine.sampling.kernels", "choose")
_RANK: Final = KernelSource("engine.sampling.kernels", "rank")
_LOWEST_TEMPERATURE: Final = 1e-30  # float32 holds its inverse; it is as good as greedy
_HIGHEST_TEMPERATURE: Final = 1e30


def begin() -> None:
    """Begin to compile what ``prepare`` loads, where that is necessary; returns at once."""
    begin_kernels([_CHOOSE])


def prepare(on_progress: Progress | None = None) -> None:
    """Load the kernel that chooses, or compile it, so that the first token does not wait for it.

    That which ranks is left until somebody asks for alternatives.
    """
    load_kernels([_CHOOSE], on_progress)


class Workspace:
    """Arrays that the kernels need for one vocabulary; not to be used by two threads at once.

    A choice is made between two steps of the model, when a first call of a NumPy function takes 15 to 100
    microseconds (see ``step_inputs``): so all that can be is prepared here, once.
    """

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.settings = array("d", bytes(8 * 8))
        self.ids = np.empty(vocab_size + _LANES, np.int32)
        self._choose = load_kernels([_CHOOSE])[_CHOOSE]
        self._params: SamplingParams | None = None  # that the settings are of
        self._copy = np.empty(vocab_size, np.float32)  # of a row that a kernel changes
        self._copy_address = int(self._copy.ctypes.data)
        self._arrays = (
            np.zeros(vocab_size, np.int32),  # occurrences of recent tokens; zero between calls
            np.empty(-(-vocab_size // _GROUP), np.int32),  # maxima
            self.ids,
            np.empty(vocab_size + _LANES, np.int32),  # keys
            np.empty(vocab_size + _LANES, np.float32),  # weights
            np.empty(_HISTOGRAM, np.float64),
        )
        addresses = (int(each.ctypes.data) for each in self._arrays)
        self._slots = array("q", (0, vocab_size, 0, 0, 0, 0, self.settings.buffer_info()[0], *addresses, 0))
        operands, settings = self._slots.buffer_info()[0], self.settings.buffer_info()[0]
        self._native = NativeChoice(
            self._choose.address,
            operands,
            logits=operands + 8 * _LOGITS,
            random=settings + 8 * _RANDOM,
            result=operands + 8 * _RESULT,
        )

    def choose(
        self,
        row: npt.NDArray[np.float32],
        recent: array[int],
        params: SamplingParams,
        random: float,
        mask: npt.NDArray[np.uint32] | None,
    ) -> int:
        """See ``choose``."""
        if params is not self._params:
            self._set_params(params)
        self.settings[_RANDOM] = random
        slots = self._slots
        slots[_RECENT], slots[_NUM_RECENT] = recent.buffer_info()
        slots[_TOP_K] = params.top_k if 0 < params.top_k < self.vocab_size else 0
        covering = None if mask is None else _covering(mask, self.vocab_size)
        slots[_MASK] = 0 if covering is None else covering.ctypes.data
        return self._run(self._choose, row, is_changed=len(recent) > 0)

    def native(self, params: SamplingParams) -> NativeChoice:
        """See ``native_choice``."""
        if params is not self._params:
            self._set_params(params)
        slots = self._slots
        slots[_MASK] = slots[_NUM_RECENT] = 0
        slots[_TOP_K] = params.top_k if 0 < params.top_k < self.vocab_size else 0
        return self._native

    def rank(self, row: npt.NDArray[np.float32], count: int) -> int:
        """Write the ids of the ``count`` likeliest tokens to ``ids``; returns how many there are."""
        self._params = None
        slots = self._slots
        slots[_MASK] = slots[_NUM_RECENT] = 0
        slots[_TOP_K] = count
        return self._run(load_kernels([_RANK])[_RANK], row, is_changed=False)

    def _run(self, kernel: Kernel, row: npt.NDArray[np.float32], is_changed: bool) -> int:
        """What the kernel says of the row. Raises NumericError when it finds nothing."""
        if not is_changed:
            try:
                self._slots[_LOGITS] = ctypes.addressof(ctypes.c_char.from_buffer(row))  # type: ignore[arg-type]
            except TypeError:  # read-only, or not in one piece
                is_changed = True
        if is_changed:
            self._copy[:] = row
            self._slots[_LOGITS] = self._copy_address
        kernel(self._slots.buffer_info()[0], 0)
        result = self._slots[_RESULT]
        if result >= 0:
            return result
        if result == _INVALID:
            raise NumericError("The model produced invalid numbers; the answer ends here.")
        raise NumericError("No token that the model offers is allowed here; the answer ends here.")

    def _set_params(self, params: SamplingParams) -> None:
        settings = (
            max(params.repeat_penalty, SMALLEST_REPEAT_PENALTY),
            params.presence_penalty,
            params.frequency_penalty,
            params.top_p,
            math.log(params.min_p) if params.min_p > 0 else 1.0,
            _inverse(params.temperature),
        )
        self.settings[:_RANDOM] = array("d", settings)
        self._params = params


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
    recent: array[int],
    params: SamplingParams,
    random: float,
    mask: npt.NDArray[np.uint32] | None = None,
) -> int:
    """The next token; see ``reference.choose``, and ``Sampler.sample`` for what it raises.

    ``recent`` are the tokens that penalties apply to, (tokens,) int32; none where there are no penalties.
    """
    return _workspace(len(logits)).choose(logits, recent, params, random, mask)


def native_choice(params: SamplingParams, vocab_size: int) -> NativeChoice:
    """``choose`` without penalties and mask as machine code, until this thread chooses the next token otherwise."""
    return _workspace(vocab_size).native(params)


def rank(logits: npt.NDArray[np.float32], count: int, token_id: int | None = None) -> list[TokenLogprob]:
    """The ``count`` likeliest tokens, likeliest first; see ``Sampler.top_logprobs``."""
    workspace = _workspace(len(logits))
    found = workspace.rank(logits, min(max(count, 1), len(logits)))
    log_total = workspace.settings[0] + math.log(workspace.settings[1])
    ids = workspace.ids[:found]
    ids = ids[np.argsort(-logits[ids], kind="stable")][: max(count, 0)].tolist()
    if token_id is not None and token_id not in ids:
        ids.append(token_id)
    return [TokenLogprob(chosen, float(logits[chosen]) - log_total) for chosen in ids]


def _inverse(temperature: float) -> float:
    """The factor of logits' differences; 0 is greedy."""
    return 1 / min(max(temperature, _LOWEST_TEMPERATURE), _HIGHEST_TEMPERATURE) if temperature > 0 else 0.0


def _covering(mask: npt.NDArray[np.uint32], vocab_size: int) -> npt.NDArray[np.uint32]:
    """The mask with a bit for every token; what it does not cover is forbidden."""
    mask = np.ascontiguousarray(mask, np.uint32)
    missing = -(-vocab_size // 32) - mask.size
    return np.pad(mask, (0, missing)) if missing > 0 else mask
