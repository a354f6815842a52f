"""The engine thread with real models: the KV cache never changes an answer, and a chat reads only what is new.

Greedy answers with a warm cache are compared with those of a cold engine on the reference backend: the CPU backend
rounds activations to 8 bits, and a token's last bits depend on how many are computed in a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine import EngineConfig
from engine.gguf import open_model
from engine.protocol import (
    AbortRequest,
    Delta,
    FinishReason,
    GenerateRequest,
    LoadModel,
    LoadPhase,
    Message,
    ModelLoaded,
    ModelLoading,
    PromptProgress,
    RequestFailed,
    RequestFinished,
    RequestStarted,
    Role,
)
from engine.sampling.params import SamplingParams
from engine.tokenizer import load_tokenizer
from tests.integration.engine_events import EventLog, engine_thread

GREEDY = SamplingParams(temperature=0)
STORY = "The harbour town had two clocks, and they had not agreed for as long as anyone could remember. "


class Chat:
    """Messages so far, asked one turn after the other."""

    def __init__(self, engine: EventLog, name: str, max_tokens: int = 8) -> None:
        self.messages: tuple[Message, ...] = ()
        self.answers: list[str] = []
        self._engine = engine
        self._name = name
        self._max_tokens = max_tokens

    def ask(self, text: str) -> tuple[RequestStarted, RequestFinished]:
        name = f"{self._name}-{len(self.answers)}"
        self.messages += (Message(Role.USER, text),)
        self._engine.submit(GenerateRequest(name, self.messages, sampling=GREEDY, max_tokens=self._max_tokens))
        end = self._engine.wait_end(name)
        assert isinstance(end, RequestFinished), end
        self.answers.append(self._engine.text(name))
        self.messages += (Message(Role.ASSISTANT, self.answers[-1]),)
        return self._engine.of(RequestStarted, name)[0], end


REFERENCE = EngineConfig(backend="reference", context_length=2048)


@contextmanager
def _loaded(path: Path, config: EngineConfig) -> Iterator[EventLog]:
    with engine_thread(config) as engine:
        engine.submit(LoadModel(path))
        engine.wait(ModelLoaded)
        yield engine


@pytest.fixture(scope="module")
def smollm2(request: pytest.FixtureRequest) -> Iterator[EventLog]:
    """An engine with SmolLM2 as people run it, kept warm by all tests of this file."""
    with _loaded(request.getfixturevalue("smollm2_path"), EngineConfig(context_length=2048)) as engine:
        yield engine


def test_five_turns_read_only_what_is_new(smollm2: EventLog) -> None:
    chat = Chat(smollm2, "five")
    known = 0
    for turn in ("Hi, my name is Tom.", "What is my name?", "Tell me about clocks.", "And about towns.", "Bye!"):
        started, end = chat.ask(turn)
        assert started.num_reused_tokens >= known, "prompt and answer of the turn before"
        assert end.stats.num_prompt_tokens - started.num_reused_tokens < 60
        known = end.stats.num_prompt_tokens


def test_the_prompt_is_what_was_said_and_nothing_twice(smollm2: EventLog, smollm2_path: Path) -> None:
    with open_model(smollm2_path) as file:
        tokenizer = load_tokenizer(file.metadata)
    chat = Chat(smollm2, "transcript")
    written = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    for turn in ("Hi, my name is Tom.", "What is my name?", "Tell me about clocks.", "And about towns."):
        _, end = chat.ask(turn)
        written += f"<|im_start|>user\n{turn}<|im_end|>\n<|im_start|>assistant\n"
        assert end.stats.num_prompt_tokens == len(tokenizer.encode_prompt([(written, True)]))
        written += f"{chat.answers[-1]}<|im_end|>\n"


def test_a_second_turn_equals_a_cold_run_and_a_regenerated_one_reads_nothing(smollm2_path: Path) -> None:
    with _loaded(smollm2_path, REFERENCE) as engine:
        chat = Chat(engine, "base", max_tokens=6)
        chat.ask("Hi, I am Tom.")
        chat.ask("Who am I?")
        engine.submit(GenerateRequest("again", chat.messages[:3], sampling=GREEDY, max_tokens=6))
        engine.wait_end("again")
        (again,) = engine.of(RequestStarted, "again")
        assert again.num_reused_tokens == again.num_prompt_tokens
        assert engine.text("again") == chat.answers[1]
    with _loaded(smollm2_path, REFERENCE) as engine:
        engine.submit(GenerateRequest("cold", chat.messages[:3], sampling=GREEDY, max_tokens=6))
        end = engine.wait_end("cold")
        assert isinstance(end, RequestFinished)
        assert end.stats.num_reused_tokens == 0
        assert engine.text("cold") == chat.answers[1]


def test_the_same_request_three_times_gives_the_same_text(smollm2: EventLog) -> None:
    messages = (Message(Role.USER, "Name three colours."),)
    for name in ("one", "two", "three"):
        smollm2.submit(GenerateRequest(name, messages, sampling=GREEDY, max_tokens=16))
        smollm2.wait_end(name)
    assert smollm2.text("one") == smollm2.text("two") == smollm2.text("three") != ""


@pytest.mark.parametrize("model", ["smollm2_path", "gemma3_path"])
def test_speculation_changes_no_greedy_text(model: str, request: pytest.FixtureRequest) -> None:
    """Every token, proposed or not, is computed to the same bit; the text to repeat makes many proposals right."""
    path = request.getfixturevalue(model)
    messages = (Message(Role.USER, f"Repeat this text:\n\n{STORY * 2}"),)
    texts = []
    for speculates in (False, True):
        with _loaded(path, EngineConfig(context_length=512, speculates=speculates)) as engine:
            if speculates:
                engine.thread._worker._engine._scheduler._speculation.choose = lambda draft, *_: draft
            engine.submit(GenerateRequest("a", messages, sampling=GREEDY, max_tokens=40))
            engine.wait_end("a")
            texts.append(engine.text("a"))
    assert texts[0] == texts[1] != ""


def test_an_answer_ends_at_the_models_own_end_token(smollm2: EventLog) -> None:
    messages = (Message(Role.USER, "What is the capital of France? Answer in one word."),)
    smollm2.submit(GenerateRequest("end", messages, sampling=GREEDY, max_tokens=60))
    end = smollm2.wait_end("end")
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.STOP
    assert "Paris" in smollm2.text("end")
    assert "<|im_end|>" not in smollm2.text("end")


def test_an_assistants_message_is_continued(smollm2: EventLog) -> None:
    messages = (
        Message(Role.USER, "What is the capital of France?"),
        Message(Role.ASSISTANT, "The capital of France is"),
    )
    smollm2.submit(GenerateRequest("continue", messages, sampling=GREEDY, max_tokens=4))
    smollm2.wait_end("continue")
    assert smollm2.text("continue").startswith(" Paris")


def test_a_stop_is_heard_while_a_prompt_is_read_and_while_text_comes(smollm2: EventLog) -> None:
    long = (Message(Role.USER, STORY * 80),)
    smollm2.submit(GenerateRequest("read", long, sampling=GREEDY))
    smollm2.wait(PromptProgress)
    smollm2.submit(AbortRequest("read"))
    end = smollm2.wait_end("read")
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.ABORTED
    smollm2.submit(GenerateRequest("talk", prompt=STORY, sampling=GREEDY))
    smollm2.wait(Delta, where=lambda event: event.request_id == "talk")
    smollm2.submit(AbortRequest("talk"))
    end = smollm2.wait_end("talk")
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.ABORTED
    assert smollm2.text("talk")


def test_a_message_that_cannot_fit_is_refused_with_numbers(smollm2: EventLog) -> None:
    smollm2.submit(GenerateRequest("big", (Message(Role.USER, STORY * 200),)))
    failed = smollm2.wait_end("big")
    assert isinstance(failed, RequestFailed)
    assert "but the context holds 2,048" in failed.message


def test_a_sliding_window_model_reuses_far_more_than_its_window(gemma3_path: Path) -> None:
    """The window is 512 tokens; a new chat after a longer story begins with none of it."""
    joke = (Message(Role.USER, "Write a joke."),)
    with _loaded(gemma3_path, EngineConfig(context_length=2048)) as engine:
        engine.submit(GenerateRequest("cold", joke, sampling=GREEDY, max_tokens=8))
        engine.wait_end("cold")
        chat = Chat(engine, "story")
        chat.ask(STORY * 30 + "Go on.")
        started, end = chat.ask("And then?")
        assert end.stats.num_prompt_tokens > 600
        assert started.num_reused_tokens > 590
        edited = (Message(Role.USER, STORY * 29 + "Stop here."),)
        engine.submit(GenerateRequest("edited", edited, sampling=GREEDY, max_tokens=8))
        engine.wait_end("edited")
        assert engine.of(RequestStarted, "edited")[0].num_reused_tokens > 550
        engine.submit(GenerateRequest("joke", joke, sampling=GREEDY, max_tokens=8))
        engine.wait_end("joke")
        assert engine.text("joke") == engine.text("cold")


def test_a_load_reports_every_phase_in_order(smollm2_path: Path) -> None:
    with engine_thread() as engine:
        engine.submit(LoadModel(smollm2_path, context_length=512))
        loaded = engine.wait(ModelLoaded)
    progress = engine.of(ModelLoading)
    phases = list(dict.fromkeys(event.phase for event in progress))
    assert phases == [
        LoadPhase.HEADER,
        LoadPhase.TOKENIZER,
        LoadPhase.WEIGHTS,
        LoadPhase.KERNELS,
        LoadPhase.READY,
    ]
    fractions = [event.fraction for event in progress]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0
    assert fractions[-1] == 1
    info = loaded.info
    assert (info.architecture, info.tensor_type, info.context_length) == ("llama", "Q4_1", 512)
    assert info.num_parameters == 134_515_008
    assert info.has_chat_template
    assert info.kv_bytes > 0
