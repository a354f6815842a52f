"""How much a template may do: text, memory, nesting and time.

Every hook of the sandbox reports here. The sum of all that is allowed bounds the whole render, because no single
operation between two reports costs more than its operands, which were measured when they came into being.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from jinja2.utils import Namespace

from engine.chat.content import track
from engine.errors import TemplateError

_TEXT_ROOM: Final = 2**20  # characters of one string, beyond those that the content needs
_MEMORY_ROOM: Final = 2**27  # bytes of all strings and lists made
_TIME_S: Final = 2.0  # of the processor: a template is not to blame for what other programs do, or for a sleep
_MAX_ITEMS: Final = 100_000  # of one list
_MAX_NODES: Final = 250_000  # of one nested value, counted as often as it would be printed
_MAX_INTEGER_BITS: Final = 4_096
_TICKS_PER_LOOK: Final = 256
_CHARACTERS_PER_TICK: Final = 1_024


def _attributes(namespace: Namespace) -> dict[str, Any]:
    """What a template stored in a ``namespace()``, which lets nobody else look."""
    found: dict[str, Any] = object.__getattribute__(namespace, "_Namespace__attrs")
    return found


class RenderLimitError(TemplateError):
    """A template wants more than it may have; nothing mends that."""


class Budget:
    """What one render may still use; once exceeded, every further report raises ``RenderLimitError``.

    It belongs to the thread that makes it, whose time on the processor counts.
    """

    def __init__(self, num_content_characters: int = 0, time_s: float = _TIME_S) -> None:
        """``num_content_characters``: of all messages; the limits grow with them."""
        self.max_text = _TEXT_ROOM + 8 * num_content_characters
        self._memory_bytes = _MEMORY_ROOM + 256 * num_content_characters
        self._ends_s = time.thread_time() + time_s + num_content_characters / 1e6
        self._ticks = 0

    def tick(self, count: int = 1) -> None:
        """Report ``count`` small steps."""
        before = self._ticks // _TICKS_PER_LOOK
        self._ticks += count
        if self._ticks // _TICKS_PER_LOOK != before and time.thread_time() > self._ends_s:
            self._ticks = 0
            self._memory_bytes = -1
            raise RenderLimitError("the chat template takes too long")

    def reserve(self, num_bytes: int) -> None:
        """Report memory that is about to be used."""
        self._memory_bytes -= num_bytes
        if self._memory_bytes < 0:
            raise RenderLimitError("the chat template takes too much memory or time")

    def reserve_text(self, length: int) -> None:
        """Report a string of ``length`` characters that is about to be made."""
        if length > self.max_text:
            raise RenderLimitError(f"the chat template makes a text of {length:,} characters")
        self.reserve(length)

    def reserve_items(self, length: int) -> None:
        """Report a list of ``length`` items that is about to be made."""
        if length > _MAX_ITEMS:
            raise RenderLimitError(f"the chat template makes a list of {length:,} items")
        self.reserve(length * 8)

    def reserve_integer(self, num_bits: int) -> None:
        """Report an integer of up to ``num_bits`` that is about to be made."""
        if num_bits > _MAX_INTEGER_BITS:
            raise RenderLimitError("the chat template computes an enormous number")

    def admit(self, value: Any) -> Any:
        """Take a value that an operation gave into account; text comes back able to tell content."""
        self.measure(value)
        if isinstance(value, str):
            self.reserve_text(len(value))
            self.reserve(sys.getsizeof(value) - len(value))
            return track(value)
        if isinstance(value, (list, tuple, dict)):
            self.reserve_items(len(value))
        return value

    def measure(self, value: Any) -> None:
        """Walk a nested value; raises where printing or comparing it would be out of bounds."""
        if isinstance(value, str):
            self.tick(1 + len(value) // _CHARACTERS_PER_TICK)
            return
        if not isinstance(value, (list, tuple, dict, Namespace)):
            self.tick()
            return
        nodes, characters = 0, 0
        stack: list[Iterator[Any]] = [iter((value,))]
        while stack:
            for item in stack[-1]:
                nodes += 1
                if isinstance(item, str):
                    characters += len(item)
                elif isinstance(item, (list, tuple)):
                    stack.append(iter(item))
                    break
                elif isinstance(item, dict):
                    stack.append(iter([*item.keys(), *item.values()]))
                    break
                elif isinstance(item, Namespace):
                    stack.append(iter(list(_attributes(item).values())))
                    break
            else:
                stack.pop()
            if nodes > _MAX_NODES or characters > self.max_text or len(stack) > 100:
                raise RenderLimitError("the chat template makes an enormous value")
        self.tick(nodes)
