"""llama.cpp from the xllamacpp wheel in a worker process, timed by its server's own clocks.

The wheel has no call below the server's completions, whose timings cover decoding and the sampler (greedy here) and
neither text nor HTTP: a prompt is given as token ids.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from engine.bench.extras import missing_extra
from engine.bench.token_ids import random_token_ids
from engine.errors import EngineError

_WARM_UP_TOKENS = 33


class XllamacppRunner:
    """One sequence in one slot of a llama.cpp server inside this process."""

    def __init__(
        self, path: Path, *, num_threads: int, num_fill_threads: int, vocab_size: int, num_tokens: int
    ) -> None:
        """``num_fill_threads`` read the context for a deep ``decode``; all that is timed uses ``num_threads``."""
        self._path = path
        self._num_threads = num_threads
        self._num_fill_threads = num_fill_threads
        self._num_tokens = num_tokens
        self._token_ids: list[int] = random_token_ids(vocab_size, num_tokens).tolist()
        self._sequence: list[int] = []
        self._num_batch_threads = num_threads
        self._server = self._start()
        self.prefill(_WARM_UP_TOKENS)

    def prefill(self, num_tokens: int) -> float:
        """Seconds to compute ``num_tokens`` from an empty sequence."""
        self._sequence = self._token_ids[:num_tokens]
        answer = self._complete(self._sequence, 1, keep=False)
        timings = answer["timings"]
        if timings["prompt_n"] != num_tokens:
            raise EngineError(f"llama.cpp computed {timings['prompt_n']} tokens instead of {num_tokens}.")
        return float(timings["prompt_ms"]) / 1e3

    def fill(self, depth: int) -> None:
        """Compute the sequence up to ``depth`` tokens; llama.cpp keeps what it has when the threads are right."""
        if self._num_batch_threads != self._num_fill_threads:
            self._num_batch_threads = self._num_fill_threads
            self._server = self._start()
        if len(self._sequence) < depth:
            self._sequence = self._token_ids[:depth]
            self._complete(self._sequence, 1, keep=True)

    def decode(self, num_tokens: int, depth: int) -> float:
        """Seconds to compute ``num_tokens`` greedily one by one, the sequence having ``depth`` tokens or more."""
        if depth == 0:
            self._sequence = self._token_ids[:1]
        else:
            self.fill(depth)
        prompt = [*self._sequence, self._token_ids[0]]
        # The first token comes from the prompt's logits, so that one more has to be asked for.
        answer = self._complete(prompt, num_tokens + 1, keep=depth > 0)
        # What follows continues there: a sequence that only grows is reused by caches with a sliding window, too.
        self._sequence = [*prompt, *answer["__verbose"]["tokens"][:num_tokens]]
        return float(answer["timings"]["predicted_ms"]) / 1e3

    def decode_streams(self, num_tokens: int, num_streams: int) -> float:
        """The wheel's server has no clock for several slots together."""
        raise EngineError("llama.cpp's wheel is not measured with several sequences at once.")

    def facts(self) -> dict[str, Any]:
        """Nothing: what llama.cpp holds is estimated from the plan."""
        return {}

    def close(self) -> None:
        """End the server."""
        self._server = None

    def _start(self) -> Any:
        self._server = None  # before the next one takes memory
        self._sequence = []
        return start_server(self._path, self._num_threads, self._num_batch_threads, self._num_tokens)

    def _complete(self, prompt: list[int], num_tokens: int, *, keep: bool) -> dict[str, Any]:
        return complete(self._server, prompt, num_tokens, keep=keep)


def start_server(path: Path, num_threads: int, num_batch_threads: int, num_tokens: int) -> Any:
    """A server with one slot of ``num_tokens``; everything else as llama.cpp chooses. Raises EngineError."""
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise missing_extra("xllamacpp") from error
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = num_tokens
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = num_threads
    parameters.cpuparams_batch.n_threads = num_batch_threads
    parameters.n_gpu_layers = 0
    parameters.fit_params = False  # sizes are given; probing for them would only lengthen the load
    parameters.warmup = False
    parameters.cache_ram_mib = 0  # no copies of old prompts beside the slot
    parameters.verbosity = 0
    try:
        return xllamacpp.Server(parameters)
    except (RuntimeError, ValueError) as error:
        raise EngineError(f"llama.cpp cannot load {path.name}: {error}.") from error


def complete(server: Any, prompt: list[int] | str, num_tokens: int, *, keep: bool) -> dict[str, Any]:
    """A greedy completion of exactly ``num_tokens``; ``keep`` allows what the slot holds to be reused."""
    answer: dict[str, Any] = server.handle_completions(
        {
            "prompt": prompt,
            "n_predict": num_tokens,
            "cache_prompt": keep,
            "ignore_eos": True,
            "return_tokens": True,
            "verbose": True,  # or the tokens would be left out
            "temperature": 0,
            "top_k": 1,
            "samplers": ["top_k"],
        }
    )
    if "timings" not in answer:
        raise EngineError(f"llama.cpp refused a prompt of {len(prompt)}: {answer}.")
    return answer
