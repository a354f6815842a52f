"""Which turns leave a conversation that has outgrown the context, and how seldom that moves."""

from __future__ import annotations

import random

import pytest

from engine.chat.context_window import dropped_messages, turn_starts, without
from engine.protocol import Message, Role

CONTEXT = 1000
LIMIT = 875


def _said(role: Role, num_tokens: int) -> Message:
    return Message(role, "x" * (num_tokens - 8))


def _chat(sizes: list[int], system: int = 100) -> list[Message]:
    """A system prompt and turns of a question and an answer of half of each size; the last is not answered."""
    messages = [_said(Role.SYSTEM, system)]
    for size in sizes:
        messages += [_said(Role.USER, size // 2), _said(Role.ASSISTANT, size - size // 2)]
    return messages[:-1]


def _size(messages: tuple[Message, ...] | list[Message]) -> int:
    return sum(len(message.content) + 8 for message in messages)


def test_what_fits_stays() -> None:
    messages = _chat([200, 200, 200])
    assert not dropped_messages(messages, len, CONTEXT)
    assert not dropped_messages([], len, CONTEXT)
    assert not dropped_messages([_said(Role.SYSTEM, 2000)], len, CONTEXT)


def test_whole_oldest_turns_leave_until_a_quarter_is_free() -> None:
    messages = _chat([200] * 5)
    dropped = dropped_messages(messages, len, CONTEXT)
    assert dropped == range(1, 5), "two turns: with one the rest would be at 800 of 875"
    kept = without(messages, dropped)
    assert kept[0].role is Role.SYSTEM
    assert kept[1].role is Role.USER
    assert _size(kept) <= 0.75 * LIMIT


def test_a_single_turn_never_leaves() -> None:
    assert not dropped_messages(_chat([3000]), len, CONTEXT)
    assert dropped_messages(_chat([100, 100, 3000]), len, CONTEXT) == range(1, 5)


def test_an_answer_that_is_being_written_needs_room_too() -> None:
    messages = _chat([200, 200, 200])
    assert dropped_messages(messages, len, CONTEXT, num_answer_tokens=400) == range(1, 5)


def test_tool_results_and_several_messages_of_one_side_stay_with_their_turn() -> None:
    roles = [Role.SYSTEM, Role.ASSISTANT, Role.USER, Role.TOOL, Role.ASSISTANT, Role.USER, Role.USER]
    assert turn_starts([_said(role, 10) for role in roles]) == [1, 2, 5, 6]


@pytest.mark.parametrize("seed", range(5))
def test_the_cut_moves_seldom_and_only_forward(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randrange(40, 160) for _ in range(60)]
    cuts = []
    for count in range(1, len(sizes) + 1):
        messages = _chat(sizes[:count])
        dropped = dropped_messages(messages, len, CONTEXT)
        assert _size(without(messages, dropped)) <= LIMIT
        cuts.append(dropped.stop if dropped else 1)
    assert cuts == sorted(cuts)
    assert len(set(cuts)) < 60 * 100 / (0.25 * LIMIT) + 2, "each move frees a quarter"
    assert len(set(cuts)) > 5
