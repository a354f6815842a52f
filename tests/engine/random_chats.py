"""Random use of chats against an engine that has read nothing: whatever is reused, the answers are the same.

    python -m tests.engine.random_chats [--steps 1000] [--seed 1] [--blocks 24] [--context 256] [MODEL.gguf ...]

Without a model the fake backend runs, and tiny models of several architectures, windows among them, on the CPU. The
tests run a short version. Kernels for few tokens round otherwise than those for many; on quantised models
``--margin 1.0`` lets an answer take a word whose logit in a cold run is so much below the best at most.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.conversations import Conversations
from engine.engine import Engine
from engine.gguf import open_model
from engine.kernels.backend import Backend
from engine.model import load_plan
from engine.protocol import FinishReason, RereadReason
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.sequence import Sequence
from tests.engine.fake_backend import VOCAB_SIZE, FakeBackend

CONTEXT_LENGTH = 256
KEY = bytes(32)
ACTIONS = {"send": 8, "edit": 3, "regenerate": 3, "branch": 3, "switch": 4, "stop": 3, "together": 2}
REST = {"delete": 1, "fill": 2, "rest": 2, "restart": 1}

MakeBackend = Callable[[int], Backend]


class _Watch:
    """Keeps the logits after the tokens from ``first`` on."""

    def __init__(self, first: int) -> None:
        self.rows: dict[int, npt.NDArray[np.float32]] = {}
        self._first = first

    def wants(self, start: int, end: int) -> bool:
        return end > self._first

    def see(self, token_ids: object, first: int, rows: npt.NDArray[np.float32]) -> None:
        self.rows.update((first + index, row.copy()) for index, row in enumerate(rows))


@dataclass
class Chat:
    """Attributes:
    name: its id.
    leaves: token ids of its branches, prompts and answers.
    """

    name: str
    leaves: list[list[int]] = field(default_factory=lambda: [[]])


class RandomChats:
    """One person's random steps; each answer is compared with a cold run's, the cache is checked after each.

    ``margin`` is how much less than the best word's logit that of an answer's word may be in the cold run.

    Attributes:
        counts: what happened how often.
    """

    def __init__(
        self,
        make_backend: MakeBackend,
        vocab_size: int,
        folder: Path,
        seed: int,
        num_blocks: int = 24,
        context_length: int = CONTEXT_LENGTH,
        margin: float = 0.0,
    ) -> None:
        self._context_length = context_length
        self._margin = margin
        self._make_backend = make_backend
        self._vocab_size = vocab_size
        self._num_blocks = num_blocks
        self._rng = random.Random(seed)
        self._chats = [Chat("chat-0")]
        self._current = self._chats[0]
        self._number = 0
        self._conversations = Conversations(folder, 1 << 30)
        self._cold: dict[tuple[int, ...], list[int]] = {}
        self.counts: Counter[str] = Counter()
        self._start()

    def step(self) -> None:
        """Do one thing."""
        choices = {**ACTIONS, **REST}
        action = self._rng.choices(list(choices), list(choices.values()))[0]
        self.counts[action] += 1
        getattr(self, f"_{action}")()
        while self._engine.has_work or self._conversations.is_opening:
            self._advance()
        self._engine.kv_cache.check_integrity()

    def close(self) -> None:
        self._conversations.stop_engine(5.0)
        self._engine.close()
        self._conversations.close()

    # ---------------------------------------------------------------------------------------------- actions

    def _send(self) -> None:
        leaf = self._leaf()
        self._ask(
            self._current, [*self._fitting(leaf), *self._words(self._rng.randrange(1, self._context_length // 6))]
        )

    def _edit(self) -> None:
        leaf = self._leaf()
        cut = self._rng.randrange(len(leaf) + 1)
        self._ask(self._current, [*leaf[:cut], *self._words(self._rng.randrange(1, 20))])

    def _regenerate(self) -> None:
        leaf = self._leaf()
        if leaf:
            self._ask(self._current, leaf[: self._rng.randrange(1, len(leaf) + 1)])

    def _branch(self) -> None:
        leaf = self._leaf()
        for _ in range(self._rng.randrange(2, 4)):
            self._ask(self._current, [*leaf[: len(leaf) // 2], *self._words(3)])

    def _switch(self) -> None:
        if self._rng.random() < 0.3 and len(self._chats) < 6:
            self._number += 1
            self._chats.append(Chat(f"chat-{self._number}"))
        self._current = self._rng.choice(self._chats)
        self._send()

    def _stop(self) -> None:
        sequence = self._submit(self._current, [*self._fitting(self._leaf()), *self._words(30)], 40)
        for _ in range(self._rng.randrange(12)):
            self._advance()
        self._conversations.abort(sequence.request_id)
        self._engine.finish(sequence, FinishReason.ABORTED)
        self._end(self._current, sequence)

    def _together(self) -> None:
        prompts = []
        for chat in self._rng.sample(self._chats, min(3, len(self._chats))):
            prompts.append((chat, [*self._fitting(self._rng.choice(chat.leaves)), *self._words(9)]))
        running = [(chat, self._submit(chat, prompt, 25)) for chat, prompt in prompts]
        while self._engine.has_work or self._conversations.is_opening:
            self._advance()
            self._engine.kv_cache.check_integrity()
        for chat, sequence in running:
            self._end(chat, sequence)

    def _delete(self) -> None:
        self._conversations.forget(self._current.name)
        self._chats.remove(self._current)
        if not self._chats:
            self._number += 1
            self._chats.append(Chat(f"chat-{self._number}"))
        self._current = self._rng.choice(self._chats)

    def _fill(self) -> None:
        """Something else takes all the room."""
        self._ask(Chat(""), self._words(min(self._context_length - 40, 16 * self._num_blocks - 60)))

    def _rest(self) -> None:
        deadline = time.monotonic() + 60
        while self._conversations.rest_s is not None:
            assert time.monotonic() < deadline
            self._conversations.rest()

    def _restart(self) -> None:
        self._conversations.stop_engine(self._rng.choice([0.0, 5.0]))
        self._engine.close()
        self._start()

    # ------------------------------------------------------------------------------------------------ engine

    def _start(self) -> None:
        backend = self._make_backend(self._num_blocks)
        self._engine = Engine(
            backend, num_blocks=self._num_blocks, context_length=self._context_length, on_admitted=self._on_admitted
        )
        self._names: dict[str, str] = {}
        self._conversations.start_engine(self._engine, backend, KEY)

    def _ask(self, chat: Chat, prompt: list[int]) -> None:
        sequence = self._submit(chat, prompt, self._rng.randrange(1, 30))
        while self._engine.has_work or self._conversations.is_opening:
            self._advance()
        self._end(chat, sequence)

    def _submit(self, chat: Chat, prompt: list[int], num_tokens: int) -> Sequence:
        name = f"request-{sum(self.counts.values())}-{len(self._names)}"
        sequence = Sequence(name, prompt, Sampler(SamplingParams(temperature=0)), num_tokens, frozenset())
        self._names[name] = chat.name
        self._conversations.open(name, chat.name, prompt, lambda: self._engine.add(sequence))
        return sequence

    def _advance(self) -> None:
        if self._conversations.is_opening:
            self._conversations.advance()
        if self._engine.has_work:
            self._engine.step()

    def _on_admitted(self, sequence: Sequence) -> None:
        prompt, num_reused = sequence.token_ids[: sequence.num_prompt_tokens], sequence.num_reused_tokens or 0
        reuse = self._conversations.explain(
            sequence.request_id, self._names[sequence.request_id], prompt, num_reused
        )
        self.counts["tokens"] += len(prompt)
        self.counts["reused"] += num_reused
        self.counts["from the disk"] += reuse.num_snapshot_tokens
        self.counts[f"read because {reuse.reason.value}"] += reuse.reason is not RereadReason.NOTHING
        assert reuse.num_snapshot_tokens <= num_reused

    def _end(self, chat: Chat, sequence: Sequence) -> None:
        answer = sequence.token_ids[sequence.num_prompt_tokens :]
        prompt = tuple(sequence.token_ids[: sequence.num_prompt_tokens])
        if answer != self._cold_answer(prompt, len(answer)):
            worst = self._worst(prompt, answer) if self._margin else float("inf")
            assert worst <= self._margin, f"{chat.name}: another answer than a cold run's, {worst} below the best"
            self.counts["other answers within the margin"] += 1
        self._conversations.remember(
            sequence.request_id, chat.name, sequence.token_ids[: sequence.num_computed_tokens]
        )
        chat.leaves = [*chat.leaves[-5:], sequence.token_ids]

    def _cold_answer(self, prompt: tuple[int, ...], num_tokens: int) -> list[int]:
        known = self._cold.get(prompt, [])
        if len(known) < num_tokens:
            sequence = Sequence("cold", list(prompt), _greedy(), num_tokens, frozenset())
            self._run_cold(sequence)
            known = self._cold[prompt] = sequence.token_ids[len(prompt) :]
        return known[:num_tokens]

    def _worst(self, prompt: tuple[int, ...], answer: list[int]) -> float:
        """How much less the logit of the answer's worst token is than the best one's, read as a whole."""
        sequence = Sequence("watched", [*prompt, *answer], _greedy(), 1, frozenset())
        sequence.probe = watch = _Watch(len(prompt) - 1)
        self._run_cold(sequence)
        rows = [watch.rows[len(prompt) - 1 + index] for index in range(len(answer))]
        return max(float(row.max() - row[token]) for row, token in zip(rows, answer, strict=True))

    def _run_cold(self, sequence: Sequence) -> None:
        num_blocks = self._context_length // 16 + 2
        backend = self._make_backend(num_blocks)
        engine = Engine(backend, num_blocks=num_blocks, context_length=self._context_length)
        engine.add(sequence)
        while engine.has_work:
            engine.step()
        engine.close()

    # ------------------------------------------------------------------------------------------------- words

    def _leaf(self) -> list[int]:
        return self._rng.choice(self._current.leaves)

    def _fitting(self, leaf: list[int]) -> list[int]:
        """The beginning of a branch that leaves room for a question and an answer."""
        return leaf[: self._context_length - self._context_length // 6 - 48]

    def _words(self, count: int) -> list[int]:
        return [self._rng.randrange(3, self._vocab_size) for _ in range(count)]


def _greedy() -> Sampler:
    return Sampler(SamplingParams(temperature=0))


@contextmanager
def model_backends(
    path: Path, context_length: int = CONTEXT_LENGTH, **options: int
) -> Iterator[tuple[MakeBackend, int]]:
    """Backends of a model on the CPU, and its number of tokens."""
    from engine.kernels.cpu import CpuBackend

    with open_model(path) as file:
        plan = load_plan(file, context_length)[1]
        yield lambda num_blocks: CpuBackend(plan, num_blocks=num_blocks, **options), plan.vocab_size


def run(
    make_backend: MakeBackend,
    vocab_size: int,
    num_steps: int,
    seed: int,
    num_blocks: int,
    context_length: int = CONTEXT_LENGTH,
    margin: float = 0.0,
) -> Counter[str]:
    """So many random steps; returns what happened. Raises AssertionError for a wrong answer or a broken cache."""
    with tempfile.TemporaryDirectory() as folder:
        chats = RandomChats(make_backend, vocab_size, Path(folder), seed, num_blocks, context_length, margin)
        try:
            for _ in range(num_steps):
                chats.step()
        finally:
            chats.close()
        return chats.counts


def main() -> None:
    from tests import tiny_models, tiny_models_second

    parser = argparse.ArgumentParser(description="Random use of chats against cold runs.")
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--context", type=int, default=CONTEXT_LENGTH)
    parser.add_argument("--margin", type=float, default=0.0)
    arguments = parser.parse_args()
    settings = arguments.steps, arguments.seed, arguments.blocks, arguments.context, arguments.margin
    with tempfile.TemporaryDirectory() as folder:
        models = arguments.models
        if not models:
            fake = run(FakeBackend, VOCAB_SIZE, *settings)
            print("fake backend", dict(fake), flush=True)
            for name in ("llama", "gemma3", "granite_swa"):
                module = tiny_models if name in tiny_models.RECIPES else tiny_models_second
                models.append(module.write_tiny_model(name, Path(folder)))
        for path in models:
            started = time.perf_counter()
            with model_backends(path, arguments.context) as (make_backend, vocab_size):
                counts = run(make_backend, vocab_size, *settings)
            print(path.name, f"{time.perf_counter() - started:.0f} s", dict(counts), flush=True)


if __name__ == "__main__":
    main()
