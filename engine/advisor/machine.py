"""This machine: its memory and disk, and the speeds of the engine's own kernels on it.

Speeds are measured once and kept; who asks before that gets an estimate from the number of cores.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import platformdirs
import psutil

from engine.gguf.tensor_types import TensorType
from engine.loader import num_physical_cores
from engine.model.plan import Buffer, Embed, MatMul, Plan, SelectRows, Tensor

_log = logging.getLogger(__name__)

FORMAT = 1
MEASURED_TYPES = (TensorType.Q4_K, TensorType.Q6_K, TensorType.Q8_0, TensorType.F16)
COLUMNS, ROWS, NUM_MATRICES = 2048, 6144, 4  # 50 million values: no cache of a processor holds them
PREFILL_TOKENS = 128
_MIN_PASSES, _MIN_SECONDS = 3, 0.25
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
        """Bytes a second; a type that was not measured is like the one whose values take about as many bits."""
        return self.bytes_per_s[_nearest(type, self.bytes_per_s)]

    def multiply_rate(self, type: TensorType) -> float:
        """Multiplications a second."""
        return self.values_per_s[_nearest(type, self.values_per_s)]

    @property
    def bandwidth(self) -> float:
        """The most bytes a second that any kernel reads."""
        return max(self.bytes_per_s.values())


@dataclass(frozen=True)
class Machine:
    """Memory and disk in bytes; ``available_bytes`` is what can be taken without swapping."""

    total_bytes: int
    available_bytes: int
    disk_free_bytes: int
    num_cores: int
    speeds: Speeds = field(compare=False)


def look_at_machine(models_folder: Path, own_bytes: int = 0) -> Machine:
    """The machine as it is now; ``own_bytes`` of memory would be free for another model."""
    memory = psutil.virtual_memory()
    place = models_folder
    while not place.exists() and place != place.parent:
        place = place.parent
    cores = num_physical_cores()
    return Machine(
        total_bytes=int(memory.total),
        available_bytes=min(int(memory.total), int(memory.available) + own_bytes),
        disk_free_bytes=shutil.disk_usage(place).free,
        num_cores=cores,
        speeds=known_speeds() or guessed_speeds(cores),
    )


def guessed_speeds(num_cores: int) -> Speeds:
    """For a machine where nothing was measured yet."""
    return Speeds(
        {TensorType.Q4_K: GUESSED_BYTES_PER_S * min(num_cores, 4)},
        {TensorType.Q4_K: GUESSED_VALUES_PER_S * num_cores},
        is_measured=False,
    )


def known_speeds() -> Speeds | None:
    """What was measured on this machine before; None where nothing was."""
    try:
        stored = json.loads(_file().read_text(encoding="utf-8"))
        if stored["format"] != FORMAT or stored["machine"] != _machine_name():
            return None
        read = {TensorType[name]: float(rate) for name, rate in stored["bytes_per_s"].items()}
        multiplied = {TensorType[name]: float(rate) for name, rate in stored["values_per_s"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if not read or not multiplied or min(*read.values(), *multiplied.values()) <= 0:
        return None
    return Speeds(read, multiplied)


def measure_speeds(types: Iterable[TensorType] = MEASURED_TYPES) -> Speeds:
    """Run the kernels on matrices too large for the caches and keep the figures; takes some seconds."""
    read: dict[TensorType, float] = {}
    multiplied: dict[TensorType, float] = {}
    for type in types:
        read[type], multiplied[type] = _measure(type)
    stored = {
        "format": FORMAT,
        "machine": _machine_name(),
        "bytes_per_s": {type.name: rate for type, rate in read.items()},
        "values_per_s": {type.name: rate for type, rate in multiplied.items()},
    }
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        scratch = _file().with_suffix(".tmp")
        scratch.write_text(json.dumps(stored, indent=1), encoding="utf-8")
        os.replace(scratch, _file())
    except OSError as error:
        _log.warning("the measured speeds are not kept: %s", error)
    return Speeds(read, multiplied)


def _measure(type: TensorType) -> tuple[float, float]:
    """Bytes a second of one token, multiplications a second of a prompt."""
    from engine.kernels.backend import SequenceSlice
    from engine.kernels.cpu import CpuBackend

    plan = _plan(type)
    matrices = [op.weight for op in plan.ops if isinstance(op, MatMul)][:-1]
    num_bytes = sum(matrix.data.nbytes for matrix in matrices)
    num_values = ROWS * COLUMNS * len(matrices)
    backend = CpuBackend(plan, num_blocks=PREFILL_TOKENS // 16, max_batch_tokens=PREFILL_TOKENS)

    def seconds(num_tokens: int) -> float:
        part = SequenceSlice(np.zeros(num_tokens, np.int32), 0, np.arange(PREFILL_TOKENS // 16, dtype=np.int32))
        backend.run([part])
        times: list[float] = []
        while len(times) < _MIN_PASSES or sum(times) < _MIN_SECONDS:
            started = time.perf_counter()
            backend.run([part])
            times.append(time.perf_counter() - started)
        return min(times)  # a neighbour can only take away

    try:
        return num_bytes / seconds(1), num_values * PREFILL_TOKENS / seconds(PREFILL_TOKENS)
    finally:
        backend.close()


def _plan(type: TensorType) -> Plan:
    """A few matrices one after the other, with as little around them as a plan may have."""
    rng = np.random.default_rng(1)
    stream, out = Buffer("stream", COLUMNS), Buffer("out", ROWS)
    selected, logits = Buffer("selected", COLUMNS, rows="logits"), Buffer("logits", 32, rows="logits")
    embedding = _float_tensor("embedding", rng.standard_normal((32, COLUMNS), np.float32))
    row_bytes = type.row_bytes(COLUMNS)
    ops: list[Embed | MatMul | SelectRows] = [Embed(embedding, stream)]
    for number in range(NUM_MATRICES):
        data = np.frombuffer(rng.bytes(ROWS * row_bytes), np.uint8) & np.uint8(
            0x3B
        )  # small scales: no overflow, no NaN
        ops.append(MatMul(stream, Tensor(f"matrix {number}", type, (ROWS, COLUMNS), data), out))
    ops += [SelectRows(stream, selected), MatMul(selected, embedding, logits)]
    return Plan(tuple(ops), (stream, out, selected, logits), (), logits, 32)


def _float_tensor(name: str, values: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> Tensor:
    return Tensor(name, TensorType.F32, values.shape, values.view(np.uint8).reshape(-1))


def _nearest(type: TensorType, measured: Iterable[TensorType]) -> TensorType:
    def bits(each: TensorType) -> float:
        return each.block_bytes / each.block_size

    return min(measured, key=lambda each: (each is not type, abs(bits(each) - bits(type)), each))


def _file() -> Path:
    configured = os.environ.get("FIRESIDE_CACHE_DIR") or platformdirs.user_cache_dir("fireside", appauthor=False)
    return Path(configured) / "kernel-speeds.json"


def _machine_name() -> str:
    return f"{platform.machine()} {platform.processor()} {num_physical_cores()} cores"
