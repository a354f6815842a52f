"""What a chat costs: the same turns as a person would take them, on our engine and beside llama.cpp's server.

Each step is a request and what the person waits for: the time to the first token. Our engine runs as in the app, a
thread that takes messages; the peer gets the same prompts as token ids, one slot, with the reuse that it offers.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.config import EngineConfig
from engine.errors import EngineError
from engine.protocol import (
    AbortRequest,
    ContextPolicy,
    CountTokens,
    Delta,
    Event,
    GenerateRequest,
    LoadModel,
    Message,
    ModelLoaded,
    ModelLoadFailed,
    Priority,
    RequestFailed,
    RequestFinished,
    RequestStats,
    TokensCounted,
)
from engine.sampling.params import SamplingParams
from engine.terminal.session import failure_of
from engine.thread import EngineThread

GREEDY = SamplingParams(temperature=0)
PARAGRAPH = (
    "The harbour town had two clocks, and they had not agreed for as long as anyone could remember. One stood on "
    "the church and lost four minutes a week; the other hung over the fish market and gained three. People who "
    "wanted to be early went by the market, and people who wanted to be late went by the church, and between the "
    "two there was always an argument about who had been waiting for whom. In the winter of the great frost both "
    "stopped on the same night, and for the first time the town had to ask itself what the hour really was. "
)
REST_S = 2.5  # after which a conversation is on the disk
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Step:
    """One request, as measured.

    Attributes:
        scenario, label: what it stands for.
        messages: what was asked.
        num_prompt_tokens, num_read_tokens: the prompt, and what of it was computed.
        first_token_ms: from the request to the first token.
        tokens_per_second: of the answer.
        reread_reason: why more than the new words was read.
        alone_ms: time to read as many tokens in a chat of their own; None where nothing was read.
        deep_ms: the same after as many tokens as were reused, which new ones look back at.
        peer_first_token_ms, peer_read_tokens: the peer's on the same prompt.
    """

    scenario: str
    label: str
    messages: tuple[Message, ...]
    num_prompt_tokens: int
    num_read_tokens: int
    first_token_ms: float
    tokens_per_second: float
    reread_reason: str
    alone_ms: float | None = None
    deep_ms: float | None = None
    peer_first_token_ms: float | None = None
    peer_read_tokens: int | None = None


class OwnChat:
    """Our engine with a loaded model, asked one request after the other."""

    def __init__(self, path: Path, config: EngineConfig) -> None:
        self._path = path
        self._config = config
        self._events: queue.Queue[Event] = queue.Queue()
        self._number = 0
        self._tokens_per_word = 0.0
        self._start()

    def _start(self) -> None:
        self._thread = EngineThread(self._events.put, self._config)
        self._thread.start()
        self._thread.submit(LoadModel(self._path))
        while True:
            event = self._events.get(timeout=TIMEOUT_S)
            if isinstance(event, ModelLoadFailed):
                raise EngineError(event.message)
            if isinstance(event, ModelLoaded):
                self.info = event.info
                return

    def restart(self) -> None:
        """Close the engine, as the app does at its end, and load the model again."""
        time.sleep(REST_S)
        self.close()
        self._start()

    def close(self) -> None:
        self._thread.stop()

    def submit(self, messages: Sequence[Message], max_tokens: int, chat: str, **options: Any) -> str:
        """Send a request; returns its id."""
        self._number += 1
        name = f"request {self._number}"
        options = {"sampling": GREEDY, "priority": Priority.VISIBLE, **options}
        request = GenerateRequest(name, tuple(messages), max_tokens=max_tokens, conversation_id=chat, **options)
        self._thread.submit(replace(request, context_policy=ContextPolicy.KEEP_RECENT))
        return name

    def abort(self, name: str) -> None:
        self._thread.submit(AbortRequest(name))

    def next_event(self) -> tuple[float, Event]:
        """An event and when it came, ``time.perf_counter`` seconds."""
        event = self._events.get(timeout=TIMEOUT_S)
        if isinstance(event, RequestFailed):
            raise EngineError(failure_of(event, "The benchmark needs", "choose a model that holds more"))
        return time.perf_counter(), event

    def wait(self, name: str) -> tuple[str, RequestStats, list[float]]:
        """Text of an answer, its figures, and when its pieces came."""
        text, times = "", []
        while True:
            now, event = self.next_event()
            if isinstance(event, Delta) and event.request_id == name:
                text += event.text
                times.append(now)
            if isinstance(event, RequestFinished) and event.request_id == name:
                return text, event.stats, times

    def ask(
        self, messages: Sequence[Message], max_tokens: int, chat: str, **options: Any
    ) -> tuple[str, RequestStats]:
        text, stats, _ = self.wait(self.submit(messages, max_tokens, chat, **options))
        return text, stats

    def reading_ms(self, num_tokens: int, depth: int = 0) -> float:
        """Time to read ``num_tokens`` after ``depth`` tokens that are in the KV cache; the best of two, in ms.

        From when the sequence gets room until its first token: without rendering, tokenizing and looking up.
        """
        history, words = self._words(depth), self._words(num_tokens)
        best = float("inf")
        if depth:
            self._read_raw(history)
        for _ in range(2):
            self._number += 1
            prompt = f"{history} {self._number} {words}"
            stats = self._read_raw(prompt)
            best = min(best, stats.prompt_ms * num_tokens / max(1, stats.num_read_tokens))
        return best

    def _words(self, num_tokens: int) -> str:
        """A text of about so many tokens."""
        if not self._tokens_per_word:
            self._thread.submit(CountTokens("words", PARAGRAPH))
            while not isinstance(event := self.next_event()[1], TokensCounted):
                pass
            self._tokens_per_word = event.num_tokens / len(PARAGRAPH.split())
        words = itertools.islice(itertools.cycle(PARAGRAPH.split()), round(num_tokens / self._tokens_per_word))
        return " ".join(words)

    def _read_raw(self, prompt: str) -> RequestStats:
        self._number += 1
        request = GenerateRequest(
            f"raw {self._number}", prompt=prompt, sampling=GREEDY, max_tokens=1, priority=Priority.VISIBLE
        )
        self._thread.submit(request)
        return self.wait(request.request_id)[1]


def with_own_chat(stack: ExitStack, path: Path, config: EngineConfig) -> OwnChat:
    """An ``OwnChat`` that ``stack`` closes."""
    own = OwnChat(path, config)
    stack.callback(own.close)
    return own
