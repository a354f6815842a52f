"""Splits a streamed answer into what the model thinks, what it says, and what it calls.

Families mark their channels differently; each way is a row of data. Markers are taken out of the text, whole and
only whole: a piece that may be the beginning of one is held back until it is clear. All other text is passed on,
except white space next to a marker.
"""

from __future__ import annotations

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
            otherwise it counts at the start of any line.
    """

    channel: Channel
    opening: str
    closing: str
    at_start: bool = True


@dataclass(frozen=True)
class HeaderMarkers:
    """A family that starts each part with a header which names its channel, as gpt-oss does.

    A part is ``start header end text closing``. The words of the header tell the channel.
    """

    starts: tuple[str, ...]
    end: str
    closing: str
    reasoning_words: tuple[str, ...]
    tool_words: tuple[str, ...]


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
    ("<tool_call>", "</tool_call>"),
    ("<|tool_call>", "<tool_call|>"),
    ("<|tool_call|>", "<|/tool_call|>"),
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ("<|START_ACTION|>", "<|END_ACTION|>"),
)
MARKERS: Final = tuple(
    ChannelMarkers(channel, opening, closing, at_start=channel is Channel.REASONING)
    for channel, rows in ((Channel.REASONING, _REASONING), (Channel.TOOL_CALL, _TOOL_CALLS))
    for opening, closing in rows
)
HARMONY: Final = HeaderMarkers(
    starts=("<|start|>", "<|channel|>"),
    end="<|message|>",
    closing="<|end|>",
    reasoning_words=("analysis", "to=self"),
    tool_words=("to=functions.", "to=python", "to=browser"),
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
_MAX_HEADER: Final = 200  # characters; a longer one is text


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
        yield from self.dropped
        if self.header is not None:
            yield from (*self.header.starts, self.header.end, self.header.closing)


def choose_channels(template: str) -> Channels:
    """What the model of this chat template uses; of plain reasoning every way, since templates may not show it."""
    if all(text in template for text in (HARMONY.starts[0], HARMONY.end)):
        return Channels(markers=(), header=HARMONY)
    return Channels(dropped=tuple(text for text in ANSWER_MARKERS if text in template))


def opens_reasoning(prompt: str) -> bool:
    """Whether a prompt ends with an opening marker, so that the model's output starts as reasoning."""
    end = prompt[-200:].rstrip()
    openings = [row.opening for row in MARKERS if row.channel is Channel.REASONING]
    return end.endswith((*openings, HARMONY.starts[1] + HARMONY.reasoning_words[0] + HARMONY.end))


class ChannelSplitter:
    """Takes an answer piece by piece, gives its text by channel."""

    def __init__(self, opens_reasoning: bool = False, channels: Channels | None = None) -> None:
        """``opens_reasoning``: the prompt ended inside the reasoning."""
        self._channels = channels or Channels()
        self._reasoning = tuple(row for row in self._channels.markers if row.channel is Channel.REASONING)
        header = self._channels.header
        self._header_markers = () if header is None else (*header.starts, header.end, header.closing)
        self._channel = Channel.REASONING if opens_reasoning else Channel.ANSWER
        # Of reasoning that the prompt opened, any family's end counts.
        self._closings = tuple(row.closing for row in self._reasoning) if opens_reasoning else ()
        self._held = ""
        self._follows_marker = opens_reasoning  # white space that comes next belongs to the marker
        self._has_said = False  # in this channel, since it began
        self._has_answered = False
        self._last_said = "\n"

    def push(self, text: str) -> list[tuple[Channel, str]]:
        """Text that became certain, in order, each with its channel."""
        self._held += text
        return self._take(is_end=False)

    def flush(self) -> list[tuple[Channel, str]]:
        """What was held back, at the end of the answer; a marker that never came to its end is text."""
        return self._take(is_end=True)

    def _take(self, is_end: bool) -> list[tuple[Channel, str]]:
        said: list[tuple[Channel, str]] = []
        while self._held:
            if self._follows_marker:
                self._held = self._held.lstrip()
            position, marker = self._next_marker()
            if not marker:
                keep = 0 if is_end else self._num_uncertain()
                self._say(len(self._held) - keep, said)
                return said
            if not self._is_complete(position, marker):
                if not is_end and len(self._held) - position <= _MAX_HEADER:
                    self._say(position, said)
                    return said
                self._say(position + len(marker), said)  # it is no header, but text
                continue
            self._say(position, said, before_marker=True)
            self._pass_marker(marker)
        return said

    def _say(self, length: int, said: list[tuple[Channel, str]], before_marker: bool = False) -> None:
        """Move ``length`` held characters to ``said``, without white space that only parts them from a marker."""
        text, self._held = self._held[:length], self._held[length:]
        if before_marker and (self._channel is not Channel.ANSWER or not (self._has_said or text.strip())):
            text = text.rstrip()
        if not text:
            return
        self._follows_marker = False
        self._has_said = True
        self._has_answered = self._has_answered or self._channel is Channel.ANSWER
        self._last_said = text[-1]
        if said and said[-1][0] is self._channel:
            text = said.pop()[1] + text
        said.append((self._channel, text))

    def _pass_marker(self, marker: str) -> None:
        """Take ``marker``, which comes next, out of the text and enter the channel that it leads to."""
        header = self._channels.header
        if header is not None and marker in header.starts:
            words, _, self._held = self._held[len(marker) :].partition(header.end)
            self._enter(_channel_of(header, words), (header.closing,))
            return
        self._held = self._held[len(marker) :]
        row = next((row for row in self._openings() if row.opening == marker), None)
        if row is not None:
            self._enter(row.channel, (row.closing,))
        else:
            self._enter(Channel.ANSWER, ())

    def _enter(self, channel: Channel, closings: tuple[str, ...]) -> None:
        self._channel = channel
        self._closings = closings
        self._follows_marker = True
        self._has_said = False

    def _is_complete(self, position: int, marker: str) -> bool:
        """Whether ``marker`` is no header, or one whose end has come."""
        header = self._channels.header
        return header is None or marker not in header.starts or self._held.find(header.end, position) >= 0

    # ------------------------------------------------------------------------------------------ finding markers

    def _openings(self) -> tuple[ChannelMarkers, ...]:
        """Markers that may open a channel here."""
        if self._channel is Channel.ANSWER:
            return tuple(row for row in self._channels.markers if not (row.at_start and self._has_answered))
        # A model may repeat the marker with which the prompt opened its reasoning.
        return self._reasoning if self._channel is Channel.REASONING and not self._has_said else ()

    def _candidates(self) -> tuple[str, ...]:
        dropped = self._channels.dropped if self._channel is Channel.ANSWER else ()
        return (*self._closings, *self._header_markers, *dropped, *(row.opening for row in self._openings()))

    def _next_marker(self) -> tuple[int, str]:
        """Position and text of the first marker that counts, the longest of several; text "" where none is."""
        found = (len(self._held), "")
        openings = {row.opening: row for row in self._openings()}
        for marker in self._candidates():
            position = self._held.find(marker)
            while position >= 0 and marker in openings and not self._may_open(openings[marker], position):
                position = self._held.find(marker, position + 1)
            if position >= 0 and (position, -len(marker)) < (found[0], -len(found[1])):
                found = position, marker
        return found

    def _may_open(self, row: ChannelMarkers, position: int) -> bool:
        """Reasoning opens a channel's text; a tool call starts a line."""
        before = self._held[:position]
        if row.at_start:
            return not self._has_said and not before.strip()
        return (self._last_said + before).rstrip(" ").endswith("\n") or not (self._has_said or before.strip())

    def _num_uncertain(self) -> int:
        """How many characters at the end are held back: they may start a marker, or be dropped before one."""
        longest = 0
        for marker in self._candidates():
            for length in range(min(len(marker) - 1, len(self._held)), longest, -1):
                if self._held.endswith(marker[:length]):
                    longest = length
                    break
        before = self._held[: len(self._held) - longest]
        if self._channel is not Channel.ANSWER or not (self._has_said or before.strip()):
            longest += len(before) - len(before.rstrip())
        return longest


def _channel_of(header: HeaderMarkers, words: str) -> Channel:
    """The channel that a header names."""
    if any(word in words for word in header.tool_words):
        return Channel.TOOL_CALL
    if any(word in words for word in header.reasoning_words):
        return Channel.REASONING
    return Channel.ANSWER
