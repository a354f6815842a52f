"""Random attention layers beside the NumPy definition.

    python -m tests.engine.kernels.cpu.attention_fuzz [--cases 2000] [--seed 1]

Heads, groups and sizes of heads of any number, windows, runs, caps, sinks and slopes, both types of cache, blocks
out of order, and several sequences that are read in parts of any size. What is read as a prompt must also be the
same to the bit in other parts and in other blocks. Each case is printed that fails; the tests run a few.
"""

from __future__ import annotations

import argparse
import random
import traceback
from collections import Counter
from collections.abc import Sequence

import numpy as np

from engine.kernels.cpu.layouts import TILE_ROWS
from tests.engine.kernels.cpu.attention_layer import NUM_BLOCKS, TOLERANCE, Layer
from tests.engine.kernels.cpu.support import Floats, vector

MAX_POSITIONS = 900  # of all sequences of a case
SIZES = (1, 1, 1, 2, 3, 7, 16, 17, 40, 64, 129, 300, 700)
GROUPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, TILE_ROWS + 1)
HEAD_SIZES = (1, 7, 8, 16, 24, 32, 33, 48, 64, 64, 72, 80, 96, 128, 128, 130, 192, 256)


def draw_case(rng: random.Random, groups: Sequence[int] = GROUPS) -> dict[str, object]:
    """What ``check_case`` takes; ``groups`` are how many heads may share keys."""
    kv_heads, group = rng.choice((1, 1, 2, 3, 4)), rng.choice(groups)
    key_dim = rng.choice(HEAD_SIZES)
    options: dict[str, object] = {}
    if rng.random() < 0.4:
        options["window"] = rng.choice((1, 2, 15, 16, 17, 100, 128, 129, 500))
    if rng.random() < 0.2:
        options["chunk"] = rng.choice((8, 24, 128, 300))
    if rng.random() < 0.3:
        options["soft_cap"] = rng.choice((2.5, 50.0))
    for name in ("sinks", "slopes"):
        if rng.random() < 0.2:
            options[name] = True
    return {
        "heads": kv_heads * group,
        "kv_heads": kv_heads,
        "key_dim": key_dim,
        "value_dim": key_dim if rng.random() < 0.6 else rng.choice(HEAD_SIZES),
        "kv_type": rng.choice(("f16", "q8_0")),
        "num_threads": rng.choice((1, 2, 3)),
        "options": options,
        "lengths": _lengths(rng),
        "loudest": rng.choice((1.0, 1.0, 30.0)),  # of a column of keys and values
        "seed": rng.randrange(1 << 30),
    }


def _lengths(rng: random.Random) -> list[int]:
    count = rng.choice((1, 1, 2, 3))
    return [rng.randrange(1, MAX_POSITIONS // count) for _ in range(count)]


def check_case(case: dict[str, object]) -> None:
    """Raises AssertionError where the backend differs from the definition, or a prompt from itself."""
    rng = random.Random(case["seed"])
    names = ("heads", "kv_heads", "key_dim", "value_dim", "num_threads", "kv_type")
    numbers = np.random.default_rng(case["seed"])
    layer = Layer(**{name: case[name] for name in names}, **_options(case, numbers))
    try:
        lengths, loudest = case["lengths"], case["loudest"]
        rows = [_rows(layer, length, loudest, numbers) for length in lengths]
        for sequence, (query, key, value) in enumerate(rows):
            layer.expect(sequence, 0, query, key, value)
        expected = [layer.expect(sequence, 0, *of) for sequence, of in enumerate(rows)]
        _compare(_read(layer, rows, rng, is_prompt=False), expected, TOLERANCE * loudest)
        prompts = [_read(layer, rows, rng, is_prompt=True) for _ in range(2)]
        _compare(prompts[0], expected, TOLERANCE * loudest)
        for one, other in zip(*prompts, strict=True):
            np.testing.assert_array_equal(one, other)
    finally:
        layer.backend.close()


def _options(case: dict[str, object], numbers: np.random.Generator) -> dict[str, object]:
    options = dict(case["options"])
    if "sinks" in options:
        options["sinks"] = vector(numbers.standard_normal(case["heads"]).astype(np.float32) * 4, "sinks")
    if "slopes" in options:
        options["slopes"] = vector(numbers.random(case["heads"]).astype(np.float32) / 8, "slopes")
    return options


def _rows(layer: Layer, length: int, loudest: float, numbers: np.random.Generator) -> list[Floats]:
    """Queries, keys and values of a sequence, one column of the latter louder than the rest."""
    buffers = (layer.query, layer.key, layer.value)
    query, key, value = (numbers.standard_normal((length, buffer.width), np.float32) for buffer in buffers)
    for column in (key[:, 0], value[:, -1]):
        column *= loudest
    query[:, :: layer.kv.key_dim] /= loudest
    return [query, key, value]


def _read(layer: Layer, rows: list[list[Floats]], rng: random.Random, is_prompt: bool) -> list[Floats]:
    """The results of all sequences, each read in random parts, some side by side, into random blocks."""
    order = list(range(NUM_BLOCKS))
    rng.shuffle(order)
    tables = []
    for query, _, _ in rows:
        count = -(-len(query) // 16)
        tables.append(np.array(order[:count], np.int32))
        order = order[count:]
    results = [np.empty((len(query), layer.out.width), np.float32) for query, _, _ in rows]
    done = [0] * len(rows)
    while unread := [sequence for sequence, of in enumerate(rows) if done[sequence] < len(of[0])]:
        chosen = rng.sample(unread, rng.randint(1, len(unread)))
        parts = [
            (sequence, done[sequence], min(rng.choice(SIZES), len(rows[sequence][0]) - done[sequence]))
            for sequence in chosen
        ]
        step = [
            np.concatenate([rows[sequence][kind][start : start + count] for sequence, start, count in parts])
            for kind in range(3)
        ]
        out, first = layer.run(*step, [(*part, tables[part[0]]) for part in parts], is_prompt), 0
        for sequence, start, count in parts:
            results[sequence][start : start + count] = out[first : first + count]
            first, done[sequence] = first + count, start + count
    return results


def _compare(results: list[Floats], expected: list[Floats], tolerance: float) -> None:
    for result, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, right, rtol=TOLERANCE, atol=tolerance)


def main() -> None:
    parser = argparse.ArgumentParser(description="Random attention layers.")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    outcomes: Counter[str] = Counter()
    for _ in range(arguments.cases):
        case = draw_case(rng)
        try:
            check_case(case)
            outcomes["right"] += 1
        except Exception:
            outcomes["wrong"] += 1
            print(case, traceback.format_exc(limit=-1)[-600:], sep="\n", flush=True)
    print(dict(outcomes))


if __name__ == "__main__":
    main()
