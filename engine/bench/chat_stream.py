"""A long paste that is read beside a stream: how much slower the stream becomes, and how long the paste takes.

And how soon the reading of one stops.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence

from engine.bench.chat_run import OwnChat
from engine.protocol import Delta, Message, Priority, RequestFinished, RequestStarted, Role
from engine.sampling.params import SamplingParams

NUM_ALONE = 60  # pieces of the stream that are timed before the paste
WARM_UP = 5
NUM_STOPS = 9
STOP_AFTER_S = 0.05  # and as much later each time
STORY = (Message(Role.USER, "Write a long story about the sea, a lighthouse and a storm."),)

Piece = tuple[float, int]  # when it came, ``time.perf_counter`` seconds, and the tokens so far


def paste_beside_stream(own: OwnChat, num_tokens: int) -> dict[str, float]:
    """Times of a paste of about ``num_tokens``, and of the stream's tokens alone and beside it.

    Times between tokens are means, as a reader meets them; the median and the longest say how evenly they came.
    """
    name = _start_story(own)
    pieces: list[Piece] = []
    while len(pieces) < NUM_ALONE:
        now, event = own.next_event()
        if isinstance(event, Delta):
            pieces.append((now, event.num_completion_tokens))
    alone_s = _mean_gap([pieces[WARM_UP:]])
    started = time.perf_counter()
    reader = own.submit(_paste(1, num_tokens), 1, "paste", priority=Priority.NORMAL)
    stories: list[list[Piece]] = [[]]
    while True:
        now, event = own.next_event()
        if isinstance(event, Delta) and event.request_id == name:
            stories[-1].append((now, event.num_completion_tokens))
        if isinstance(event, RequestFinished):
            if event.request_id == reader:
                stats = event.stats
                break
            name = _start_story(own)
            stories.append([])
    own.abort(name)
    own.wait(name)
    beside_s = _mean_gap(stories)
    gaps = [b[0] - a[0] for story in stories for a, b in itertools.pairwise(story)]
    _, alone = own.ask(_paste(2, num_tokens), 1, "paste alone")
    return {
        "num_read_tokens": stats.num_read_tokens,
        "read_s": now - started,
        "read_alone_s": alone.first_token_ms / 1e3,
        "alone_ms": alone_s * 1e3,
        "beside_ms": beside_s * 1e3,
        "median_ms": statistics.median(gaps) * 1e3,
        "longest_ms": max(gaps) * 1e3,
        "ratio": beside_s / alone_s,
    }


def stops_while_reading(own: OwnChat, num_tokens: int) -> list[float]:
    """Milliseconds from a stop to the end of a request that was reading about ``num_tokens``, a figure each."""
    times = []
    for number in range(NUM_STOPS):
        name = own.submit(_paste(10 + number, num_tokens), 1, f"stopped {number}")
        while not isinstance(own.next_event()[1], RequestStarted):
            pass
        time.sleep(STOP_AFTER_S * (number + 1))
        stopped = time.perf_counter()
        own.abort(name)
        own.wait(name)
        times.append((time.perf_counter() - stopped) * 1e3)
    return times


def _start_story(own: OwnChat) -> str:
    # Not greedy: small models fall into loops, which speculation would run through.
    return own.submit(STORY, 0, "streaming", sampling=SamplingParams(temperature=1.0, seed=1))


def _paste(number: int, num_tokens: int) -> tuple[Message, ...]:
    return (Message(Role.USER, " ".join(str(n * 37 % 1000 + number) for n in range(num_tokens // 4))),)


def _mean_gap(stories: Sequence[Sequence[Piece]]) -> float:
    """Seconds between two tokens."""
    whole = [story for story in stories if len(story) > 1]
    return sum(each[-1][0] - each[0][0] for each in whole) / sum(each[-1][1] - each[0][1] for each in whole)
