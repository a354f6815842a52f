"""A loaded model that costs nothing: letters are tokens, and the fake backend answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from engine.cache.kv_cache import num_blocks_for
from engine.config import EngineConfig
from engine.kernels.backend import SequenceSlice
from engine.loader import LoadedModel, OnProgress
from engine.protocol import Channel, LoadModel, LoadPhase, Message, ModelInfo, Tool, ToolCall
from tests.engine.fake_backend import FakeBackend, continuation

ALPHABET = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456.\n"
END = len(ALPHABET)  # never chosen by the fake backend


class FakeTokenizer:
    """One token a letter; letters it does not know are 'z'."""

    end_token_ids = frozenset([END])

    def encode(self, text: str) -> list[int]:
        return [max(ALPHABET.find(letter), 25 if letter not in ALPHABET else 0) for letter in text]

    def least_num_tokens(self, texts: Iterable[str]) -> int:
        return 0

    def encode_prompt(self, segments: Sequence[tuple[str, bool]]) -> list[int]:
        return [token for text, _ in segments for token in self.encode(text)]


@dataclass(frozen=True)
class _Rendered:
    segments: tuple[tuple[str, bool], ...]
    opens_reasoning: bool = False
    notices: tuple[str, ...] = ()


class FakeTemplate:
    is_builtin = False
    notice = None

    def render(
        self, messages: Sequence[Message], continue_last: bool = False, tools: Sequence[Tool] = ()
    ) -> _Rendered:
        turns = tuple((message.content, False) for message in messages)
        return _Rendered(turns)

    def new_splitter(self, prompt: _Rendered, tools: Sequence[Tool] = ()) -> _Channels:
        return _Channels()


class _Text:
    def push(self, token_id: int) -> str:
        return ALPHABET[token_id]

    def text_of(self, token_id: int) -> str:
        return "<end>" if token_id == END else ALPHABET[token_id]

    def flush(self) -> str:
        return ""


class _Channels:
    def push(self, text: str) -> list[tuple[Channel, str]]:
        return [(Channel.ANSWER, text)]

    def flush(self) -> list[tuple[Channel, str]]:
        return []

    def take_calls(self) -> list[ToolCall]:
        return []


class FakeModel(LoadedModel):
    def new_text_stream(self, continues_text: bool) -> Any:
        return _Text()


def answer(prompt: str, num_tokens: int) -> str:
    """What the fake model answers to ``prompt`` when it is greedy."""
    tokens = continuation(FakeTokenizer().encode(prompt), num_tokens, END)
    return "".join(ALPHABET[token] for token in tokens)


class FakeLoads:
    """A ``load`` for the engine thread.

    Attributes:
        backends: those it made, in order.
        hold: while set, a load waits before it is done, reporting progress.
        errors: by file name, what to raise instead.
        before_run: given to each backend.
        snapshot_key: of the models; empty keeps nothing on the disk.
    """

    def __init__(self, context_length: int = 512, num_blocks: int | None = None, snapshot_key: bytes = b"") -> None:
        self.snapshot_key = snapshot_key
        self.backends: list[FakeBackend] = []
        self.hold = threading.Event()
        self.errors: dict[str, Exception] = {}
        self.before_run: Callable[[Sequence[SequenceSlice]], object] = lambda slices: None
        self._context_length = context_length
        self._num_blocks = num_blocks or 2 * num_blocks_for(context_length)

    def __call__(self, command: LoadModel, config: EngineConfig, on_progress: OnProgress) -> LoadedModel:
        open_backends = [backend for backend in self.backends if not backend.is_closed.is_set()]
        assert not open_backends, "the old model is freed before the new one is loaded"
        on_progress(LoadPhase.HEADER, 0.0, "Opening the file")
        if command.path.name in self.errors:
            raise self.errors[command.path.name]
        while self.hold.is_set():
            time.sleep(0.005)
            on_progress(LoadPhase.WEIGHTS, 0.5, "Reading the weights")
        backend = FakeBackend(self._num_blocks, 32, END, lambda slices: self.before_run(slices))
        self.backends.append(backend)
        info = _info(command.path, self._context_length, backend.kv_bytes)
        tokenizer, template = cast(Any, FakeTokenizer()), cast(Any, FakeTemplate())
        model = FakeModel(info, tokenizer, template, backend, self._num_blocks, ("A notice.",), self.snapshot_key)
        model._resources.callback(backend.close)
        return model


def _info(path: Path, context_length: int, kv_bytes: int) -> ModelInfo:
    return ModelInfo(
        path=path,
        name=path.stem,
        architecture="fake",
        tensor_type="F32",
        num_parameters=1,
        file_bytes=1,
        context_length=context_length,
        trained_context_length=context_length,
        vocab_size=END,
        num_threads=1,
        device="CPU",
        kv_bytes=kv_bytes,
        has_chat_template=True,
    )
