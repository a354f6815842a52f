"""A chat goes on after a restart, on the real models, as if it had never been left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from engine import EngineConfig
from engine.cache import snapshot_store
from engine.protocol import GenerateRequest, LoadModel, Message, ModelLoaded, RequestFinished, RereadReason, Role
from engine.sampling.params import SamplingParams
from tests.engine.bent_models import take_apart
from tests.golden_models import write_golden_model
from tests.integration.engine_events import EventLog, engine_thread

GREEDY = SamplingParams(temperature=0)
STORY = "A clockmaker lived in a small town by a river and repaired the clocks of everyone who came to him. " * 5
QUESTION = (Message(Role.USER, STORY + "What did he repair?"),)


@contextmanager
def _loaded(path: Path, config: EngineConfig) -> Iterator[EventLog]:
    with engine_thread(config) as engine:
        engine.submit(LoadModel(path))
        engine.wait(ModelLoaded)
        yield engine


def _ask(engine: EventLog, name: str, messages: tuple[Message, ...]) -> tuple[str, RequestFinished]:
    engine.submit(GenerateRequest(name, messages, sampling=GREEDY, max_tokens=12, conversation_id="chat"))
    end = engine.wait_end(name, 180)
    assert isinstance(end, RequestFinished), end
    return engine.text(name), end


@pytest.mark.parametrize("name", ["smollm2_path", "gemma3_path"])
def test_a_chat_is_reopened_without_reading_and_goes_on_as_if_never_left(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 0)
    path = request.getfixturevalue(name)
    config = EngineConfig(context_length=1024, kv_bytes=200 << 20, snapshot_folder=tmp_path)
    more = Message(Role.USER, "And what else?")
    with _loaded(path, config) as engine:
        answer, _ = _ask(engine, "first", QUESTION)
        turns = (*QUESTION, Message(Role.ASSISTANT, answer), more)
        followed, _ = _ask(engine, "second", turns)
    with _loaded(path, config) as engine:
        again, end = _ask(engine, "again", turns)
        assert again == followed
        assert end.stats.num_snapshot_tokens == end.stats.num_reused_tokens == end.stats.num_prompt_tokens
        assert end.stats.reread_reason is RereadReason.NOTHING
        first, end = _ask(engine, "edited", QUESTION)
        assert first == answer
        assert end.stats.num_prompt_tokens - end.stats.num_reused_tokens <= 1
    if name == "gemma3_path":
        return
    with _loaded(path, replace(config, kv_type="q8_0")) as engine:
        _, end = _ask(engine, "other", turns)
        assert end.stats.num_reused_tokens == 0, "keys and values of another type are not those"
        assert end.stats.reread_reason is RereadReason.RELOADED


@pytest.mark.parametrize("name", ["smollm2_path", "gemma3_path"])
def test_an_edit_of_the_last_word_is_answered_as_if_nothing_had_been_read(
    name: str, request: pytest.FixtureRequest
) -> None:
    """Of quantised weights, whose kernels for few tokens would round otherwise."""
    path = request.getfixturevalue(name)
    config = EngineConfig(context_length=1024, kv_bytes=200 << 20)
    words = ("evening", "morning")
    asked = [(Message(Role.USER, f"{STORY}Tell me what he did in the {word}"),) for word in words]
    with _loaded(path, config) as engine:
        edited = [_ask(engine, word, messages) for word, messages in zip(words, asked, strict=True)]
        assert all(0 < end.stats.num_read_tokens <= 16 for _, end in edited[1:])
    for (answer, _), messages in zip(edited[1:], asked[1:], strict=True):
        with _loaded(path, config) as engine:
            assert _ask(engine, "cold", messages)[0] == answer


@pytest.mark.parametrize("name", ["qwen35", "mamba2"])
def test_so_is_one_with_a_hybrid_whose_states_come_back(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 0)
    bent = take_apart(write_golden_model(name, tmp_path))
    bent.metadata = [(key, 2048 if key == f"{name}.context_length" else value) for key, value in bent.metadata]
    bent.write(tmp_path / "long.gguf")
    config = EngineConfig(context_length=2048, kv_bytes=20 << 20, snapshot_folder=tmp_path / "snapshots")
    more = Message(Role.USER, "And what else?")
    with _loaded(tmp_path / "long.gguf", config) as engine:
        answer, _ = _ask(engine, "first", QUESTION)
        turns = (*QUESTION, Message(Role.ASSISTANT, answer), more)
        followed, _ = _ask(engine, "second", turns)
    with _loaded(tmp_path / "long.gguf", config) as engine:
        again, end = _ask(engine, "again", turns)
        assert again == followed
        assert end.stats.num_snapshot_tokens == end.stats.num_reused_tokens == end.stats.num_prompt_tokens > 500
        assert _ask(engine, "edited", QUESTION)[0] == answer
