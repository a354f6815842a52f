"""``engine.plain_data``: the same classes as the standard library's, made later."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from dataclasses import field
from typing import Any, ClassVar

import pytest

from engine.plain_data import dataclass


def _plain_twins(decorate: Any) -> tuple[Any, Any, Any, Any]:
    @decorate(frozen=True)
    class Base:
        """Has a doc."""

        name: str
        kind: ClassVar[str] = "base"
        parts: tuple[int, ...] = ()
        words: list[str] = field(default_factory=list, compare=False)

    @decorate(frozen=True)
    class Sub(Base):
        weight: float = 1.0

        def __post_init__(self) -> None:
            if self.weight < 0:
                raise ValueError("negative")

    @decorate
    class Open:
        count: int = 3

    @decorate(frozen=True, order=True)
    class Ordered:
        number: int
        label: str = field(default="", compare=False)

        def __repr__(self) -> str:
            return f"<{self.number}>"

    return Base, Sub, Open, Ordered


@pytest.mark.parametrize("decorate", [dataclass, dataclasses.dataclass], ids=["late", "standard"])
def test_behaves_like_a_dataclass(decorate: Any) -> None:
    base, sub, opened, ordered = _plain_twins(decorate)
    one = sub("a", (1,), weight=2.0)
    assert repr(one).endswith("Sub(name='a', parts=(1,), words=[], weight=2.0)")
    assert one == sub("a", (1,), ["other"], 2.0) != sub("b")
    assert hash(one) == hash(sub("a", (1,), [], 2.0))
    assert [each.name for each in dataclasses.fields(one)] == ["name", "parts", "words", "weight"]
    assert dataclasses.replace(one, weight=3.0).weight == 3.0
    assert base("a").words is not base("a").words
    assert base("x") == base("x")
    assert base.kind == "base"
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "c"
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.other = "c"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.name
    with pytest.raises(ValueError, match="negative"):
        sub("a", weight=-1)
    with pytest.raises(TypeError):
        sub()
    match one:
        case base(name, parts):
            assert (name, parts) == ("a", (1,))
        case _:
            raise AssertionError("no match")
    changed = opened()
    changed.count += 1
    assert changed == opened(4)
    with pytest.raises(TypeError, match="unhashable"):
        hash(changed)
    assert ordered(1, "x") < ordered(2)
    assert ordered(1, "x") == ordered(1)
    assert repr(max(ordered(3), ordered(2))) == "<3>"
    assert ordered.label == ""
    assert not hasattr(base, "words")


@dataclass(frozen=True, eq=False)
class Sent:
    number: int


def test_goes_through_pickle_and_stays_itself_without_eq() -> None:
    sent = Sent(4)
    assert pickle.loads(pickle.dumps(sent)).number == 4
    assert sent != Sent(4)


def test_threads_that_call_a_class_at_the_same_time() -> None:
    for _ in range(30):

        @dataclass(frozen=True)
        class Shared:
            number: int
            name: str = ""

        gate = threading.Barrier(4)
        made: list[Any] = []

        def work(cls: type = Shared, gate: threading.Barrier = gate, made: list[Any] = made) -> None:
            gate.wait()
            made.append(cls(1, name="x"))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [Shared(1, "x")] * 4


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(TypeError, match="slots"):

        @dataclass(slots=True)
        class WithSlots:
            number: int

    with pytest.raises(TypeError, match="of its own"):

        @dataclass
        class WithInit:
            def __init__(self) -> None: ...
