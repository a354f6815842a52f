"""Answers split into channels, whatever the pieces they come in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chat.channel_markers import (
    ANSWER_MARKERS,
    FUNCTIONARY,
    HARMONY,
    MARKERS,
    Channels,
    choose_channels,
    opens_reasoning,
)
from engine.chat.channels import ChannelSplitter
from engine.protocol import Channel, Tool

ANSWER, REASONING, TOOL_CALL = Channel.ANSWER, Channel.REASONING, Channel.TOOL_CALL
HARMONIC = Channels(markers=(), header=HARMONY)
SOLAR = choose_channels("<|begin|>assistant<|think|><|content|>")


def split(
    pieces: list[str], opens_reasoning: bool = False, channels: Channels | None = None
) -> list[tuple[Channel, str]]:
    """All deltas, neighbours of one channel joined."""
    splitter = ChannelSplitter(opens_reasoning, channels)
    joined: list[tuple[Channel, str]] = []
    for delta in [delta for piece in pieces for delta in splitter.push(piece)] + splitter.flush():
        assert delta[1], "no empty deltas"
        if joined and joined[-1][0] is delta[0]:
            joined[-1] = (delta[0], joined[-1][1] + delta[1])
        else:
            joined.append(delta)
    return joined


CASES: list[tuple[str, bool, Channels | None, list[tuple[Channel, str]]]] = [
    ("abc", False, None, [(ANSWER, "abc")]),
    ("abc</think>def", True, None, [(REASONING, "abc"), (ANSWER, "def")]),
    ("abc\n</think>\n\ndef\n", True, None, [(REASONING, "abc"), (ANSWER, "def\n")]),
    ("<think>\nabc\n</think>\n\ndef", False, None, [(REASONING, "abc"), (ANSWER, "def")]),
    ("\n<think>abc</think>def", False, None, [(REASONING, "abc"), (ANSWER, "def")]),
    ("<think>abc</think>def", True, None, [(REASONING, "abc"), (ANSWER, "def")]),
    ("<think>\n\n</think>\n\ndef", False, None, [(ANSWER, "def")]),
    ("  abc", False, None, [(ANSWER, "  abc")]),
    ("Write <think> to think.</think>", False, None, [(ANSWER, "Write <think> to think.</think>")]),
    ("<think>never closed \n", False, None, [(REASONING, "never closed \n")]),
    ("<thi", False, None, [(ANSWER, "<thi")]),
    ("abc</thin", True, None, [(REASONING, "abc</thin")]),
    ("a < b </ c", True, None, [(REASONING, "a < b </ c")]),
    ("[THINK]a[/THINK]b", False, None, [(REASONING, "a"), (ANSWER, "b")]),
    ("<|channel>thought\na<channel|>b", False, None, [(REASONING, "a"), (ANSWER, "b")]),
    ("<|START_THINKING|>a<|END_THINKING|>b", False, None, [(REASONING, "a"), (ANSWER, "b")]),
    ("<think>a</think>b <think>c</think>", False, None, [(REASONING, "a"), (ANSWER, "b <think>c</think>")]),
    (
        "<think>a</think>b\n<tool_call>\n{}\n</tool_call>\nc",
        False,
        None,
        [(REASONING, "a"), (ANSWER, "b\n"), (TOOL_CALL, "{}"), (ANSWER, "c")],
    ),
    ("Say <tool_call> aloud", False, None, [(ANSWER, "Say <tool_call> aloud")]),
    ("<think>a<think>b</think>c", False, None, [(REASONING, "a<think>b"), (ANSWER, "c")]),
    (
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
        False,
        HARMONIC,
        [(REASONING, "a"), (ANSWER, "b")],
    ),
    (
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.x "
        "<|constrain|>json<|message|>{}",
        False,
        HARMONIC,
        [(REASONING, "a"), (TOOL_CALL, "{}")],
    ),
    ("<|channel|>final<|message|>a", False, HARMONIC, [(ANSWER, "a")]),
    ("no header at all", False, HARMONIC, [(ANSWER, "no header at all")]),
    ("<|channel|>never ended", False, HARMONIC, [(ANSWER, "<|channel|>never ended")]),
    (
        "<|channel|>analysis<|message|>a\n<|channel|>" + "x" * 300 + "<|message|>",
        False,
        HARMONIC,
        [(REASONING, "a\n<|channel|>" + "x" * 300 + "<|message|>")],
    ),
    ("<|channel|>" + "x" * 300, False, HARMONIC, [(ANSWER, "<|channel|>" + "x" * 300)]),
    ("thought<|end|>", True, HARMONIC, [(REASONING, "thought")]),
    ("<|think|>a<|end|><|begin|>assistant<|content|>b", False, SOLAR, [(REASONING, "a"), (ANSWER, "b")]),
]


@pytest.mark.parametrize(("text", "opened", "channels", "expected"), CASES)
def test_every_cut_gives_the_same(
    text: str, opened: bool, channels: Channels | None, expected: list[tuple[Channel, str]]
) -> None:
    assert split([text], opened, channels) == expected
    assert split(list(text), opened, channels) == expected
    for cut in range(1, len(text)):
        assert split([text[:cut], text[cut:]], opened, channels) == expected


@given(
    pieces=st.lists(st.sampled_from(["<think>", "</think>", "<th", "ink>", "</", "think>", "a", " b ", "\n", "<"])),
    opened=st.booleans(),
)
def test_no_text_is_lost(pieces: list[str], opened: bool) -> None:
    def letters(text: str) -> str:
        return "".join(character for character in text if character in "ab")

    assert letters("".join(text for _, text in split(pieces, opened))) == letters("".join(pieces))
    assert split(pieces, opened) == split(["".join(pieces)], opened)


WORDS = [
    "a",
    " ",
    "\n",
    "\n\n",
    "```",
    "x" * 150,
    '{"name": "f", "arguments": {}}',
    "f\n",
    "<",
    "<|",
    "]<]",
    "é🦙",
    "to=f ",
]
PARTS = {
    "headers": (HARMONIC, ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "analysis", "commentary to=f "]),
    "recipients": (Channels(markers=(), header=FUNCTIONARY), [">>>", "all\n", "f\n"]),
    "markers": (
        Channels(MARKERS, dropped=ANSWER_MARKERS),
        [text for row in MARKERS for text in (row.opening, row.closing) if text] + list(ANSWER_MARKERS),
    ),
}


@pytest.mark.parametrize("kind", PARTS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_cuts_do_not_matter_to_any_family(kind: str, data: st.DataObject) -> None:
    """Headers that come late or never, white space before markers that turn out to be none, markers in markers."""
    channels, parts = PARTS[kind]
    text = "".join(data.draw(st.lists(st.sampled_from([*WORDS, *parts, *parts]), max_size=10)))
    opened, is_offered = data.draw(st.booleans()), data.draw(st.booleans())
    tools = [Tool("f", "", "{}")] * is_offered
    opens_header = channels.header is not None and not opened and data.draw(st.booleans())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))

    def outcome(pieces: list[str]) -> tuple[list[tuple[Channel, str]], list[tuple[str, str]]]:
        splitter = ChannelSplitter(opened, channels, opens_header=opens_header, tools=tools)
        deltas = [delta for piece in pieces for delta in splitter.push(piece)] + splitter.flush()
        joined: list[tuple[Channel, str]] = []
        for channel, said in deltas:
            before = joined.pop()[1] if joined and joined[-1][0] is channel else ""
            joined.append((channel, before + said))
        return joined, [(call.name, call.arguments) for call in splitter.take_calls()]

    whole = outcome([text])
    assert outcome(list(text)) == whole
    assert outcome([text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)])]) == whole


def test_text_is_passed_on_at_once() -> None:
    splitter = ChannelSplitter()
    assert splitter.push("Hello") == [(ANSWER, "Hello")]
    assert splitter.push(" world <") == [(ANSWER, " world ")] or splitter.push("") == []
    assert splitter.push("b") == [(ANSWER, "<b")]


@pytest.mark.parametrize("row", [row for row in MARKERS if row.channel is REASONING])
def test_prompts_that_open_the_reasoning(row: object) -> None:
    opening: str = row.opening  # type: ignore[attr-defined]
    assert opens_reasoning(f"<|assistant|>{opening}\n")
    assert not opens_reasoning(f"<|assistant|>{opening}\n{row.closing}\n")  # type: ignore[attr-defined]


def test_answers_of_harmony_may_start_inside_the_reasoning() -> None:
    assert opens_reasoning("<|start|>assistant<|channel|>analysis<|message|>")
    assert not opens_reasoning("<|start|>assistant")
    assert choose_channels("x <|start|>y<|message|>").header is HARMONY
