from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.errors import InvalidParameterError, NumericError
from engine.gguf import open_model
from engine.kernels.reference import ReferenceBackend
from engine.model import load_plan
from engine.scoring import score_tokens
from tests.engine.fake_backend import VOCAB_SIZE, FakeBackend, continuation, next_token
from tests.golden_models import write_golden_model

RIGHT, WRONG = np.log(np.exp(5.0) + 63 * np.exp(-5.0)) - 5.0, np.log(np.exp(5.0) + 63 * np.exp(-5.0)) + 5.0


class AllLogits(FakeBackend):
    """The fake backend with a row for each token."""

    def run(self, slices, ahead=None):  # type: ignore[no-untyped-def]
        (part,) = slices
        rows = []
        for offset, token_id in enumerate(part.token_ids):
            self._seen = [*self._seen[: part.start + offset], int(token_id)]
            row = np.full(VOCAB_SIZE, np.nan if token_id == self.poison else -5.0, dtype=np.float32)
            row[next_token(self._seen)] += 10.0
            rows.append(row)
        return np.array(rows)

    _seen: list[int] = []  # noqa: RUF012 - replaced, never changed


def test_likelihoods_by_hand_over_chunks_and_windows() -> None:
    tokens = [3, 4, *continuation([3, 4], 30)]
    tokens[10] = (tokens[10] + 1) % VOCAB_SIZE
    scores = score_tokens(AllLogits(8, 7), tokens, vocab_size=VOCAB_SIZE, context_length=100)
    expected = [RIGHT if next_token(tokens[:n]) == tokens[n] else WRONG for n in range(1, len(tokens))]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    windows = score_tokens(AllLogits(8, 7), tokens, vocab_size=VOCAB_SIZE, context_length=10)
    assert windows.size == len(tokens) - 4, "the first token of each of four windows is given"
    np.testing.assert_allclose(windows[:9], expected[:9], rtol=1e-6)


def test_nothing_to_predict_and_invalid_numbers() -> None:
    with pytest.raises(InvalidParameterError, match="fewer than two tokens"):
        score_tokens(AllLogits(8), [1], vocab_size=VOCAB_SIZE, context_length=100)
    backend = AllLogits(8)
    backend.poison = 2
    with pytest.raises(NumericError):
        score_tokens(backend, [1, 2, 3], vocab_size=VOCAB_SIZE, context_length=100)


def test_the_reference_agrees_with_the_goldens(smollm2_path: Path, goldens: Path) -> None:
    golden = json.loads((goldens / "logits_smollm2.json").read_text(encoding="utf-8"))["nll"]["gpl3_9600_chars"]
    with open_model(smollm2_path) as file:
        hyperparameters, plan = load_plan(file)
        backend = ReferenceBackend(plan, num_blocks=24)
        scores = score_tokens(
            backend, golden["tokens"][:100], vocab_size=hyperparameters.vocab_size, context_length=1024
        )
        backend.close()
    np.testing.assert_allclose(scores[::16], golden["exact_per_token_nll_every_16th"][:7], atol=2e-4)


@pytest.mark.parametrize("name", ["mamba2", "lfm2"])
def test_a_window_of_a_recurrent_model_knows_nothing_of_the_one_before(name: str, tmp_path: Path) -> None:
    with open_model(write_golden_model(name, tmp_path)) as file:
        _, plan = load_plan(file)
        tokens = np.random.default_rng(3).integers(3, 320, 40).tolist()
        sizes = {"vocab_size": 320, "context_length": 20}
        backend = ReferenceBackend(plan, num_blocks=2)
        windows = score_tokens(backend, tokens, **sizes)
        alone = [
            score_tokens(ReferenceBackend(plan, num_blocks=2), half, **sizes) for half in (tokens[:20], tokens[20:])
        ]
        del backend, plan
    np.testing.assert_allclose(windows, np.concatenate(alone), rtol=1e-5)
