"""What a benchmark measures and finds: plain data. It runs nothing and prints nothing."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Literal

OWN = "fireside"  # name of our engine in every table and file


@dataclass(frozen=True)
class SpeedTest:
    """One thing to time.

    Attributes:
        kind: "prefill" reads ``num_tokens`` at once, "decode" computes them one by one, "streams" does so for
            several sequences in the same steps.
        num_tokens: tokens of one sample; of each stream.
        depth: tokens in the KV cache before.
        num_threads: threads that compute.
    """

    kind: Literal["prefill", "decode", "streams"]
    num_tokens: int
    depth: int
    num_threads: int
    num_streams: int = 1

    @property
    def label(self) -> str:
        """Short name for tables."""
        if self.kind == "prefill":
            return f"prefill {self.num_tokens:,}"
        if self.kind == "streams":
            return f"{self.num_streams} at once" if self.num_streams > 1 else "1 alone"
        return f"decode at {self.depth:,}"


@dataclass
class Series:
    """Samples of one figure from one engine, in order."""

    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float | None:
        """Median, None without samples."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def spread(self) -> float:
        """Largest over smallest; 1 without samples."""
        return max(self.samples) / min(self.samples) if self.samples else 1.0


@dataclass
class SpeedResult:
    """Tokens a second of each engine in one test.

    Attributes:
        test: what was timed.
        speeds: by engine name, tokens/s.
        bytes_per_token: of weights and KV cache that one decoded token reads; 0 for a prefill.
        bandwidth: bytes/s that the memory gives this many threads; 0 when not measured.
    """

    test: SpeedTest
    speeds: dict[str, Series]
    bytes_per_token: int = 0
    bandwidth: float = 0.0

    def bandwidth_share(self, engine: str) -> float | None:
        """Bytes read a second as a share of the memory's bandwidth; over 1 where caches hold part of the model."""
        speed = self.speeds[engine].median
        if not speed or not self.bytes_per_token or not self.bandwidth:
            return None
        return speed * self.bytes_per_token / self.bandwidth


@dataclass(frozen=True)
class BetweenSteps:
    """What passes between two steps of the kernels while our engine answers.

    Attributes:
        label: which tokens are chosen, and of how many answers.
        between_s, step_s: medians of the time between two steps, and in one.
    """

    label: str
    between_s: float
    step_s: float

    @property
    def share(self) -> float:
        """Of the time that an answer takes."""
        return self.between_s / (self.between_s + self.step_s)


@dataclass
class StartResult:
    """Seconds from the start of a process, by engine name: until the model is loaded, and to the first token."""

    loads: dict[str, Series] = field(default_factory=dict)
    first_tokens: dict[str, Series] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessResult:
    """What a worker process cost.

    Attributes:
        engine: name of the engine.
        peak_bytes: largest resident size.
        kv_bytes: bytes of KV cache that held tokens; an estimate for a peer.
        beyond_bytes: peak without the model's file and the KV cache.
        idle_cpu_share: of one core, while nothing was asked of it.
    """

    engine: str
    peak_bytes: int
    kv_bytes: int
    beyond_bytes: int
    idle_cpu_share: float


@dataclass
class BusyResult:
    """Speed beside busy neighbours against speed alone.

    Attributes:
        test: what was timed.
        num_neighbours: busy processes of one thread each.
        fair_share: of its speed alone that a fair scheduler leaves the engine.
        alone, beside: tokens/s by engine name.
    """

    test: SpeedTest
    num_neighbours: int
    fair_share: float
    alone: dict[str, Series]
    beside: dict[str, Series]

    def share_kept(self, engine: str) -> float | None:
        """Median beside the neighbours over the median alone."""
        return ratio(self.beside[engine].median, self.alone[engine].median)


@dataclass
class Report:
    """Everything one run found.

    Attributes:
        model: facts about the model's file.
        machine: facts about the computer.
        engines: names in order, ours first.
        bandwidth: bytes/s by number of threads.
        file_bandwidth: the same of the mapped file, read from front to back.
        speeds, busy: one entry a test.
        start: load and first token.
        between_steps: one entry a way of choosing tokens.
        first_compile_s: seconds to the first token with an empty kernel cache; None when not asked for.
        processes: memory and idle use.
        notes: what a reader must know to trust the figures.
    """

    model: dict[str, object]
    machine: dict[str, object]
    engines: list[str]
    bandwidth: dict[int, float] = field(default_factory=dict)
    file_bandwidth: dict[int, float] = field(default_factory=dict)
    speeds: list[SpeedResult] = field(default_factory=list)
    start: StartResult = field(default_factory=StartResult)
    between_steps: list[BetweenSteps] = field(default_factory=list)
    first_compile_s: float | None = None
    processes: list[ProcessResult] = field(default_factory=list)
    busy: list[BusyResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_plain(self) -> dict[str, object]:
        """The report for JSON; speeds in tokens/s, times in s, bandwidth in bytes/s."""
        return {
            "model": self.model,
            "machine": self.machine,
            "engines": self.engines,
            "bandwidth": {str(threads): value for threads, value in self.bandwidth.items()},
            "file_bandwidth": {str(threads): value for threads, value in self.file_bandwidth.items()},
            "speeds": [self._plain_speed(result) for result in self.speeds],
            "between_steps": [{**vars(result), "share": result.share} for result in self.between_steps],
            "load_s": _plain_series(self.start.loads),
            "first_token_s": _plain_series(self.start.first_tokens),
            "first_compile_s": self.first_compile_s,
            "processes": [vars(result) for result in self.processes],
            "busy": [self._plain_busy(result) for result in self.busy],
            "notes": self.notes,
        }

    def ratios(self, series: dict[str, Series], *, is_time: bool = False) -> dict[str, float | None]:
        """How many times better ours is than each peer."""
        own = series[OWN].median if OWN in series else None
        peers = {name: series[name].median for name in self.engines if name != OWN and name in series}
        return {name: ratio(peer, own) if is_time else ratio(own, peer) for name, peer in peers.items()}

    def _plain_speed(self, result: SpeedResult) -> dict[str, object]:
        shares = {name: result.bandwidth_share(name) for name in result.speeds}
        return {
            **vars(result.test),
            "tokens_per_second": _plain_series(result.speeds),
            "ratio": self.ratios(result.speeds),
            "bytes_per_token": result.bytes_per_token,
            "bandwidth_share": shares,
        }

    def _plain_busy(self, result: BusyResult) -> dict[str, object]:
        return {
            **vars(result.test),
            "num_neighbours": result.num_neighbours,
            "fair_share": result.fair_share,
            "alone": _plain_series(result.alone),
            "beside": _plain_series(result.beside),
            "share_kept": {name: result.share_kept(name) for name in result.alone},
        }


def ratio(value: float | None, base: float | None) -> float | None:
    """``value / base``, None where either is absent or zero."""
    return value / base if value and base else None


def _plain_series(series: dict[str, Series]) -> dict[str, object]:
    return {name: {"median": one.median, "samples": one.samples} for name, one in series.items()}
