"""What the engine's kernels do a second: measured, or guessed from the number of cores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.gguf.tensor_types import TensorType

GUESSED_BYTES_PER_S = 8e9  # for each core, up to four, where nothing was measured
GUESSED_VALUES_PER_S = 25e9  # for each core


@dataclass(frozen=True)
class Speeds:
    """What the kernels do a second.

    Attributes:
        bytes_per_s: weights read while one token is computed, by type.
        values_per_s: multiplications while a prompt is read, by type.
        is_measured: on this machine; else a guess by the number of cores.
    """

    bytes_per_s: Mapping[TensorType, float]
    values_per_s: Mapping[TensorType, float]
    is_measured: bool = True

    def read_rate(self, type: TensorType) -> float:
        """Bytes a second; a type that was not measured is like one with blocks of its length and as many bits."""
        return self.bytes_per_s[_nearest(type, self.bytes_per_s)]

    def multiply_rate(self, type: TensorType) -> float:
        """Multiplications a second."""
        return self.values_per_s[_nearest(type, self.values_per_s)]

    @property
    def bandwidth(self) -> float:
        """The most bytes a second that any kernel reads."""
        return max(self.bytes_per_s.values())

    @property
    def reference_multiply_rate(self) -> float:
        """Multiplications a second of the type that most models have."""
        return self.multiply_rate(TensorType.Q4_K)

    def scaled(self, read: float, multiply: float) -> Speeds:
        """All rates times a factor."""
        return Speeds(
            {type: rate * read for type, rate in self.bytes_per_s.items()},
            {type: rate * multiply for type, rate in self.values_per_s.items()},
            self.is_measured,
        )


def guessed_speeds(num_cores: int) -> Speeds:
    """For a machine where nothing was measured yet."""
    return Speeds(
        {TensorType.Q4_K: GUESSED_BYTES_PER_S * min(num_cores, 4)},
        {TensorType.Q4_K: GUESSED_VALUES_PER_S * num_cores},
        is_measured=False,
    )


def _nearest(type: TensorType, measured: Iterable[TensorType]) -> TensorType:
    def bits(each: TensorType) -> float:
        return each.block_bytes / each.block_size

    def distance(each: TensorType) -> tuple[bool, bool, float, int]:
        return each is not type, each.block_size != type.block_size, abs(bits(each) - bits(type)), each

    return min(measured, key=distance)
