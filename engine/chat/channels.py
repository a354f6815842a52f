"""Splits a streamed answer into what the model thinks, what it says, and what it calls.

Markers are taken out of the text, whole and only whole: a piece that may be the beginning of one is held back until
it is clear. All other text is passed on, except white space next to a marker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.chat.channel_markers import ChannelMarkers, Channels, HeaderMarkers
from engine.protocol import Channel, Tool, ToolCall

_MAX_HEADER: Final = 200  # characters; a longer one is text


class ChannelSplitter:
    """Takes an answer piece by piece, gives its text by channel."""

    def __init__(
        self,
        opens_reasoning: bool = False,
        channels: Channels | None = None,
        *,
        opens_header: bool = False,
        tools: Sequence[Tool] = (),
    ) -> None:
        """``opens_reasoning``, ``opens_header``: the prompt ended inside it. ``tools``: those offered."""
        channels = channels or Channels()
        self._channels = channels
        self._tools = tools
        self._markers = tuple(row for row in channels.markers if tools or not row.sign)
        self._first_characters = frozenset(text[0] for text in channels.texts() if text)
        self._reasoning = tuple(row for row in channels.markers if row.channel is Channel.REASONING)
        header = channels.header
        self._header_markers = () if header is None else tuple(filter(None, (*header.starts, header.closing)))
        self._channel = Channel.REASONING if opens_reasoning else Channel.ANSWER
        # Of reasoning that the prompt opened, any family's end counts.
        self._closings = tuple(row.closing for row in self._reasoning) if opens_reasoning else ()
        self._held = ""
        self._follows_marker = opens_reasoning  # white space that comes next belongs to the marker
        self._is_in_header = opens_header
        self._has_said = False  # in this channel, since it began
        self._has_answered = False
        self._last_said = "\n"
        self._block: list[str] = []  # what was said of the tool call that is being written
        self._callee = ""  # whose name came in its header
        self._calls: list[ToolCall] = []

    def push(self, text: str) -> list[tuple[Channel, str]]:
        """Text that became certain, in order, each with its channel."""
        self._held += text
        return self._take(is_end=False)

    def flush(self) -> list[tuple[Channel, str]]:
        """What was held back, at the end of the answer; a marker that never came to its end is text."""
        said = self._take(is_end=True)
        self._end_block()
        return said

    def take_calls(self) -> list[ToolCall]:
        """The calls that became complete since this was asked last."""
        calls, self._calls = self._calls, []
        return calls

    def _take(self, is_end: bool) -> list[tuple[Channel, str]]:
        said: list[tuple[Channel, str]] = []
        while self._held:
            if self._is_in_header and not self._pass_open_header(is_end):
                return said
            if self._follows_marker:
                self._held = self._held.lstrip()
            can_begin = not self._first_characters.isdisjoint(self._held)  # most pieces of an answer cannot
            position, marker = self._next_marker() if can_begin else (0, "")
            if not marker:
                keep = 0 if is_end else self._num_uncertain() if can_begin else self._num_dropped(self._held)
                self._say(len(self._held) - keep, said)
                return said
            if not self._is_complete(position, marker):
                if not is_end and self._may_become_complete(position):
                    self._say(position - self._num_dropped(self._held[:position]), said)
                    return said
                self._say(position + len(marker), said)  # it is no header, but text
                continue
            self._say(position, said, before_marker=True)
            self._pass_marker(marker)
        return said

    def _say(self, length: int, said: list[tuple[Channel, str]], before_marker: bool = False) -> None:
        """Move ``length`` held characters to ``said``, without white space that only parts them from a marker."""
        text, self._held = self._held[:length], self._held[length:]
        if before_marker:
            text = text[: len(text) - self._num_dropped(text)]
        if not text:
            return
        self._follows_marker = False
        self._has_said = True
        self._has_answered = self._has_answered or self._channel is Channel.ANSWER
        self._last_said = text[-1]
        if self._channel is Channel.TOOL_CALL:
            self._block.append(text)
        if said and said[-1][0] is self._channel:
            text = said.pop()[1] + text
        said.append((self._channel, text))

    def _pass_marker(self, marker: str) -> None:
        """Take ``marker``, which comes next, out of the text and enter the channel that it leads to."""
        header = self._channels.header
        if header is not None and marker in header.starts:
            self._pass_header(header, len(marker))
            return
        row = next((row for row in self._openings() if row.opening == marker), None)
        if row is None or not row.keeps_opening:
            self._held = self._held[len(marker) :]
        if row is not None:
            self._enter(row.channel, (row.closing,) if row.closing else ())
        else:
            self._enter(Channel.ANSWER, ())

    def _pass_header(self, header: HeaderMarkers, start: int) -> None:
        """Take the header whose words begin at ``start`` out of the text and enter the channel that it names."""
        words, _, self._held = self._held[start:].partition(header.end)
        callee = header.callee.search(words)
        if callee is not None:
            self._enter(Channel.TOOL_CALL, tuple(filter(None, (header.closing,))), callee[1])
        elif any(word in words for word in header.reasoning_words):
            self._enter(Channel.REASONING, tuple(filter(None, (header.closing,))))
        else:
            self._enter(Channel.ANSWER, tuple(filter(None, (header.closing,))))

    def _pass_open_header(self, is_end: bool) -> bool:
        """Deal with a header that the prompt opened; False where more text is needed."""
        header = self._channels.header
        assert header is not None, "only with a header a prompt can end inside one"
        if header.end in self._held[:_MAX_HEADER]:
            self._is_in_header = False
            if header.begun.fullmatch(self._held):
                self._pass_header(header, 0)
            return True
        self._is_in_header = (
            not is_end and len(self._held) <= _MAX_HEADER and bool(header.begun.fullmatch(self._held))
        )
        return not self._is_in_header

    def _end_block(self) -> None:
        """Read the calls of the tool call that ends here."""
        if self._channel is Channel.TOOL_CALL:
            from engine.chat.tool_calls import parse_calls  # a chat without calls does not pay for it

            self._calls += parse_calls("".join(self._block), self._tools, self._callee)
        self._block.clear()

    def _enter(self, channel: Channel, closings: tuple[str, ...], callee: str = "") -> None:
        self._end_block()
        self._channel = channel
        self._callee = callee
        self._closings = closings
        self._follows_marker = True
        self._has_said = False

    def _num_dropped(self, text: str) -> int:
        """White space at the end of ``text`` that only parts it from a marker after it."""
        is_dropped = self._channel is not Channel.ANSWER or not (self._has_said or text.strip())
        return len(text) - len(text.rstrip()) if is_dropped else 0

    def _is_complete(self, position: int, marker: str) -> bool:
        """Whether ``marker`` is no header, or one whose end has come soon enough."""
        header = self._channels.header
        if header is None or marker not in header.starts:
            return True
        return self._held.find(header.end, position, position + _MAX_HEADER + len(header.end)) >= 0

    def _may_become_complete(self, position: int) -> bool:
        """Whether the end of the header at ``position`` may still come."""
        header = self._channels.header
        return header is not None and len(self._held) - position < _MAX_HEADER + len(header.end)

    # ------------------------------------------------------------------------------------------ finding markers

    def _openings(self) -> tuple[ChannelMarkers, ...]:
        """Markers that may open a channel here."""
        if self._channel is Channel.ANSWER:
            return tuple(row for row in self._markers if not (row.at_start and self._has_answered))
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
        """Reasoning opens a channel's text; a tool call starts a line, unless tools were offered."""
        before = self._held[:position]
        if row.at_start:
            return not self._has_said and not before.strip()
        if self._tools:
            return True
        return (self._last_said + before).rstrip(" ").endswith("\n") or not (self._has_said or before.strip())

    def _num_uncertain(self) -> int:
        """How many characters at the end are held back: they may start a marker, or be dropped before one."""
        longest = 0
        for marker in self._candidates():
            for length in range(min(len(marker) - 1, len(self._held)), longest, -1):
                if self._held.endswith(marker[:length]):
                    longest = length
                    break
        return longest + self._num_dropped(self._held[: len(self._held) - longest])
