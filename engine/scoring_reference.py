"""A text's logits kept in a file, and how far another run is from them.

The file is NumPy's ``.npz`` (uncompressed), so that anything can read it: ``token_ids`` (tokens,) int32 and
``logits`` (predicted tokens, vocab_size) float32. Both are written and read in pieces; logits of a long text are
larger than memory. How a change in kernels or tensor types is judged: by the divergence of the distributions.
"""

from __future__ import annotations

import contextlib
import errno
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from engine.errors import EngineError, InvalidParameterError

Floats = npt.NDArray[np.float32]

MAX_HEADER_BYTES = 10_000  # of an array in the file
# What ``zipfile`` raises for archives that are damaged, encrypted, or compressed in a way it does not know.
_DAMAGED = (OSError, KeyError, ValueError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile)


@dataclass(frozen=True)
class Divergence:
    """How far distributions are from those of the reference, over all predicted tokens.

    Attributes:
        num_predicted: tokens compared.
        mean_kl, median_kl, p99_kl, max_kl: Kullback-Leibler divergence of this run from the reference, in nats.
        same_top: share of tokens with the same likeliest token.
        mean_nll_change: mean negative log-likelihood less that of the reference.
        rms_probability_change: root mean square change of the true token's probability.
    """

    num_predicted: int
    mean_kl: float
    median_kl: float
    p99_kl: float
    max_kl: float
    same_top: float
    mean_nll_change: float
    rms_probability_change: float


class LogitsWriter:
    """Writes logits to a file as they come; the file is complete once all rows are there."""

    def __init__(self, logits: IO[bytes], shape: tuple[int, int]) -> None:
        self._logits = logits
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(logits, header)

    def add(self, rows: Floats) -> None:
        """Append (rows, vocab_size) logits."""
        self._logits.write(np.ascontiguousarray(rows, "<f4").tobytes())


@contextmanager
def write_logits(
    path: Path, token_ids: Sequence[int], num_predicted: int, vocab_size: int
) -> Iterator[LogitsWriter]:
    """A writer for the logits of ``num_predicted`` tokens. Raises EngineError where the file cannot be written.

    What ``path`` held before stays until all is written.
    """
    unfinished = path.parent / f".{path.name}.{os.getpid()}.part"
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with zipfile.ZipFile(unfinished, "w") as archive:
            with archive.open("token_ids.npy", "w") as member:
                np.lib.format.write_array(member, np.asarray(token_ids, "<i4"))
            with archive.open("logits.npy", "w", force_zip64=True) as member:
                yield LogitsWriter(member, (num_predicted, vocab_size))
        os.replace(unfinished, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise EngineError(f"The logits cannot be written to {path}: {reason}.") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


class LogitsComparison:
    """Compares logits with those of a file, row by row.

    Raises InvalidParameterError for a file that is no such file, or that is of another text or vocabulary.
    """

    def __init__(self, path: Path, token_ids: Sequence[int], num_predicted: int, vocab_size: int) -> None:
        self._path = path
        try:
            self._archive = zipfile.ZipFile(path)
            kept_ids = self._read_token_ids(len(token_ids))
            self._rows: IO[bytes] = self._archive.open("logits.npy")
            shape, _, kind = self._read_header(self._rows)
        except _DAMAGED as error:
            reason = getattr(error, "strerror", None) or "it is no file of logits"
            raise InvalidParameterError(
                f"{path} cannot be compared with: {reason}; write one with --save-logits."
            ) from error
        if kind != np.dtype("<f4") or len(shape) != 2 or shape[1] != vocab_size:
            raise InvalidParameterError(f"{path} holds logits of another vocabulary; write one with --save-logits.")
        if kept_ids is None or not np.array_equal(kept_ids, token_ids) or shape[0] != num_predicted:
            raise InvalidParameterError(
                f"{path} holds the logits of another text or context length; score the same text with the same "
                "options."
            )
        self._vocab_size = vocab_size
        self._divergences: list[npt.NDArray[np.float64]] = []
        self._same_top: list[npt.NDArray[np.bool_]] = []
        self._nll_changes: list[npt.NDArray[np.float64]] = []
        self._probability_changes: list[npt.NDArray[np.float64]] = []

    def add(self, rows: Floats, targets: npt.NDArray[np.int32]) -> None:
        """Compare the next (rows, vocab_size) logits, whose tokens turned out to be ``targets``."""
        num_bytes = 4 * rows.size
        try:
            stored = self._rows.read(num_bytes)
        except _DAMAGED:
            stored = b""
        if len(stored) != num_bytes:
            raise InvalidParameterError(f"{self._path} ends before its last logits; write it again.")
        kept = _log_softmax(np.frombuffer(stored, "<f4").reshape(rows.shape))
        own = _log_softmax(rows)
        self._divergences.append((np.exp(kept) * (kept - own)).sum(axis=1))
        self._same_top.append(kept.argmax(axis=1) == own.argmax(axis=1))
        places = np.arange(len(rows)), targets
        self._nll_changes.append(kept[places] - own[places])
        self._probability_changes.append(np.exp(own[places]) - np.exp(kept[places]))

    def result(self) -> Divergence:
        """The figures over all rows."""
        divergences = np.concatenate(self._divergences)
        return Divergence(
            num_predicted=divergences.size,
            mean_kl=float(divergences.mean()),
            median_kl=float(np.median(divergences)),
            p99_kl=float(np.percentile(divergences, 99)),
            max_kl=float(divergences.max()),
            same_top=float(np.concatenate(self._same_top).mean()),
            mean_nll_change=float(np.concatenate(self._nll_changes).mean()),
            rms_probability_change=float(np.sqrt(np.square(np.concatenate(self._probability_changes)).mean())),
        )

    def close(self) -> None:
        """Let go of the file."""
        self._archive.close()

    def _read_token_ids(self, most: int) -> npt.NDArray[np.int32] | None:
        """Token ids of the file; None where there are more than there should be."""
        with self._archive.open("token_ids.npy") as member:
            shape, _, kind = self._read_header(member)
            if len(shape) != 1 or shape[0] > most or kind != np.dtype("<i4"):
                return None
            return np.frombuffer(member.read(4 * shape[0]), np.int32)

    @staticmethod
    def _read_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, Any]:
        np.lib.format.read_magic(member)
        header = np.lib.format.read_array_header_1_0(member, max_header_size=MAX_HEADER_BYTES)
        if header[1]:
            raise ValueError("the logits lie in another order")
        return header


def _log_softmax(logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """(rows, vocab_size) float64 log-probabilities."""
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=1, keepdims=True)
    result: npt.NDArray[np.float64] = exact - np.log(np.exp(exact).sum(axis=1, keepdims=True))
    return result
