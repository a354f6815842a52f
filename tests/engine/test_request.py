"""The text side of a request: what streams out of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from engine.chat.channels import ChannelSplitter
from engine.errors import ContextOverflowError
from engine.protocol import Channel, Delta, Event, GenerateRequest, Message, Role, Tool, ToolCalled
from engine.request import Prepared, Request
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.sequence import Sequence

CALL = 'Hm.<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'


class _Letters:
    """Tokens are code points."""

    def push(self, token_id: int) -> str:
        return chr(token_id)

    def text_of(self, token_id: int) -> str:
        return chr(token_id)

    def flush(self) -> str:
        return ""


def _begun(**options: Any) -> Request:
    request = Request(GenerateRequest("r", (Message(Role.USER, "Hi"),), **options), 0.0)
    sequence = Sequence("r", [1], Sampler(SamplingParams()), 100, frozenset())
    request.begin(Prepared(sequence, _Letters(), ChannelSplitter(tools=(Tool("f"),)), (), 100))
    return request


def test_calls_come_after_their_text() -> None:
    request = _begun()
    events: list[Event] = [event for letter in CALL for event in request.push(ord(letter))[0]]
    assert isinstance(events[-1], ToolCalled)
    assert (events[-1].call.name, events[-1].call.arguments) == ("f", '{"a": 1}')
    texts = dict.fromkeys(Channel, "")
    for event in events[:-1]:
        assert isinstance(event, Delta)
        texts[event.channel] += event.text
    assert texts == {
        Channel.ANSWER: "Hm.",
        Channel.REASONING: "",
        Channel.TOOL_CALL: '{"name": "f", "arguments": {"a": 1}}',
    }


def test_a_call_that_the_end_cuts_off_is_given_at_the_end() -> None:
    request = _begun()
    for letter in CALL.removesuffix("</tool_call>"):
        request.push(ord(letter))
    assert [event.call.name for event in request.flush() if isinstance(event, ToolCalled)] == ["f"]


def test_a_text_that_cannot_fit_is_refused_before_it_is_tokenized() -> None:
    class Tokenizer:
        def least_num_tokens(self, texts: Iterable[str]) -> int:
            return sum(len(text) for text in texts) // 8

        def encode_prompt(self, segments: object) -> list[int]:
            raise AssertionError("it is not tokenized")

    class Model:
        tokenizer = Tokenizer()

        class info:  # noqa: N801
            context_length = 1000

    request = Request(GenerateRequest("r", prompt="x" * 8000), 0.0)
    with pytest.raises(ContextOverflowError, match="at least 1,000 tokens but the context holds 1,000"):
        request.prepare(cast(Any, Model()))
