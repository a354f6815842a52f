"""Random chats that outgrow their context, beside tables that are extracted, against cold runs.

    python -m tests.engine.random_long_chats [--steps 400] [--seed 1] [--blocks 10] [MODEL.gguf ...]

Several chats keep their newest turns under a KV cache hardly larger than one context. Each answer must be what a
model that has read nothing says to the messages that the events name as kept, also where turns leave while it is
written. Without a model the fake one runs, and tiny ones on the CPU; the tests run a short version.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine import EngineConfig, conversations
from engine.chat.context_window import without
from engine.engine import Engine
from engine.loader import LoadedModel
from engine.prompt import make_prompt
from engine.protocol import (
    AbortRequest,
    ContextPolicy,
    ContextShifted,
    Delta,
    FinishReason,
    ForgetConversation,
    FormatKind,
    GenerateRequest,
    LoadModel,
    Message,
    ModelLoaded,
    Priority,
    RequestFailed,
    RequestFinished,
    ResponseFormat,
    Role,
    SetSnapshotQuota,
)
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.sequence import Sequence as TokenSequence
from tests.engine.fake_backend import continuation
from tests.engine.fake_model import END, FakeLoads
from tests.integration.engine_events import EventLog, engine_thread

CONTEXT = 128
GREEDY = SamplingParams(temperature=0)
ACTIONS = {"send": 8, "together": 4, "edit": 3, "regenerate": 2, "stop": 3, "forget": 1, "quota": 1, "reload": 1}
PROPERTIES = {"a": {"enum": [1, 22, 333]}, "b": {"type": "boolean"}}
SCHEMA = json.dumps({"type": "object", "properties": PROPERTIES, "required": ["a", "b"]})

Continue = Callable[[list[int], int], list[int]]  # the greedy tokens that follow given ones


@dataclass
class Chat:
    """Attributes:
    name: its id.
    messages: so far, answers included.
    """

    name: str
    messages: list[Message] = field(default_factory=list)


class RandomLongChats:
    """Random steps over an engine thread.

    Attributes:
        counts: what happened how often.
    """

    def __init__(self, log: EventLog, path: Path, follow: Continue, seed: int, has_forms: bool) -> None:
        self._log = log
        self._path = path
        self._follow = follow
        self._rng = random.Random(seed)
        self._chats = [Chat(f"chat-{number}") for number in range(3)]
        self._number = 0
        self._has_forms = has_forms
        self._forms: dict[str, str] = {}
        self._rows: dict[str, Any] = {}  # by text: what was filled in first
        self.counts: Counter[str] = Counter()
        self._load()

    def step(self) -> None:
        """Do one thing, and check what came of it."""
        action = self._rng.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        self.counts[action] += 1
        row = self._ask_row() if self._has_forms and self._rng.random() < 0.4 else None
        getattr(self, f"_{action}")()
        if row is not None:
            self._check_row(row)
        self._check_integrity()

    # ---------------------------------------------------------------------------------------------- actions

    def _send(self) -> None:
        chat = self._rng.choice(self._chats)
        self._end(chat, self._ask(chat))

    def _together(self) -> None:
        asked = [(chat, self._ask(chat)) for chat in self._chats]
        for chat, name in asked:
            self._end(chat, name)

    def _edit(self) -> None:
        chat = self._rng.choice(self._chats)
        places = [i for i, message in enumerate(chat.messages) if message.role is Role.USER]
        if places:
            chat.messages = chat.messages[: self._rng.choice(places)]
        self._end(chat, self._ask(chat))

    def _regenerate(self) -> None:
        chat = self._rng.choice(self._chats)
        if chat.messages:
            chat.messages.pop()
            self._end(chat, self._ask(chat, is_new=False))

    def _stop(self) -> None:
        chat = self._rng.choice(self._chats)
        name = self._ask(chat)
        time.sleep(self._rng.choice([0.0, 0.002, 0.01]))
        self._log.submit(AbortRequest(name))
        self._end(chat, name)

    def _forget(self) -> None:
        self._number += 1
        index = self._rng.randrange(len(self._chats))
        self._log.submit(ForgetConversation(self._chats[index].name))
        self._chats[index] = Chat(f"chat-{self._number}-new")

    def _quota(self) -> None:
        self._log.submit(SetSnapshotQuota(self._rng.choice([0, 60_000, 1 << 30])))

    def _reload(self) -> None:
        self._load()

    # ---------------------------------------------------------------------------------------------- requests

    def _load(self) -> None:
        self._log.submit(LoadModel(self._path))
        self._log.wait(ModelLoaded)

    def _ask(self, chat: Chat, is_new: bool = True) -> str:
        if is_new:
            if not chat.messages:
                chat.messages.append(Message(Role.SYSTEM, "be kind. "))
            words = "".join(self._rng.choice("abcdefgh ") for _ in range(self._rng.randrange(1, 40)))
            chat.messages.append(Message(Role.USER, words))
        self._number += 1
        name = f"r{self._number}"
        limit = self._rng.choice([1, 8, 30, 80])
        self._log.submit(
            GenerateRequest(
                name,
                tuple(chat.messages),
                sampling=GREEDY,
                max_tokens=limit,
                conversation_id=chat.name,
                context_policy=ContextPolicy.KEEP_RECENT,
                priority=self._rng.choice([Priority.NORMAL, Priority.VISIBLE]),
            )
        )
        return name

    def _end(self, chat: Chat, name: str) -> None:
        """Wait for an answer and compare it with a cold run's to what was kept."""
        end = self._wait(name)
        if isinstance(end, RequestFailed):
            assert end.overflow is not None, end
            self.counts["too long"] += 1
            chat.messages.pop()
            return
        expected = self._expected(chat.messages, name, end)
        assert self._log.text(name) == expected, (name, end, self._log.of(ContextShifted, name))
        self.counts["tokens"] += end.stats.num_prompt_tokens
        self.counts["reused"] += end.stats.num_reused_tokens
        self.counts["from the disk"] += end.stats.num_snapshot_tokens
        chat.messages.append(Message(Role.ASSISTANT, expected or "."))

    def _expected(self, messages: Sequence[Message], name: str, end: RequestFinished) -> str:
        """What a cold run says: to the first kept messages until the context is full, to the next then."""
        num_tokens = end.stats.num_completion_tokens
        if num_tokens == 0:
            return ""  # stopped, perhaps before it was known what is kept
        tokens: list[int] = []
        kept: Sequence[Message] = messages
        events = [e for e in self._log.events if isinstance(e, ContextShifted | Delta) and e.request_id == name]
        shifts = [(i, e) for i, e in enumerate(events) if isinstance(e, ContextShifted)]
        if shifts and shifts[0][0] == 0:
            kept = without(messages, _range(shifts.pop(0)[1]))
            self.counts["turns left before the answer"] += 1
        for _, event in shifts:
            prompt = self._tokens(kept)
            tokens += self._follow(prompt + tokens, CONTEXT - len(prompt) - len(tokens))
            kept = without(messages, _range(event))
            self.counts["turns left during the answer"] += 1
        tokens += self._follow(self._tokens(kept) + tokens, num_tokens - len(tokens))
        stream = self._model.new_text_stream(False)
        shown = "".join(stream.push(token) for token in tokens if token not in self._model.tokenizer.end_token_ids)
        return shown + stream.flush()

    def _tokens(self, messages: Sequence[Message]) -> list[int]:
        return make_prompt(self._model, messages, ContextPolicy.STOP).token_ids

    # ------------------------------------------------------------------------------------------------- rows

    def _ask_row(self) -> str:
        """A row of a table, in the background; the same text has the same answer whatever runs beside it."""
        self._number += 1
        name = f"row{self._number}"
        text = self._rng.choice(["a castle", "a forest", "the sea"])
        self._forms[name] = text
        self._log.submit(
            GenerateRequest(
                name,
                (Message(Role.USER, "Fill in: " + text),),
                sampling=GREEDY,
                max_tokens=40,
                response_format=ResponseFormat(FormatKind.JSON_SCHEMA, SCHEMA),
                certainty=True,
                priority=Priority.BACKGROUND,
            )
        )
        return name

    def _check_row(self, name: str) -> None:
        end = self._wait(name)
        assert isinstance(end, RequestFinished), end
        if end.reason is FinishReason.ABORTED:
            return  # the model was loaded anew meanwhile
        self.counts["rows"] += 1
        assert end.structured is not None
        assert end.structured.is_valid, end
        text = self._log.text(name)
        assert set(json.loads(text)) == {"a", "b"}
        certainties = tuple((each.path, round(each.probability, 4)) for each in end.structured.fields)
        answer = self._rows.setdefault(self._forms[name], (text, certainties))
        assert answer == (text, certainties), "beside chats as alone"

    # ----------------------------------------------------------------------------------------------- engine

    def _wait(self, name: str) -> RequestFinished | RequestFailed:
        for event in self._log.events:
            if isinstance(event, RequestFinished | RequestFailed) and event.request_id == name:
                return event
        return self._log.wait_end(name)

    @property
    def _model(self) -> LoadedModel:
        model = self._log.thread._worker._model
        assert model is not None
        return model

    def _check_integrity(self) -> None:
        """Once nothing runs, so that no step changes the cache meanwhile."""
        worker = self._log.thread._worker
        deadline = time.monotonic() + 20
        while (engine := worker._engine) is not None and (engine.has_work or worker._conversations.is_opening):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        if engine is not None:
            engine.kv_cache.check_integrity()


def _range(event: ContextShifted) -> range:
    dropped = event.dropped_messages
    return range(dropped[0], dropped[-1] + 1)


def run_fake(num_steps: int, seed: int, num_blocks: int) -> Counter[str]:
    """So many steps on the fake model."""
    loads = FakeLoads(CONTEXT, num_blocks, snapshot_key=bytes(32))

    def follow(tokens: list[int], count: int) -> list[int]:
        return continuation(tokens, count, END)

    with tempfile.TemporaryDirectory() as folder:
        config = EngineConfig(snapshot_folder=Path(folder))
        with engine_thread(config, load=loads) as log:
            chats = RandomLongChats(log, Path("model.gguf"), follow, seed, has_forms=False)
            for _ in range(num_steps):
                chats.step()
            return chats.counts


def run_model(path: Path, num_steps: int, seed: int, num_blocks: int) -> Counter[str]:
    """So many steps on a model on the CPU, rows of a table among them."""
    from tests.engine.random_chats import model_backends

    with tempfile.TemporaryDirectory() as folder, model_backends(path, CONTEXT, num_threads=1) as (make_backend, _):
        block_bytes = make_backend(2).block_bytes

        def follow(tokens: list[int], count: int) -> list[int]:
            backend = make_backend(CONTEXT // 16 + 2)
            engine = Engine(backend, num_blocks=CONTEXT // 16 + 2, context_length=CONTEXT)
            sequence = TokenSequence("cold", tokens, Sampler(GREEDY), count, frozenset())
            if count > 0:
                engine.add(sequence)
            while engine.has_work:
                engine.step()
            engine.close()
            return sequence.token_ids[len(tokens) :]

        config = EngineConfig(
            num_threads=1, context_length=CONTEXT, kv_bytes=num_blocks * block_bytes, snapshot_folder=Path(folder)
        )
        with engine_thread(config) as log:
            chats = RandomLongChats(log, path, follow, seed, has_forms=True)
            for _ in range(num_steps):
                chats.step()
            return chats.counts


def main() -> None:
    from tests import tiny_models

    parser = argparse.ArgumentParser(description="Random chats that outgrow their context, against cold runs.")
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=CONTEXT // 16 + 1)
    arguments = parser.parse_args()
    conversations.REST_S = 0.0
    settings = arguments.steps, arguments.seed, arguments.blocks
    with tempfile.TemporaryDirectory() as folder:
        models = arguments.models
        if not models:
            print("fake model", dict(run_fake(*settings)), flush=True)
            models = [tiny_models.write_tiny_model(name, Path(folder)) for name in ("llama", "gemma3")]
        for path in models:
            print(path.name, dict(run_model(path, *settings)), flush=True)


if __name__ == "__main__":
    main()
