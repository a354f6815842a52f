"""Tiny models of other seeds than the goldens': the CPU backend beside exact, beside its rounding, and a peer.

    python -m tests.engine.kernels.cpu.model_seeds [--seeds 4] [--first 1] [--peer] [NAME ...]

A name is a golden's, or one with ``_q8`` after it; without names all architectures, as stored and in Q8_0. Each
figure is the root mean square difference of log-probabilities from those of exact activations, as a share of their
spread: of the CPU backend reading a prompt, and in parts; of the reference backend that rounds activations to 8
bits (``rounded_reference``); with ``--peer`` of llama.cpp from its wheel, on the same files.

What the rounding costs depends on the model, not on the kernels: 1 to 3 % for most, 6 to 10 % where gated delta
rules norm what they read twice, and beyond any bound where a choice of experts is so near a tie that rounding
decides it. Only the positions before the first such tie are judged; a model is wrong where the backend is farther
off there than its rounding explains.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.errors import EngineError
from engine.gguf import open_model
from engine.kernels.backend import Backend, SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.kernels.definitions import route
from engine.model import load_plan
from engine.model.plan import Plan
from tests.engine.kernels.cpu.rounded_reference import RoundedReference, RoutedReference
from tests.golden_models import golden_names, golden_of, write_seeded_model

MOST_RATIO = 1.3  # of the backend's difference to that of the rounding alone
FLOOR = 2e-3  # what 16-bit keys and values, and tables of functions, may cost beside
PARTS = ((0, 11), (11, 12), (12, 20), (20, 24))
_TRIALS = 64  # of each choice of experts

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """Differences from exact of one model of one seed, as shares of the spread.

    Attributes:
        rounded: what rounding activations makes.
        whole, parts: of the CPU backend, the prompt read at once and in parts.
        peer: of llama.cpp, where it was asked.
        num_judged: positions before the first whose experts rounding may decide.
        excess: of the backend's difference there over what rounding explains; at most 1 where it is right.
    """

    rounded: float
    whole: float
    parts: float
    peer: float | None
    num_judged: int
    excess: float


def measure(path: Path, token_ids: npt.NDArray[np.int32], has_peer: bool = False) -> Outcome:
    """Compute the model with each backend."""
    whole = ((0, len(token_ids)),)
    with open_model(path) as file:
        plan = load_plan(file, 64)[1]
        sizes: dict[str, Any] = {"num_blocks": 2, "max_batch_tokens": len(token_ids)}
        exact_backend = RoutedReference(plan, **sizes)
        rounded_backend = RoutedRounded(plan, kv_type="f16", **sizes)
        exact, rounded = (_run(each, token_ids, whole) for each in (exact_backend, rounded_backend))
        num_judged = _first_near_tie(exact_backend, rounded_backend, plan, len(token_ids))
        backend = CpuBackend(plan, num_threads=2, **sizes)
        own = [_run(backend, token_ids, parts) for parts in (whole, PARTS)]
        for each in (exact_backend, rounded_backend, backend):
            each.close()
        del plan, backend, exact_backend, rounded_backend, each
    peer = _peer_logits(path, token_ids) if has_peer else None
    spread = float(exact.std())

    def difference(logits: Doubles, end: int | None = None) -> float:
        squares = np.square(logits - exact)[:end]
        return float(np.sqrt(squares.mean())) / spread if squares.size else 0.0

    explained = MOST_RATIO * difference(rounded, num_judged) + FLOOR
    return Outcome(
        rounded=difference(rounded),
        whole=difference(own[0]),
        parts=difference(own[1]),
        peer=None if peer is None else difference(peer),
        num_judged=num_judged,
        excess=max(difference(logits, num_judged) for logits in own) / explained,
    )


class RoutedRounded(RoundedReference, RoutedReference):
    """Rounds, and keeps what its experts were chosen by."""


def _run(backend: Backend, token_ids: npt.NDArray[np.int32], parts: tuple[tuple[int, int], ...]) -> Doubles:
    """Log-probabilities at all positions."""
    table = np.array([1, 0], np.int32)
    if backend.state_bytes:
        backend.write_state(0, None)
    logits = [
        backend.run([SequenceSlice(token_ids[start:stop], start, table, logits="all")]).astype(np.float64)
        for start, stop in parts
    ]
    return _log_softmax(np.concatenate(logits))


def _log_softmax(logits: Doubles) -> Doubles:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: Doubles = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def _first_near_tie(exact: RoutedReference, rounded: RoutedReference, plan: Plan, num_tokens: int) -> int:
    """The first token that gets other experts when its logits move by about what rounding moves them."""
    random, first = np.random.default_rng(0), num_tokens
    for (op, logits), (_, moved) in zip(exact.routes, rounded.routes, strict=True):
        chosen = np.sort(route(logits, op, plan.num_experts_used)[0])
        noise = np.sqrt(np.mean(np.square(moved - logits)[:first])) * 3 if first else 0.0
        trials = [logits + noise * random.uniform(-1, 1, logits.shape).astype(np.float32) for _ in range(_TRIALS)]
        for trial in (moved, *trials):
            is_other = (np.sort(route(trial, op, plan.num_experts_used)[0]) != chosen).any(axis=-1)
            first = min(first, *np.flatnonzero(is_other), num_tokens)
    return int(first)


def _peer_logits(path: Path, token_ids: npt.NDArray[np.int32]) -> Doubles:
    """llama.cpp's log-probabilities after each token; its server tells them only of tokens that it writes."""
    from engine.bench.xllamacpp_peer import start_server

    server = start_server(path, 1, 1, 64)
    rows = []
    for count in range(1, len(token_ids) + 1):
        answer = server.handle_completions(
            {
                "prompt": token_ids[:count].tolist(),
                "n_predict": 1,
                "n_probs": 1 << 20,
                "cache_prompt": False,
                "temperature": 0,
                "logit_bias": [[64, 1000.0]],  # a letter: of half a character nothing is told
                "verbose": True,
            }
        )
        found = answer["__verbose"]["completion_probabilities"][0]["top_logprobs"]
        row = np.empty(len(found))
        row[[each["id"] for each in found]] = [each["logprob"] for each in found]
        rows.append(row)
    return _log_softmax(np.array(rows))


def _all_names() -> list[str]:
    names = golden_names("tiny", "tiny2", "hybrid")
    return [*names, *(f"{name}_q8" for name in names if "_q" not in name and "-256" not in name)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Tiny models of other seeds.")
    parser.add_argument("names", nargs="*", default=_all_names())
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--peer", action="store_true", help="llama.cpp, from the wheel xllamacpp")
    arguments = parser.parse_args()
    token_ids = golden_of("llama").token_ids
    wrong = judged = 0
    print(f"{'model':30}{'seed':>5}{'rounding':>10}{'cpu':>9}{'in parts':>10}{'llama.cpp':>11}")
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.names:
            for seed in range(arguments.first, arguments.first + arguments.seeds):
                try:
                    path = write_seeded_model(name, seed, Path(folder))
                    outcome = measure(path, token_ids, arguments.peer)
                except (EngineError, ValueError) as error:
                    print(f"{name:30} left out: {str(error)[:80]}")
                    break
                finally:
                    for left in Path(folder).iterdir():
                        left.unlink()
                is_wrong = outcome.excess > 1
                wrong, judged = wrong + is_wrong, judged + (outcome.num_judged > 0)
                verdict = "  WRONG" if is_wrong else ""
                if outcome.num_judged < len(token_ids):
                    verdict += f"  near a tie from token {outcome.num_judged} on"
                figures = f"{outcome.rounded:10.2%}{outcome.whole:9.2%}{outcome.parts:10.2%}"
                peer = "" if outcome.peer is None else f"{outcome.peer:11.2%}"
                print(f"{name:30}{seed:5}{figures}{peer:11}{verdict}", flush=True)
    print(f"{judged} judged, {wrong} wrong")


if __name__ == "__main__":
    main()
