"""Loads, uses and ejects a model again and again: ``python -m tests.engine.eject_process MODEL ROUNDS``.

Prints a line of JSON for each round: resident megabytes when the model has read a long prompt, and when it is
ejected and the memory has had a moment to go back; the tokens it read, and how often the file is still mapped.
"""

from __future__ import annotations

import json
import queue
import sys
import time
from pathlib import Path
from typing import TypeVar

import psutil

from engine import EngineConfig, EngineThread
from engine import protocol as p

_GIVEN_S = 5.0
_T = TypeVar("_T")


def _rss_mb() -> float:
    return float(psutil.Process().memory_info().rss / 1e6)


def _settled_mb() -> float:
    """The least that is held within the time that the memory has to go back."""
    ends = time.monotonic() + _GIVEN_S
    least = _rss_mb()
    while time.monotonic() < ends:
        time.sleep(0.1)
        now = _rss_mb()
        if now > least - 1:
            return min(now, least)
        least = now
    return least


def _mapped(model: Path) -> int:
    try:
        return Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").count(model.name)
    except OSError:
        return 0


def main() -> None:
    """Do the rounds."""
    model, rounds = Path(sys.argv[1]), int(sys.argv[2])
    events: queue.Queue[p.Event] = queue.Queue()
    engine = EngineThread(events.put, EngineConfig())
    engine.start()

    def wait_for(kind: type[_T]) -> _T:
        while not isinstance(event := events.get(timeout=120), kind):
            assert not isinstance(event, p.ModelLoadFailed | p.RequestFailed), event
        return event

    for number in range(rounds):
        engine.submit(p.LoadModel(model, context_length=4096))
        wait_for(p.ModelLoaded)
        message = p.Message(p.Role.USER, "word " * 2000)
        engine.submit(p.GenerateRequest(f"r{number}", (message,), max_tokens=4))
        stats = wait_for(p.RequestFinished).stats
        used = _rss_mb()
        engine.submit(p.EjectModel())
        wait_for(p.ModelEjected)
        left = _settled_mb()
        figures = {"used_mb": used, "left_mb": left, "tokens": stats.num_prompt_tokens, "mapped": _mapped(model)}
        print(json.dumps(figures), flush=True)
    engine.stop()


if __name__ == "__main__":
    main()
