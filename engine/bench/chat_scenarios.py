"""The turns of ``bench-chat``: what people do in chats that makes other programs read things again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from engine.bench.chat_run import PARAGRAPH, OwnChat, Step, with_own_chat
from engine.bench.chat_stream import paste_beside_stream, stops_while_reading
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.protocol import Message, RereadReason, Role
from engine.sampling.params import SamplingParams

NUM_TURNS = 10
ANSWER_TOKENS = 32
CONTEXT_LENGTH = 8192
SPECULATION_TOKENS = 120

OnProgress = Callable[[str], None]

CODE = (
    "def area(width, height):\n    return width * height\n\n\n"
    "def volume(width, height, depth):\n    return width * height * depth\n\n\n"
    "def surface(width, height, depth):\n    return 2 * (width * height + height * depth + width * depth)\n"
)
SPECULATION_TASKS = (
    ("repeat a text", f"Repeat this text word for word:\n\n{PARAGRAPH}"),
    ("change code", f"Add type hints to this code and print all of it:\n\n```python\n{CODE}```"),
    ("free story", "Write a story about a fox and a crow."),
)


class Chats:
    """Runs the scenarios on one engine and collects their steps."""

    def __init__(self, own: OwnChat, on_progress: OnProgress) -> None:
        self.steps: list[Step] = []
        self._own = own
        self._on_progress = on_progress

    def ask(self, scenario: str, label: str, messages: Sequence[Message], chat: str, **options: Any) -> Message:
        """One request; returns its answer."""
        self._on_progress(f"{scenario}: {label}")
        text, stats = self._own.ask(messages, ANSWER_TOKENS, chat, **options)
        self.steps.append(
            Step(
                scenario,
                label,
                tuple(messages),
                stats.num_prompt_tokens,
                stats.num_read_tokens,
                stats.first_token_ms,
                stats.tokens_per_second,
                "" if stats.reread_reason is RereadReason.NOTHING else stats.reread_reason.value,
            )
        )
        return Message(Role.ASSISTANT, text)

    def run(self) -> None:
        """All scenarios, in the order in which a person would come to them."""
        main = self._grow()
        self._alternate(main)
        self._go_back(main)
        for label, messages in (("the answer again", main[:-1]), ("next turn", [*main, _user(90)])):
            self._own.restart()
            self.ask("reopened after a restart", label, messages, "main")

    def _grow(self) -> list[Message]:
        messages: list[Message] = []
        for turn in range(NUM_TURNS):
            messages.append(_user(turn))
            messages.append(self.ask("a growing chat", f"turn {turn + 1}", messages, "main"))
        return messages

    def _alternate(self, main: list[Message]) -> None:
        other: list[Message] = []
        for turn in range(2):
            other.append(_user(50 + turn))
            other.append(self.ask("two chats in turn", f"other chat, turn {turn + 1}", other, "other"))
            self.ask("two chats in turn", "back in the first", main[:-1], "main")

    def _go_back(self, main: list[Message]) -> None:
        self.ask("an answer again", "regenerate", main[:-1], "main", sampling=SamplingParams(seed=1))
        edited = [*main[:4], Message(Role.USER, "No: tell me about the church instead.")]
        self.ask("an edit", "turn 3, edited", edited, "main")
        self.ask("an edit", "back to the main branch", [*main, _user(60)], "main")
        for branch in range(4):
            sampling = SamplingParams(temperature=1.0, seed=branch)
            self.ask("branches of one state", f"branch {branch + 1}", main[:-1], "main", sampling=sampling)


def _user(number: int) -> Message:
    return Message(Role.USER, f"Part {number}. {PARAGRAPH}What does part {number} say about time?")


def run_chats(path: Path, config: EngineConfig, num_paste_tokens: int, on_progress: OnProgress) -> dict[str, Any]:
    """Measure everything on our engine; returns plain data but for the steps, under "steps".

    The paste has ``num_paste_tokens``, or as many as the context takes; without any it is left out.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = replace(config, snapshot_folder=folder, context_length=config.context_length or CONTEXT_LENGTH)
        own = with_own_chat(stack, path, config)
        if own.info.context_length < 4096:
            raise EngineError(
                f"bench-chat needs a context of 4,096 tokens and {own.info.name} has {own.info.context_length:,}."
            )
        own.reading_ms(64)  # the first request of a process is slower
        chats = Chats(own, on_progress)
        chats.run()
        on_progress("reading alone")
        steps = _with_reading_alone(own, chats.steps)
        beside, stops = None, []
        if num_paste_tokens > 0:
            on_progress("a paste beside a stream")
            num_paste_tokens = min(num_paste_tokens, own.info.context_length - 600)
            beside = paste_beside_stream(own, num_paste_tokens)
            on_progress("stops")
            stops = stops_while_reading(own, num_paste_tokens)
    return {
        "model": own.info.name,
        "steps": steps,
        "beside": beside,
        "stops_ms": stops,
        "speculation": _speculation(path, config, on_progress),
    }


def _with_reading_alone(own: OwnChat, steps: Sequence[Step]) -> list[Step]:
    """Adds what reading as many tokens takes alone; sizes and depths are rounded, so that few have to be timed."""

    @cache
    def ms_per_token(size: int, depth: int) -> float:
        return own.reading_ms(size, depth) / size

    measured = []
    for step in steps:
        count = step.num_read_tokens
        if count > 0:
            size, depth = -(-count // 32) * 32, (step.num_prompt_tokens - count) // 256 * 256
            times = count * ms_per_token(size, 0), count * ms_per_token(size, depth)
            step = replace(step, alone_ms=times[0], deep_ms=times[1])
        measured.append(step)
    return measured


def _speculation(path: Path, config: EngineConfig, on_progress: OnProgress) -> list[dict[str, Any]]:
    """Tokens a second with and without proposals, the second answer of each task; the texts must be equal."""
    figures: dict[bool, list[tuple[str, float, int, int]]] = {}
    for speculates in (False, True):
        with ExitStack() as stack:
            own = with_own_chat(stack, path, replace(config, speculates=speculates, snapshot_folder=None))
            results = []
            for label, task in SPECULATION_TASKS * 2:
                on_progress(f"speculation {'on' if speculates else 'off'}: {label}")
                text, stats = own.ask([Message(Role.USER, task)], SPECULATION_TOKENS, label)
                results.append(
                    (text, stats.tokens_per_second, stats.num_proposed_tokens, stats.num_accepted_tokens)
                )
            figures[speculates] = results[len(SPECULATION_TASKS) :]
    return [
        {
            "task": label,
            "off": off[1],
            "on": on[1],
            "num_proposed_tokens": on[2],
            "num_accepted_tokens": on[3],
            "is_same_text": off[0] == on[0],
        }
        for (label, _), off, on in zip(SPECULATION_TASKS, figures[False], figures[True])
    ]


def replay_on_peer(path: Path, steps: Sequence[Step], num_threads: int, on_progress: OnProgress) -> list[Step]:
    """The same prompts in the same order on llama.cpp's server, which keeps one slot; adds its figures."""
    from engine.bench.xllamacpp_peer import complete, start_server
    from engine.chat import load_template
    from engine.gguf import open_model
    from engine.tokenizer import load_tokenizer

    with open_model(path) as file:
        tokenizer = load_tokenizer(file.metadata)
        template = load_template(file.metadata, tokenizer)
    server = start_server(path, num_threads, num_threads, CONTEXT_LENGTH)
    measured = []
    for step in steps:
        on_progress(f"llama.cpp: {step.label}")
        if step.scenario.startswith("reopened"):
            server = None  # before the next one takes memory
            server = start_server(path, num_threads, num_threads, CONTEXT_LENGTH)
        prompt = tokenizer.encode_prompt(template.render(step.messages).segments)
        timings = complete(server, prompt, ANSWER_TOKENS, keep=True)["timings"]
        measured.append(
            replace(
                step, peer_first_token_ms=float(timings["prompt_ms"]), peer_read_tokens=int(timings["prompt_n"])
            )
        )
    return measured
