"""How model families mark the channels of an answer: each way is a row of data, chosen by the chat template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from engine.protocol import Channel


@dataclass(frozen=True)
class ChannelMarkers:
    """How one family marks one channel.

    Attributes:
        channel: what is between the markers.
        opening, closing: the markers.
        at_start: the opening counts only at the start of the answer, so that an answer may speak about the marker;
            otherwise it counts at the start of any line, and anywhere where tools were offered.
        sign: text of the templates whose models use it, where the opening is too common a text to look for
            elsewhere; and then only where tools were offered.
        keeps_opening: the opening is part of the text between the markers.
    """

    channel: Channel
    opening: str
    closing: str  # empty: the end of the answer
    at_start: bool = True
    sign: str = ""
    keeps_opening: bool = False


@dataclass(frozen=True)
class HeaderMarkers:
    """A family that starts each part with a header which names its channel.

    A part is ``start header end text closing``. The prompt may end inside the first header.

    Attributes:
        starts, end, closing: the markers; of parts without a closing one, the empty text.
        opened: how a prompt ends inside a header.
        begun: what the beginning of a header looks like that the prompt opened; else there is no header.
        reasoning_words: the words of which a header names reasoning.
        callee: the function that a header names, as group 1; what is none of both is an answer.
    """

    starts: tuple[str, ...]
    end: str
    closing: str
    opened: str
    begun: re.Pattern[str]
    reasoning_words: tuple[str, ...]
    callee: re.Pattern[str]


_REASONING: Final = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<mm:think>", "</mm:think>"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|think|>", "<|end|>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
)
_TOOL_CALLS: Final = (
    ("<tool_calls>", "</tool_calls>"),
    ("<TOOLCALL>", "</TOOLCALL>"),
    ("<minimax:tool_call>", "</minimax:tool_call>"),
    ("]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>"),
    ("<seed:tool_call>", "</seed:tool_call>"),
    ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
    ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
    ("<|tool_call_start|>", "<|tool_call_end|>"),
    ("<|tools_prefix|>", "<|tools_suffix|>"),
    ("<|tool_calls|>", "<|calls|>"),
    ("<|action_start|>", "<|action_end|>"),
    ("<|python_start|>", "<|python_end|>"),
    ("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
    ("[TOOL_CALLS]", ""),
    ("<|python_tag|>", ""),
    ("<|function_call|>", ""),
    ("<tool_call>", "</tool_call>"),
    ("<|tool_call>", "<tool_call|>"),
    ("<|tool_call|>", "<|/tool_call|>"),
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ("<|START_ACTION|>", "<|END_ACTION|>"),
)
_CALL: Final = Channel.TOOL_CALL
MARKERS: Final = tuple(
    ChannelMarkers(channel, opening, closing, at_start=channel is Channel.REASONING)
    for channel, rows in ((Channel.REASONING, _REASONING), (_CALL, _TOOL_CALLS))
    for opening, closing in rows
)
_SIGNED: Final = (
    ChannelMarkers(_CALL, "<function=", "</function>", False, "<function=", keeps_opening=True),
    ChannelMarkers(_CALL, '{"name":', "", True, '{"name": function name', keeps_opening=True),
    ChannelMarkers(_CALL, '{"type": "function"', "", True, '{"name": function name', keeps_opening=True),
    ChannelMarkers(_CALL, "functools[", "", False, "functools[", keeps_opening=True),
    ChannelMarkers(_CALL, "Action:", "", False, "Action:"),
)
HARMONY: Final = HeaderMarkers(
    starts=("<|start|>", "<|channel|>"),
    end="<|message|>",
    closing="<|end|>",
    opened="<|start|>assistant",
    begun=re.compile(r" ?(t(o(=.*)?)?)?|<.*", re.DOTALL),
    reasoning_words=("analysis", "to=self"),
    callee=re.compile(r"to=(?:functions\.)?(?!self|user|all|assistant)([\w.\-]+)"),
)
FUNCTIONARY: Final = HeaderMarkers(
    starts=(">>>",),
    end="\n",
    closing="",
    opened=">>>",
    begun=re.compile(r"[\w.\-]{0,64}\n?.*", re.DOTALL),
    reasoning_words=(),
    callee=re.compile(r"^\s*(?!all\b)([\w.\-]+)"),
)
# Markers around the answer itself, which are dropped.
ANSWER_MARKERS: Final = (
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|begin|>assistant",
    "<|content|>",
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "[END FINAL RESPONSE]",
)
# What stands inside a call, beside its text: tokens that must not be hidden from the readers of calls.
# fmt: off
INNER_MARKERS: Final = (
    "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "[CALL_ID]", "[ARGS]", "<|tool_call:begin|>", "<|tool_call:name|>",
    "<|tool_call:args|>", "<|tool_call:end|>", '<|"|>', "<|open|>", "<|close|>", "<|sep|>", "｜DSML｜",
    "]<]minimax[>[", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
)
# fmt: on


@dataclass(frozen=True)
class Channels:
    """How one model marks its channels.

    Attributes:
        markers: its reasoning and tool calls.
        header: where it speaks in parts with headers.
        dropped: markers around the answer itself.
    """

    markers: tuple[ChannelMarkers, ...] = MARKERS
    header: HeaderMarkers | None = None
    dropped: tuple[str, ...] = ()

    def texts(self) -> Iterator[str]:
        """All its markers."""
        for row in self.markers:
            yield from (row.opening, row.closing)
        yield from (*self.dropped, *INNER_MARKERS)
        if self.header is not None:
            yield from (*self.header.starts, self.header.end, self.header.closing)


def choose_channels(template: str) -> Channels:
    """What the model of this chat template uses; of plain reasoning every way, since templates may not show it."""
    if all(text in template for text in (HARMONY.starts[0], HARMONY.end)):
        return Channels(markers=(), header=HARMONY)
    if ">>>${recipient}" in template:
        return Channels(markers=(), header=FUNCTIONARY)
    signed = tuple(row for row in _SIGNED if row.sign in template)
    return Channels((*MARKERS, *signed), dropped=tuple(text for text in ANSWER_MARKERS if text in template))


def opens_header(prompt: str, channels: Channels) -> bool:
    """Whether a prompt ends inside a header, so that the model's output starts there."""
    return channels.header is not None and prompt.endswith(channels.header.opened)


def opens_reasoning(prompt: str) -> bool:
    """Whether a prompt ends with an opening marker, so that the model's output starts as reasoning."""
    end = prompt[-200:].rstrip()
    openings = [row.opening for row in MARKERS if row.channel is Channel.REASONING]
    return end.endswith((*openings, HARMONY.starts[1] + HARMONY.reasoning_words[0] + HARMONY.end))
