"""Which buffers of a plan may lie in the same memory: those that are never needed at the same time.

A buffer is needed from an op that writes it, without reading it, to the last op that reads what was written. The
quantised form of a buffer is needed from the first to the last matmul that reads it. Most of a step's memory is
that of a feed-forward network, beside which the buffers of attention then cost nothing.

Places are found first fit, the largest buffer first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from engine.kernels.cpu.formats import ActivationFormat, activation_bytes, activation_format
from engine.kernels.cpu.lowering.fusion import inputs
from engine.kernels.cpu.memory import Memory, Place
from engine.model.plan import Buffer, MatMul, Plan

Key = Buffer | tuple[Buffer, ActivationFormat]  # a buffer, or its quantised form

_ALIGNMENT = 64


@dataclass(frozen=True)
class Shares:
    """What lies where.

    Attributes:
        places: of buffers and of their quantised forms, in one piece of memory.
        others: for each of them, those that lie in a part of its memory.
    """

    places: dict[Key, Place]
    others: dict[Key, frozenset[Key]]


def share_memory(plan: Plan, memory: Memory) -> Shares:
    """Places for the buffers of a plan that have a row for each token or pair."""
    needed = dict(_needed(plan))
    sizes = {key: _num_bytes(key, memory) for key in needed}
    places: dict[Key, Place] = {}
    for key in sorted(needed, key=lambda each: -sizes[each]):
        taken = sorted(place for other, place in places.items() if needed[key] & needed[other])
        start = 0
        for place in taken:
            if start + sizes[key] <= place.start:
                break
            start = max(start, place.end)
        places[key] = Place(start, start + sizes[key])
    others = {
        key: frozenset(other for other, there in places.items() if other != key and here.overlaps(there))
        for key, here in places.items()
    }
    return Shares(places, others)


def _num_bytes(key: Key, memory: Memory) -> int:
    if isinstance(key, Buffer):
        num_bytes = 4 * key.width * memory.rows_of(key)
    else:
        buffer, form = key
        num_bytes = activation_bytes(form, buffer.width, memory.rows_of(buffer))
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT


def _needed(plan: Plan) -> Iterator[tuple[Key, int]]:
    """Each buffer and quantised form with the ops that need it, op i as bit i.

    Left out are those that a step may find filled, because an op reads them before any writes them.
    """
    events: dict[Buffer, list[tuple[int, bool]]] = defaultdict(list)  # (op, whether it reads)
    quantized: dict[tuple[Buffer, ActivationFormat], list[int]] = defaultdict(list)
    for index, op in enumerate(plan.ops):
        reads, out = inputs(op), getattr(op, "out", None)
        for buffer in {*reads, *([] if out is None else [out])}:
            events[buffer].append((index, buffer in reads))
        if isinstance(op, MatMul):
            quantized[op.x, activation_format(op.weight.type)].append(index)
    for buffer, own in events.items():
        if buffer.rows == "logits" or own[0][1]:
            continue
        spans = _spans(own)
        yield buffer, sum(_bits(*span) for span in spans)
        for key, matmuls in quantized.items():
            if key[0] == buffer:
                within = ([index for index in matmuls if first <= index <= last] for first, last in spans)
                yield key, sum(_bits(indices[0], indices[-1]) for indices in within if indices)


def _spans(events: list[tuple[int, bool]]) -> list[tuple[int, int]]:
    """(first, last) op of each time that what is written is needed."""
    spans: list[tuple[int, int]] = []
    for index, is_read in events:
        spans = [*spans[:-1], (spans[-1][0], index)] if is_read else [*spans, (index, index)]
    return spans


def _bits(first: int, last: int) -> int:
    return (1 << last + 1) - (1 << first)
