"""A thousand random steps of an impatient person: nothing crashes, no two answers mix, nothing is lost."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from app.engine_client import FRAME_MS
from app.storage.records import MessageStatus
from engine.protocol import Role
from tests.app.conftest import Bench, BenchMaker


class _Impatient:
    """Sends, stops, switches, edits and deletes; the engine says each request's own id."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench, self.random = bench, random.Random(seed)
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        controller = self.bench.controller
        actions = (
            self._send, self._send, controller.stop, controller.new_conversation, self._switch, self._regenerate,
            self._edit, self._sibling, self._delete, self._speak, self._speak, self._speak, self._finish,
            self._pump, self._be_patient,
        )  # fmt: skip
        action = self.random.choice(actions)
        self.counts[action.__name__] += 1
        action()

    def _send(self) -> None:
        self.bench.controller.send(f"question {self.random.random()}")

    def _switch(self) -> None:
        if records := self.bench.controller.conversations:
            self.bench.controller.open_conversation(self.random.choice(records).id)

    def _some_message(self) -> str:
        views = self.bench.controller.current_messages
        return self.random.choice(views).record.id if views else "none"

    def _regenerate(self) -> None:
        self.bench.controller.regenerate(self._some_message())

    def _edit(self) -> None:
        self.bench.controller.edit_and_resend(self._some_message(), "edited")

    def _sibling(self) -> None:
        self.bench.controller.select_sibling(self._some_message(), self.random.choice((-1, 1)))

    def _delete(self) -> None:
        deleted_id = self.bench.controller.current_id
        self.bench.controller.delete_conversations([deleted_id])
        if self.random.random() < 0.8:
            self.bench.controller.restore_conversations([deleted_id])

    def _speak(self) -> None:
        for request in self.bench.engine.requests:
            self.bench.engine.say(request.request_id, f"<{request.request_id}>")

    def _finish(self) -> None:
        if self.bench.engine.requests:
            self.bench.engine.finish(self.random.choice(self.bench.engine.requests).request_id)

    def _pump(self) -> None:
        self.bench.qtbot.wait(self.random.choice((0, 1, 10)))

    def _be_patient(self) -> None:
        """Wait until each answer has begun and shows a word, however slow the disk is."""
        controller, engine = self.bench.controller, self.bench.engine
        self.bench.qtbot.waitUntil(
            lambda: controller.generating_ids <= {request.conversation_id for request in engine.requests},
        )
        self._speak()
        self.bench.qtbot.wait(2 * FRAME_MS)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_thousand_random_steps(make_bench: BenchMaker, seed: int) -> None:
    bench = make_bench()
    person = _Impatient(bench, seed)
    for _ in range(1000):
        person.step()
    assert len(person.counts) == 12
    for request in list(bench.engine.requests):
        bench.engine.finish(request.request_id)
    bench.qtbot.waitUntil(lambda: _all_ended(bench))

    bench.settle()
    expected = {}
    speakers: Counter[str] = Counter()
    for record in bench.controller.conversations:
        bench.controller.open_conversation(record.id)
        stored = bench.context.store.read_messages(record.id)
        expected[record.id] = stored
        for message in stored:
            assert message.status is not MessageStatus.INTERRUPTED
            if message.role is Role.ASSISTANT and message.content != "edited":
                said = set(message.content.replace("<", "").split(">")) - {""}
                assert len(said) <= 1, "two requests wrote into one answer"
                speakers.update(said)
    assert set(speakers.values()) == {1}, "one request wrote into two answers"
    assert len(expected) > 3
    make_bench.close(bench)
    again = make_bench()
    assert {
        record.id: again.context.store.read_messages(record.id) for record in again.controller.conversations
    } == (expected)


def _all_ended(bench: Bench) -> bool:
    for request in list(bench.engine.requests):
        bench.engine.finish(request.request_id)
    return not bench.controller.generating_ids
