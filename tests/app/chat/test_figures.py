from __future__ import annotations

import pytest

from app.chat.figures import cost_line, reading_line, seconds, size, statistics_line, tokens
from tests.app.fake_controller import STATS


def test_the_line_under_an_answer() -> None:
    assert statistics_line(STATS) == "312 tok/s · first word 0.06 s · 1,148 reused, 56 read · seed 1"
    assert statistics_line({**STATS, "num_reused_tokens": 0, "tokens_per_second": 4.26}) == (
        "4.3 tok/s · first word 0.06 s · 1,204 read · seed 1"
    )
    from_disk = statistics_line({**STATS, "num_snapshot_tokens": 1100})
    assert from_disk.endswith("1,148 reused from the disk, 56 read · seed 1")
    evicted = {**STATS, "reread_reason": "evicted", "num_reread_tokens": 40}
    assert statistics_line(evicted).endswith("56 read · 40 again, for the memory was needed · seed 1")
    assert statistics_line({**evicted, "reread_reason": "from the future"}).endswith("56 read · seed 1")
    shifted = {**STATS, "reread_reason": "context_shifted", "num_read_tokens": 389, "num_reread_tokens": 333}
    assert statistics_line(shifted).endswith(
        "1,148 reused, 389 read · 333 again, for the oldest turns left the context · seed 1"
    )
    assert statistics_line(None) == ""
    assert statistics_line({"tokens_per_second": "damaged"}) == ""


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [(60, "0.06 s"), (2000, "2 s"), (2400, "2.4 s"), (42_000, "42 s"), (84_000, "1 min 24 s")],
)
def test_durations(milliseconds: float, words: str) -> None:
    assert seconds(milliseconds) == words


def test_sizes() -> None:
    assert [size(num_bytes) for num_bytes in (12_345, 98_000_000, 2_540_000_000)] == ["12 kB", "98 MB", "2.5 GB"]


def test_what_is_being_read() -> None:
    assert reading_line(0, 1204, 0) == "reading 1,204 tokens"
    assert reading_line(612, 1204, 0) == "reading 612 of 1,204 tokens"
    assert reading_line(612, 1204, 100) == "reading 512 of 1,104 tokens · 100 reused"
    assert reading_line(1204, 1204, 1148) == "read 56 tokens · 1,148 reused"
    assert tokens(1) == "1 token"


def test_what_a_message_would_cost() -> None:
    assert cost_line(1, 0.0001, 0.4) == "1 token"
    assert cost_line(1204, 0.147, 2.6) == "1,204 tokens · 15 % of the context · about 3 s to read"
    estimate = cost_line(987_654, 482.3, 0.0, is_estimate=True)
    assert estimate == "about 990,000 tokens · 48,230 % of the context"
    assert cost_line(90_000, 11.0, 0.0) == "90,000 tokens · 1,100 % of the context"
