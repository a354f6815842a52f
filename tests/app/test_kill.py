from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.storage.records import MessageStatus
from tests.app.conftest import BenchMaker

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a process cannot be killed this way here")
@pytest.mark.parametrize("num_saves", [1, 3])
def test_a_killed_process_loses_nothing_that_was_saved(make_bench: BenchMaker, num_saves: int) -> None:
    home = make_bench.paths.models.parent
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.app.streaming_process", str(home)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    saves = [process.stdout.readline() for _ in range(num_saves)]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert all(saves)

    bench = make_bench()
    question, answer = (view.record for view in bench.controller.current_messages)
    assert (question.content, question.status) == ("Count", MessageStatus.COMPLETE)
    assert answer.status is MessageStatus.INTERRUPTED
    assert answer.content.startswith(saves[-1].rstrip())
    numbers = [int(number) for number in answer.content.split()]
    assert numbers == list(range(len(numbers)))
    bench.ask("go on", "fine")
    assert bench.engine.requests == []
    assert [record.status for record in bench.context.store.read_messages(bench.controller.current_id)][1] is (
        MessageStatus.INTERRUPTED
    )
    assert bench.controller.model_info is not None, (
        "a model that the person names is loaded after an unclean end, too"
    )
