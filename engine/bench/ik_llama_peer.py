"""ik_llama.cpp, a fork of llama.cpp with faster CPU kernels, from its wheel ``ik-llama-cpp-python``.

The wheel's module wraps one context, in which a batch is computed at once; its own clocks are left aside for the
time of that call, logits included. It holds no server, so that this peer has no chat benchmark.
"""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.bench.extras import missing_extra
from engine.bench.token_ids import random_token_ids
from engine.errors import EngineError

_WARM_UP_TOKENS = 33


class IkLlamaRunner:
    """One sequence in one context."""

    def __init__(
        self, path: Path, *, num_threads: int, num_fill_threads: int, vocab_size: int, num_tokens: int
    ) -> None:
        """``num_fill_threads`` is of no use here: a context keeps its threads."""
        self._context = open_context(path, num_threads, num_tokens)
        self._vocab_size = vocab_size
        self._token_ids = random_token_ids(vocab_size, num_tokens)
        self._num_computed = 0
        self.prefill(_WARM_UP_TOKENS)

    def prefill(self, num_tokens: int) -> float:
        """Seconds to compute ``num_tokens`` from an empty sequence."""
        self._clear()
        started = time.perf_counter()
        self._compute(self._token_ids[:num_tokens])
        return time.perf_counter() - started

    def fill(self, depth: int) -> None:
        """Compute the sequence up to ``depth`` tokens."""
        if self._num_computed < depth:
            self._compute(self._token_ids[self._num_computed : depth])

    def decode(self, num_tokens: int, depth: int) -> float:
        """Seconds to compute ``num_tokens`` one by one, the sequence having ``depth`` tokens or more."""
        if depth == 0:
            self._clear()
            self._compute(self._token_ids[:1])
        else:
            self.fill(depth)
        started = time.perf_counter()
        for index in range(num_tokens):
            self._compute(self._token_ids[index : index + 1])
        return time.perf_counter() - started

    def decode_streams(self, num_tokens: int, num_streams: int) -> float:
        """A context of the wheel holds one sequence."""
        raise EngineError("ik_llama.cpp's wheel is not measured with several sequences at once.")

    def facts(self) -> dict[str, Any]:
        """Nothing: what it holds is estimated from the plan."""
        return {}

    def close(self) -> None:
        """Free the context."""
        self._context.close()

    def _clear(self) -> None:
        self._context.kv_cache_clear()
        self._num_computed = 0

    def _compute(self, token_ids: npt.NDArray[np.int32]) -> None:
        compute(self._context, token_ids.tolist(), self._num_computed)
        self._num_computed += len(token_ids)


def open_context(path: Path, num_threads: int, num_tokens: int) -> Any:
    """A context with room for ``num_tokens``; everything else as the wheel chooses. Raises EngineError."""
    try:
        internals: Any = importlib.import_module("ik_llama_cpp._internals")
        package: Any = importlib.import_module("ik_llama_cpp.llama")
    except ImportError as error:
        raise missing_extra("ik_llama_cpp") from error
    # Its flash attention fails an assertion on processors without VNNI, where the wheel leaves it out, too.
    has_flash_attention = package._cpu_has_avx_vnni()
    try:
        model = internals.IkModel(str(path), use_mmap=True, n_gpu_layers=0)
        return internals.IkContext(model, n_ctx=num_tokens, n_threads=num_threads, flash_attn=has_flash_attention)
    except (RuntimeError, ValueError) as error:
        raise EngineError(f"ik_llama.cpp cannot load {path.name}: {error}.") from error


def compute(context: Any, token_ids: list[int], start: int) -> None:
    """Compute tokens at positions from ``start`` on, and the last one's logits. Raises EngineError."""
    internals: Any = importlib.import_module("ik_llama_cpp._internals")
    api: Any = importlib.import_module("ik_llama_cpp._ctypes_api")
    for first in range(0, len(token_ids), context._n_ubatch):
        part = token_ids[first : first + context._n_ubatch]
        is_last = first + len(part) == len(token_ids)
        batch = internals.make_batch_range(part, pos_start=start + first, logits_last=is_last)
        code = context.decode(batch)
        api.llama_batch_free(batch)
        if code != 0:
            raise EngineError(f"ik_llama.cpp could not compute {len(part)} tokens (code {code}).")
    context.get_logits(-1)


def tokenize(context: Any, text: str) -> list[int]:
    """Token ids of a text, as the model's tokenizer begins one."""
    token_ids: list[int] = context.model.tokenize(text)
    return token_ids
