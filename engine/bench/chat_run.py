"""What a chat costs: the same turns as a person would take them, on our engine and beside llama.cpp's server.

Each step is a request and what the person waits for: the time to the first token. Our engine runs as in the app, a
thread that takes messages; the peer gets the same prompts as token ids, one slot, with the reuse that it offers.
"""

from __future__ import annotations

import itertools
import queue
import statistics
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
    Role,
)
from engine.sampling.params import SamplingParams
from engine.thread import EngineThread

GREEDY = SamplingParams(temperature=0)
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
    peer_first_token_ms: float | None = None
    peer_read_tokens: int | None = None


class OwnChat:
    """Our engine with a loaded model, asked one request after the other."""

    def __init__(self, path: Path, config: EngineConfig) -> None:
        self._path = path
        self._config = config
        self._events: queue.Queue[Event] = queue.Queue()
        self._number = 0
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
            raise EngineError(event.message)
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

    def reading_ms(self, num_tokens: int) -> float:
        """Time to the first token of a new chat whose prompt has about ``num_tokens`` tokens; the best of two."""
        best = float("inf")
        for _ in range(2):
            self._number += 1
            words = f"{self._number} " + " ".join(f"{self._number * 7 + n}" for n in range(num_tokens // 6))
            request = GenerateRequest(f"alone {self._number}", prompt=words, sampling=GREEDY, max_tokens=1)
            self._thread.submit(request)
            _, stats, _ = self.wait(request.request_id)
            best = min(best, stats.first_token_ms * num_tokens / max(1, stats.num_read_tokens))
        return best


def stretch_ratio(own: OwnChat, num_paste_tokens: int) -> dict[str, float]:
    """How much slower a chat streams while another one's paste is read: inter-token times alone and beside."""
    story = (Message(Role.USER, "Write a long story about the sea, a lighthouse and a storm."),)
    name = own.submit(story, 0, "streaming")
    times: list[float] = []
    while len(times) < 40:
        now, event = own.next_event()
        if isinstance(event, Delta):
            times.append(now)
    alone = _median_gap(times[4:])
    paste = " ".join(str(n * 37 % 1000) for n in range(num_paste_tokens // 4))
    started = time.perf_counter()
    reader = own.submit((Message(Role.USER, paste),), 1, "paste", priority=Priority.NORMAL)
    beside: list[float] = []
    num_read = 0
    while True:
        now, event = own.next_event()
        if isinstance(event, Delta) and event.request_id == name:
            beside.append(now)
        if isinstance(event, RequestFinished):
            if event.request_id == reader:
                num_read = event.stats.num_read_tokens
                break
            name = own.submit(story, 0, "streaming", sampling=SamplingParams(temperature=1.0))
    own.abort(name)
    own.wait(name)
    median = _median_gap(beside)
    return {
        "num_read_tokens": num_read,
        "read_s": now - started,
        "alone_ms": alone * 1e3,
        "beside_ms": median * 1e3,
        "ratio": median / alone,
    }


def _median_gap(times: list[float]) -> float:
    return statistics.median(b - a for a, b in itertools.pairwise(times))


def with_own_chat(stack: ExitStack, path: Path, config: EngineConfig) -> OwnChat:
    """An ``OwnChat`` that ``stack`` closes."""
    own = OwnChat(path, config)
    stack.callback(own.close)
    return own
