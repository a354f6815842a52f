"""Speeds of the engine's own kernels on this machine, measured and kept in a file.

A figure counts for good where nothing disturbed it (see ``timing``) on several occasions, for what another machine
on the same processor or memory takes, nothing here tells. A disturbed one serves until then. A slower figure never
replaces a quicker one: others can only take away.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import psutil

from engine.advisor.speeds import Speeds, guessed_speeds
from engine.advisor.timing import OTHERS_SHARE, Timing, team_clocks, time_runs
from engine.cache_folder import cache_folder
from engine.gguf.tensor_types import TensorType
from engine.loader import num_physical_cores
from engine.model.plan import Buffer, Embed, MatMul, Plan, SelectRows, Tensor

_log = logging.getLogger(__name__)

FORMAT = 4
MEASURED_TYPES = (TensorType.Q4_0, TensorType.Q4_K, TensorType.Q6_K, TensorType.Q8_0, TensorType.F16)
COLUMNS, ROWS = 2048, 6144
DECODE_BYTES = 160 << 20  # no cache of a processor holds so much, as it holds no model
PREFILL_TOKENS, PREFILL_MATRICES = 128, 2
BUSY_SHARE = 0.4  # of the processors, beside which not even a first measurement says anything
NUM_MEASUREMENTS = 3  # that nothing disturbed, and of which the best counts
AGAIN_AFTER_S = 3600.0
_LOOK_S = 0.2


@dataclass(frozen=True)
class TypeSpeed:
    """Of one tensor type.

    Attributes:
        bytes_per_s: of weights, for one token; 0 is unknown.
        values_per_s: multiplications of a prompt; 0 is unknown.
        num_quiet: undisturbed measurements that it is the best of.
        measured_at: time of the last one, in seconds since 1970.
    """

    bytes_per_s: float = 0.0
    values_per_s: float = 0.0
    num_quiet: int = 0
    measured_at: float = 0.0

    def better(self, other: TypeSpeed) -> TypeSpeed:
        """The best of both."""
        return TypeSpeed(
            max(self.bytes_per_s, other.bytes_per_s),
            max(self.values_per_s, other.values_per_s),
            self.num_quiet + other.num_quiet,
            max(self.measured_at, other.measured_at),
        )

    def is_due(self, now: float) -> bool:
        """Whether to measure it again."""
        is_fresh = 0 <= now - self.measured_at < AGAIN_AFTER_S
        return not self.num_quiet or (self.num_quiet < NUM_MEASUREMENTS and not is_fresh)


def known_speeds() -> Speeds | None:
    """What was measured on this machine before; None where nothing was."""
    return _speeds(_read())


def needs_measuring() -> bool:
    """Whether a figure is missing, disturbed or due again, and the machine has time now; looks for a moment."""
    kept = _read()
    if not _wanted(kept):
        return False
    return psutil.cpu_percent(interval=_LOOK_S) < 100 * (OTHERS_SHARE if kept else BUSY_SHARE)


def measure_speeds(
    types: Iterable[TensorType] = MEASURED_TYPES, may_go_on: Callable[[], bool] = lambda: True
) -> Speeds:
    """Measure the types whose figures are missing, disturbed or due again; takes some seconds. The best are kept.

    Once a type is disturbed, those that have a figure are left for another occasion; where nothing at all can be
    said, it ends. ``may_go_on`` is asked all the time, and its no ends it too.
    """
    kept = dict(_read())
    wanted, is_busy = _wanted(kept), False
    for type in types:
        if type not in wanted or (is_busy and type in kept):
            continue
        measured = measure_type(type, may_go_on=may_go_on)
        if not (measured.bytes_per_s and measured.values_per_s):
            break
        kept[type] = kept.get(type, TypeSpeed()).better(measured)
        is_busy |= not measured.num_quiet
    if kept:
        _write(kept)
    return _speeds(kept) or guessed_speeds(num_physical_cores())


def measure_type(type: TensorType, num_threads: int = 0, may_go_on: Callable[[], bool] = lambda: True) -> TypeSpeed:
    """Run the kernels of a type on matrices too large for the caches; ``num_threads`` 0 is one a core."""
    matrix_bytes = ROWS * type.row_bytes(COLUMNS)
    num_matrices = -(-DECODE_BYTES // matrix_bytes)
    decode = _time(_plan(type, num_matrices), 1, num_threads, may_go_on)
    prefill = _time(_plan(type, PREFILL_MATRICES), PREFILL_TOKENS, num_threads, may_go_on)
    return TypeSpeed(
        num_matrices * matrix_bytes / decode.seconds if decode.seconds else 0.0,
        PREFILL_MATRICES * ROWS * COLUMNS * PREFILL_TOKENS / prefill.seconds if prefill.seconds else 0.0,
        int(decode.is_quiet and prefill.is_quiet),
        time.time(),
    )


def _time(plan: Plan, num_tokens: int, num_threads: int, may_go_on: Callable[[], bool]) -> Timing:
    from engine.kernels.backend import SequenceSlice
    from engine.kernels.cpu import CpuBackend

    num_blocks = PREFILL_TOKENS // 16
    backend = CpuBackend(plan, num_blocks=num_blocks, max_batch_tokens=PREFILL_TOKENS, num_threads=num_threads)
    part = SequenceSlice(np.zeros(num_tokens, np.int32), 0, np.arange(num_blocks, dtype=np.int32))
    try:
        backend.run([part])
        clocks = team_clocks(backend.cpu_seconds, backend.num_threads)
        return time_runs(lambda: backend.run([part]), clocks, may_go_on)
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


def _wanted(kept: Mapping[TensorType, TypeSpeed]) -> list[TensorType]:
    """Types without a figure that counts for good, for now."""
    now = time.time()
    return [type for type in MEASURED_TYPES if type not in kept or kept[type].is_due(now)]


def _speeds(kept: Mapping[TensorType, TypeSpeed]) -> Speeds | None:
    if not kept:
        return None
    return Speeds(
        {type: speed.bytes_per_s for type, speed in kept.items()},
        {type: speed.values_per_s for type, speed in kept.items()},
    )


def _read() -> Mapping[TensorType, TypeSpeed]:
    """What is kept of this machine; nothing where the file is another machine's, or damaged."""
    try:
        stored = json.loads(_file().read_text(encoding="utf-8"))
        if stored["format"] != FORMAT or stored["machine"] != _machine_name():
            return {}
        kept = {
            TensorType[name]: TypeSpeed(
                float(item["bytes_per_s"]),
                float(item["values_per_s"]),
                int(item["num_quiet"]),
                float(item["measured_at"]),
            )
            for name, item in stored["speeds"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}
    rates = [rate for speed in kept.values() for rate in (speed.bytes_per_s, speed.values_per_s)]
    return kept if all(0 < rate < 1e15 for rate in rates) else {}


def _write(kept: Mapping[TensorType, TypeSpeed]) -> None:
    stored = {
        "format": FORMAT,
        "machine": _machine_name(),
        "speeds": {type.name: asdict(speed) for type, speed in kept.items()},
    }
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        scratch = _file().with_suffix(".tmp")
        scratch.write_text(json.dumps(stored, indent=1), encoding="utf-8")
        os.replace(scratch, _file())
    except OSError as error:
        _log.warning("the measured speeds are not kept: %s", error)


def _file() -> Path:
    return cache_folder() / "kernel-speeds.json"


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
