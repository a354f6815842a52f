"""The app's services with the real engine and a real model, without a window."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.paths import AppPaths
from app.storage.records import MessageRecord, MessageStatus
from engine import EngineThread

LOAD_MS = 240_000  # the kernels may have to be compiled first
ANSWER_MS = 120_000


@pytest.fixture
def context(qtbot: QtBot, tmp_path: Path, smollm2_path: Path) -> Iterator[AppContext]:
    context = AppContext(AppPaths.below(tmp_path), EngineThread)
    context.settings.set("context_length", 1024)
    context.settings.set("max_tokens", 12)
    context.settings.set("temperature", 0.0)
    failures: list[str] = []
    context.controller.model_failed.connect(failures.append)
    context.start(smollm2_path)
    qtbot.waitUntil(lambda: context.controller.model_info is not None or bool(failures), timeout=LOAD_MS)
    assert failures == []
    yield context
    context.close()


def _answer(context: AppContext, qtbot: QtBot) -> MessageRecord:
    qtbot.waitUntil(lambda: not context.controller.is_generating, timeout=ANSWER_MS)
    record = context.controller.current_messages[-1].record
    assert record.status is MessageStatus.COMPLETE, record.error
    return record


def test_five_turns_read_only_what_is_new(context: AppContext, qtbot: QtBot) -> None:
    controller = context.controller
    assert controller.model_info is not None
    assert controller.model_info.name == "SmolLM2-135M-Instruct"
    num_known = 0
    for question in (
        "Tell me the capital of France in one sentence.",
        "And of Italy?",
        "Of Spain?",
        "Of Peru?",
        "Thank you!",
    ):
        assert controller.send(question)
        answer = _answer(context, qtbot)
        stats = answer.stats
        assert answer.content
        assert stats is not None
        assert stats["num_reused_tokens"] >= num_known - 2, "an answer's last token may be read again"
        assert stats["num_prompt_tokens"] - stats["num_reused_tokens"] < 48
        num_known = stats["num_prompt_tokens"] + stats["num_completion_tokens"]
    assert len(controller.current_messages) == 10
    first = controller.current_messages[1].record
    assert "Paris" in first.content
    controller.regenerate(controller.current_messages[-1].record.id)
    again = _answer(context, qtbot)
    assert again.stats is not None
    assert again.stats["num_prompt_tokens"] - again.stats["num_reused_tokens"] <= 2


def test_a_chat_goes_before_the_rows_of_an_extraction(context: AppContext, qtbot: QtBot) -> None:
    controller, workspace = context.controller, context.extraction
    workspace.choose_lines("\n".join(f"{number} nights in Lisbon" for number in range(1, 11)))
    qtbot.waitUntil(lambda: workspace.source is not None)
    properties = {"nights": {"type": "integer", "maximum": 30}}
    schema = {"type": "object", "properties": properties, "required": ["nights"], "additionalProperties": False}
    workspace.start("Read the note.", json.dumps(schema))
    journal = workspace.journal
    assert journal is not None
    qtbot.waitUntil(lambda: len(journal.results) > 0, timeout=ANSWER_MS)
    counts: list[int] = []
    controller.delta.connect(lambda *_delta: counts.append(len(journal.results)))
    assert controller.send("Tell me the capital of France in one sentence.")
    assert "Paris" in _answer(context, qtbot).content
    assert counts[-1] - counts[0] <= 2, "rows wait while somebody reads an answer"
    qtbot.waitUntil(lambda: workspace.is_finished, timeout=ANSWER_MS)
    assert sorted(journal.results) == list(range(10))
    assert all(type(result.value["nights"]) is int for result in journal.results.values())


def test_a_stopped_story_ends_and_two_chats_do_not_mix(context: AppContext, qtbot: QtBot) -> None:
    controller = context.controller
    context.settings.set("max_tokens", 0)
    deltas: list[str] = []
    controller.delta.connect(lambda conversation_id, _message, _channel, _text: deltas.append(conversation_id))
    controller.send("Write a long story about the sea.")
    first_id = controller.current_id
    qtbot.waitUntil(lambda: len(deltas) > 3, timeout=ANSWER_MS)
    context.settings.set("max_tokens", 12)
    controller.new_conversation()
    controller.send("Tell me the capital of France in one sentence.")
    assert "Paris" in _answer(context, qtbot).content
    controller.open_conversation(first_id)
    assert controller.is_generating
    controller.stop()
    qtbot.waitUntil(lambda: not controller.is_generating)
    story = controller.current_messages[-1].record
    assert story.status is MessageStatus.STOPPED
    assert len(story.content) > 10
    context.close()
