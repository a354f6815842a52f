"""This machine: its memory and disk, and the speeds of the engine's own kernels on it.

Speeds are measured once and kept; who asks before that gets an estimate from the number of cores. Beside other work
a kernel is slower than it is, never faster: what was measured then counts until the machine is quiet, and the best
of all samples is kept.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import platformdirs
import psutil

from engine.gguf.tensor_types import TensorType
from engine.loader import num_physical_cores
from engine.model.plan import Buffer, Embed, MatMul, Plan, SelectRows, Tensor

_log = logging.getLogger(__name__)

FORMAT = 3
MEASURED_TYPES = (TensorType.Q4_0, TensorType.Q4_K, TensorType.Q6_K, TensorType.Q8_0, TensorType.F16)
COLUMNS, ROWS = 2048, 6144
DECODE_BYTES = 160 << 20  # no cache of a processor holds so much, as it holds no model
PREFILL_TOKENS, PREFILL_MATRICES = 128, 2
OWN_BYTES = 250_000_000  # of a process with a window and no model
QUIET_SHARE = 0.15  # of the processor, at most, that others take from a measurement that counts for good
BUSY_SHARE = 0.4  # and from one that counts at all
_MIN_PASSES, _MIN_SECONDS = 4, 0.3
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


@dataclass(frozen=True)
class Machine:
    """Memory and disk in bytes; ``available_bytes`` is what can be taken without swapping."""

    total_bytes: int
    available_bytes: int
    disk_free_bytes: int
    num_cores: int
    speeds: Speeds = field(compare=False)


def look_at_machine(models_folder: Path) -> Machine:
    """The machine as it is now; what a loaded model takes of this process would be free for another one."""
    memory = psutil.virtual_memory()
    own = psutil.Process().memory_info()
    own_bytes = releasable_bytes(own.rss, getattr(own, "shared", 0))
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


def releasable_bytes(resident_bytes: int, shared_bytes: int) -> int:
    """What this process would give back without its model: mapped weights (shared) count as available anyway."""
    return max(0, resident_bytes - shared_bytes - OWN_BYTES)


def guessed_speeds(num_cores: int) -> Speeds:
    """For a machine where nothing was measured yet."""
    return Speeds(
        {TensorType.Q4_K: GUESSED_BYTES_PER_S * min(num_cores, 4)},
        {TensorType.Q4_K: GUESSED_VALUES_PER_S * num_cores},
        is_measured=False,
    )


def known_speeds() -> Speeds | None:
    """What was measured on this machine before; None where nothing was."""
    stored = _read()
    return stored[0] if stored is not None else None


def needs_measuring() -> bool:
    """Whether nothing was measured here yet, or only beside other work, and the machine has time for it now."""
    stored = _read()
    if stored is not None and stored[1]:
        return False
    return psutil.cpu_percent(interval=0.2) < 100 * (BUSY_SHARE if stored is None else QUIET_SHARE)


def measure_speeds(types: Iterable[TensorType] = MEASURED_TYPES) -> Speeds:
    """Run the kernels on matrices too large for the caches and keep the best figures; takes some seconds.

    Where others had most of the processor meanwhile, what was measured says nothing: what was known before, or the
    guess, stays.
    """
    read: dict[TensorType, float] = {}
    multiplied: dict[TensorType, float] = {}
    with _LoadOfOthers() as others:
        for type in types:
            read[type], multiplied[type] = measure_type(type)
    is_quiet = others.share <= QUIET_SHARE
    before = _read()
    if others.share > BUSY_SHARE:
        return before[0] if before is not None else guessed_speeds(num_physical_cores())
    if before is not None:
        for type, rate in before[0].bytes_per_s.items():
            read[type] = max(rate, read.get(type, 0.0))
        for type, rate in before[0].values_per_s.items():
            multiplied[type] = max(rate, multiplied.get(type, 0.0))
        is_quiet |= before[1]
    speeds = Speeds(read, multiplied)
    _write(speeds, is_quiet)
    return speeds


class _LoadOfOthers:
    """The share of the processor that other processes take meanwhile, as ``share``."""

    share = 0.0

    def __enter__(self) -> _LoadOfOthers:
        self._before = self._busy(), time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        busy, elapsed = self._busy() - self._before[0], time.monotonic() - self._before[1]
        self.share = max(0.0, busy) / max(1e-3, elapsed * (psutil.cpu_count() or 1))

    @staticmethod
    def _busy() -> float:
        """Seconds of all processors that went to others."""
        times, own = psutil.cpu_times(), psutil.Process().cpu_times()
        return sum(times) - times.idle - getattr(times, "iowait", 0.0) - own.user - own.system


def _read() -> tuple[Speeds, bool] | None:
    """What is kept of this machine, and whether it was quiet then."""
    try:
        stored = json.loads(_file().read_text(encoding="utf-8"))
        if stored["format"] != FORMAT or stored["machine"] != _machine_name():
            return None
        read = {TensorType[name]: float(rate) for name, rate in stored["bytes_per_s"].items()}
        multiplied = {TensorType[name]: float(rate) for name, rate in stored["values_per_s"].items()}
        is_quiet = stored["is_quiet"] is True
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    rates = [*read.values(), *multiplied.values()]
    if not read or not multiplied or not all(0 < rate < 1e15 for rate in rates):
        return None
    return Speeds(read, multiplied), is_quiet


def _write(speeds: Speeds, is_quiet: bool) -> None:
    stored = {
        "format": FORMAT,
        "machine": _machine_name(),
        "is_quiet": is_quiet,
        "bytes_per_s": {type.name: rate for type, rate in speeds.bytes_per_s.items()},
        "values_per_s": {type.name: rate for type, rate in speeds.values_per_s.items()},
    }
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        scratch = _file().with_suffix(".tmp")
        scratch.write_text(json.dumps(stored, indent=1), encoding="utf-8")
        os.replace(scratch, _file())
    except OSError as error:
        _log.warning("the measured speeds are not kept: %s", error)


def measure_type(
    type: TensorType, num_threads: int = 0, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, float]:
    """Bytes a second of one token, multiplications a second of a prompt; ``num_threads`` 0 is one a core."""
    matrix_bytes = ROWS * type.row_bytes(COLUMNS)
    num_matrices = -(-DECODE_BYTES // matrix_bytes)
    decode_s = _seconds(_plan(type, num_matrices), 1, num_threads, clock)
    prefill_s = _seconds(_plan(type, PREFILL_MATRICES), PREFILL_TOKENS, num_threads, clock)
    return num_matrices * matrix_bytes / decode_s, PREFILL_MATRICES * ROWS * COLUMNS * PREFILL_TOKENS / prefill_s


def _seconds(plan: Plan, num_tokens: int, num_threads: int, clock: Callable[[], float]) -> float:
    """The quickest of several runs: a neighbour can only take away."""
    from engine.kernels.backend import SequenceSlice
    from engine.kernels.cpu import CpuBackend

    num_blocks = PREFILL_TOKENS // 16
    backend = CpuBackend(plan, num_blocks=num_blocks, max_batch_tokens=PREFILL_TOKENS, num_threads=num_threads)
    part = SequenceSlice(np.zeros(num_tokens, np.int32), 0, np.arange(num_blocks, dtype=np.int32))
    try:
        backend.run([part])
        times: list[float] = []
        while len(times) < _MIN_PASSES or sum(times) < _MIN_SECONDS:
            started = clock()
            backend.run([part])
            times.append(clock() - started)
        return min(times)
    finally:
        backend.close()


def _plan(type: TensorType, num_matrices: int) -> Plan:
    """Matrices one after the other, with as little around them as a plan may have."""
    rng = np.random.default_rng(1)
    stream, out = Buffer("stream", COLUMNS), Buffer("out", ROWS)
    selected, logits = Buffer("selected", COLUMNS, rows="logits"), Buffer("logits", 32, rows="logits")
    embedding = _float_tensor("embedding", rng.standard_normal((32, COLUMNS), np.float32))
    # Small scales: no overflow, no NaN. What the values are does not matter, where they lie does.
    some = np.frombuffer(rng.bytes(ROWS * type.row_bytes(COLUMNS)), np.uint8) & np.uint8(0x3B)
    ops: list[Embed | MatMul | SelectRows] = [Embed(embedding, stream)]
    for number in range(num_matrices):
        ops.append(MatMul(stream, Tensor(f"matrix {number}", type, (ROWS, COLUMNS), some.copy()), out))
    ops += [SelectRows(stream, selected), MatMul(selected, embedding, logits)]
    return Plan(tuple(ops), (stream, out, selected, logits), (), logits, 32)


def _float_tensor(name: str, values: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> Tensor:
    return Tensor(name, TensorType.F32, values.shape, values.view(np.uint8).reshape(-1))


def _nearest(type: TensorType, measured: Iterable[TensorType]) -> TensorType:
    def bits(each: TensorType) -> float:
        return each.block_bytes / each.block_size

    def distance(each: TensorType) -> tuple[bool, bool, float, int]:
        return each is not type, each.block_size != type.block_size, abs(bits(each) - bits(type)), each

    return min(measured, key=distance)


def _file() -> Path:
    configured = os.environ.get("FIRESIDE_CACHE_DIR") or platformdirs.user_cache_dir("fireside", appauthor=False)
    return Path(configured) / "kernel-speeds.json"


def _machine_name() -> str:
    return f"{platform.machine()} {_processor()} {num_physical_cores()} cores"


@cache
def _processor() -> str:
    """The processor's name; Linux tells it in a file alone."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.lower().startswith(("model name", "hardware")):
                return line.partition(":")[2].strip()
    return platform.processor()
