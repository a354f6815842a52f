"""Logits kept in a file, and the divergence from them, against figures worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import EngineError, InvalidParameterError
from engine.scoring import num_predicted_tokens
from engine.scoring_reference import LogitsComparison, write_logits

TOKENS = [3, 1, 2, 0]
LOGITS = np.log(np.array([[0.5, 0.25, 0.125, 0.125], [0.1, 0.2, 0.3, 0.4], [0.25] * 4], np.float32))


def keep(path: Path, logits: np.ndarray = LOGITS) -> Path:
    with write_logits(path, TOKENS, 3, 4) as writer:
        writer.add(logits[:2])
        writer.add(logits[2:])
    return path


def test_numpy_reads_the_file(tmp_path: Path) -> None:
    content = np.load(keep(tmp_path / "kept.npz"))
    np.testing.assert_array_equal(content["token_ids"], TOKENS)
    np.testing.assert_array_equal(content["logits"], LOGITS)


def test_the_same_logits_do_not_diverge_even_when_shifted(tmp_path: Path) -> None:
    comparison = LogitsComparison(keep(tmp_path / "kept.npz"), TOKENS, 3, 4)
    comparison.add(LOGITS + 7, np.array(TOKENS[1:], np.int32))
    result = comparison.result()
    comparison.close()
    assert result.max_kl == pytest.approx(0, abs=1e-6)
    assert (result.num_predicted, result.same_top) == (3, 1.0)
    assert result.rms_probability_change == pytest.approx(0, abs=1e-6)


def test_divergence_by_hand(tmp_path: Path) -> None:
    comparison = LogitsComparison(keep(tmp_path / "kept.npz"), TOKENS, 3, 4)
    other = np.log(np.array([[0.25] * 4, [0.1, 0.2, 0.4, 0.3], [0.25] * 4], np.float32))
    for row, target in zip(other, TOKENS[1:], strict=True):
        comparison.add(row[None], np.array([target], np.int32))
    result = comparison.result()
    comparison.close()
    first = 0.5 * np.log(2) + 2 * 0.125 * np.log(0.5)
    second = 0.3 * np.log(0.3 / 0.4) + 0.4 * np.log(0.4 / 0.3)
    assert result.mean_kl == pytest.approx((first + second) / 3, rel=1e-5)
    assert result.median_kl == pytest.approx(min(first, second), rel=1e-4)
    assert result.same_top == pytest.approx(2 / 3)
    assert result.mean_nll_change == pytest.approx(np.log(0.3 / 0.4) / 3, rel=1e-5)
    assert result.rms_probability_change == pytest.approx(0.1 / np.sqrt(3), rel=1e-5)


@pytest.mark.parametrize(
    ("token_ids", "num_predicted", "vocab_size", "message"),
    [
        ([3, 1, 2, 1], 3, 4, "another text"),
        (TOKENS[:3], 2, 4, "another text"),
        (TOKENS, 2, 4, "context length"),
        (TOKENS, 3, 5, "another vocabulary"),
    ],
)
def test_a_file_of_something_else_is_named(
    tmp_path: Path, token_ids: list[int], num_predicted: int, vocab_size: int, message: str
) -> None:
    path = keep(tmp_path / "kept.npz")
    with pytest.raises(InvalidParameterError, match=message):
        LogitsComparison(path, token_ids, num_predicted, vocab_size)


def test_no_file_of_logits(tmp_path: Path) -> None:
    text, other, absent = tmp_path / "text.npz", tmp_path / "other.npz", tmp_path / "absent.npz"
    text.write_text("no archive", encoding="utf-8")
    np.savez(other, numbers=np.arange(3))
    for path in (text, other, absent):
        with pytest.raises(InvalidParameterError, match="cannot be compared with"):
            LogitsComparison(path, TOKENS, 3, 4)


def test_a_file_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    with write_logits(path, TOKENS, 3, 4) as writer:
        writer.add(LOGITS[:2])
    comparison = LogitsComparison(path, TOKENS, 3, 4)
    with pytest.raises(InvalidParameterError, match="ends before its last logits"):
        comparison.add(LOGITS, np.array(TOKENS[1:], np.int32))
    comparison.close()


def test_whatever_byte_is_damaged_the_file_is_refused_or_the_same(tmp_path: Path) -> None:
    data = keep(tmp_path / "kept.npz").read_bytes()
    path = tmp_path / "damaged.npz"
    refusals = []
    for position in range(len(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :])
        try:
            comparison = LogitsComparison(path, TOKENS, 3, 4)
            comparison.add(LOGITS, np.array(TOKENS[1:], np.int32))
            comparison.close()
        except InvalidParameterError as error:
            refusals.append(str(error))
    assert len(refusals) > len(data) // 3
    assert all("damaged.npz" in refusal for refusal in refusals)


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = keep(tmp_path / "kept.npz")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="broadcast"), write_logits(path, TOKENS, 3, 4) as writer:
        writer.add(LOGITS + np.zeros(3, np.float32))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    with pytest.raises(ValueError, match="broadcast"), write_logits(path, TOKENS, 3, 4) as writer:
        writer.add(LOGITS + np.zeros(3, np.float32))
    assert not path.exists()
    with pytest.raises(EngineError, match="cannot be written"), write_logits(tmp_path / "no" / "f", TOKENS, 3, 4):
        pass


def test_the_first_token_of_each_window_has_no_score() -> None:
    assert [num_predicted_tokens(count, 10) for count in (2, 10, 11, 20, 21)] == [1, 9, 9, 18, 18]
