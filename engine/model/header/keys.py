"""Typed access to the metadata keys of one architecture, each number with a range.

Knows prefixes and ranges; does not know what a key means.
"""

from __future__ import annotations

import numpy as np

from engine.errors import MetadataError
from engine.gguf import GGUFFile


class ArchitectureKeys:
    """The keys of one architecture; each getter takes the key without its prefix.

    Attributes:
        metadata: of the file.
        path: the file.
        prefix: the architecture's name.
        tensors: names of the file's tensors.
    """

    def __init__(self, file: GGUFFile, prefix: str) -> None:
        self.metadata = file.metadata
        self.path = file.path
        self.tensors = file.tensors.keys()
        self.prefix = prefix

    def __contains__(self, key: str) -> bool:
        return f"{self.prefix}.{key}" in self.metadata

    def flags(self, key: str, num_layers: int) -> list[bool]:
        """An array with one flag a layer."""
        values: list[bool] = self.metadata.booleans(f"{self.prefix}.{key}", length=num_layers).tolist()
        return values

    def is_array(self, key: str) -> bool:
        return self.metadata.is_array(f"{self.prefix}.{key}")

    def error(self, key: str, message: str) -> MetadataError:
        return MetadataError(self.path, f"{self.prefix}.{key}", message)

    def integer(self, key: str, *, maximum: int, default: int | None = None, minimum: int = 1) -> int:
        name = f"{self.prefix}.{key}"
        if default is not None and name not in self.metadata:
            return default
        return self.metadata.integer(name, minimum=minimum, maximum=maximum)

    def boolean(self, key: str, default: bool) -> bool:
        return self.metadata.boolean(f"{self.prefix}.{key}", default=default)

    def per_layer(
        self, key: str, num_layers: int, *, minimum: int, maximum: int, default: tuple[int, ...] | None = None
    ) -> tuple[int, ...]:
        """A number for all layers, or an array with one a layer."""
        name = f"{self.prefix}.{key}"
        if default is not None and name not in self.metadata:
            return default
        values = self.metadata.integers(name, length=num_layers, minimum=minimum, maximum=maximum)
        return tuple(values.tolist())

    def number(
        self, key: str, *, minimum: float, maximum: float, default: float | None = None, is_open: bool = False
    ) -> float:
        """A finite number within ``minimum`` and ``maximum``; ``is_open`` leaves out the minimum itself."""
        name = f"{self.prefix}.{key}"
        if default is not None and name not in self.metadata:
            return default
        value = self.metadata.number(name, minimum=minimum, maximum=maximum)
        if is_open and value == minimum:
            raise self.error(key, f"must be above {minimum:g}.")
        return value

    def positive(self, key: str, default: float | None = None, maximum: float = 1e12) -> float:
        return self.number(key, minimum=0.0, maximum=maximum, default=default, is_open=True)

    def optional_positive(self, key: str) -> float | None:
        """None where the key is absent or 0, which both mean off."""
        value = self.number(key, minimum=0.0, maximum=1e12, default=0.0)
        return value or None

    def numbers_per_layer(self, key: str, num_layers: int) -> tuple[float, ...] | None:
        """A finite number for all layers or an array with one a layer; None where the key is absent."""
        name = f"{self.prefix}.{key}" if not key.startswith(".") else key[1:]
        if name not in self.metadata:
            return None
        values = self.metadata.numbers(name, length=num_layers)
        if not np.isfinite(values).all():
            raise MetadataError(self.path, name, "must hold finite numbers.")
        return tuple(values.tolist())


def shown(text: str) -> str:
    """Text of a file as an error shows it: quoted, escaped and short."""
    return repr(text if len(text) <= 60 else text[:60] + "…")
