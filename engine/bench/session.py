"""The schedule of a benchmark: what is measured when, our engine and the peer in turn, each in its own process."""

from __future__ import annotations

import contextlib
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import psutil

from engine.bench.engines import TimedEngine, WorkerEngine, open_own, open_wheel
from engine.bench.llama_bench import LlamaBench
from engine.bench.neighbours import busy_neighbours, fair_share
from engine.bench.own import STREAM_PROMPT
from engine.bench.processes import WorkerProcess
from engine.bench.results import (
    OWN,
    BetweenSteps,
    BusyResult,
    ProcessResult,
    Report,
    Series,
    SpeedResult,
    SpeedTest,
    ratio,
)
from engine.bench.traffic import kv_bytes_per_token, peer_kv_bytes, weight_bytes_per_token
from engine.config import KVType
from engine.errors import EngineError
from engine.gguf import open_model
from engine.loader import num_physical_cores, tensor_type_name
from engine.model import bind_weights, build_plan, read_hyperparameters
from engine.model.plan import BLOCK_SIZE, Plan

Progress = Callable[[str], None]

XLLAMACPP: Final = "xllamacpp"
IK_LLAMA: Final = "ik-llama"
WHEELS: Final = (XLLAMACPP, IK_LLAMA)  # peers that pip installs
LLAMA_BENCH: Final = "llama-bench"
PEER_BATCH_TOKENS = 512
_FEWEST_SAMPLES = 2
_IDLE_S = 1.0
_WIDE_SPREAD = 1.4
_BUSY_SHARE = 0.15  # of the processor in other hands at the start, from which on the figures deserve a warning


@dataclass(frozen=True)
class BenchOptions:
    """What to measure.

    Attributes:
        path: the model.
        backend: "cpu" or "reference".
        kv_type: of our KV cache; a peer keeps its own.
        thread_counts: each gets all speed tests; the last one the rest.
        prompts: prefill lengths in tokens.
        depths: tokens in the KV cache before decoding.
        num_decode_tokens: tokens of a decode sample.
        repetitions: samples of each figure.
        limit_s: once an engine has been timed this long in a test, its further repetitions are left out.
        peer: whom to compare with.
        llama_bench: the program, for that peer.
        num_neighbours: busy processes for the last section; 0 leaves it out.
        streams: numbers of sequences decoded at once, for our engine alone; 1 is added where there are any.
        has_start: measure load and first token.
        has_first_compile: measure a start with an empty kernel cache.
    """

    path: Path
    backend: Literal["cpu", "reference"]
    thread_counts: tuple[int, ...]
    prompts: tuple[int, ...]
    depths: tuple[int, ...]
    num_decode_tokens: int
    repetitions: int
    limit_s: float
    kv_type: KVType = "f16"
    peer: Literal["xllamacpp", "ik-llama", "llama-bench"] | None = None
    llama_bench: Path | None = None
    num_neighbours: int = 0
    streams: tuple[int, ...] = ()
    has_start: bool = True
    has_first_compile: bool = False

    @property
    def added_tokens(self) -> int:
        """What the repetitions of a decode test add to a sequence."""
        return (self.repetitions + 1) * (self.num_decode_tokens + 2)

    @property
    def context_tokens(self) -> int:
        """What a sequence must hold: the longest test, and what its repetitions add."""
        wanted = max((*self.prompts, *self.depths), default=0) + self.added_tokens
        return -(-wanted // 256) * 256  # llama.cpp rounds, too

    def within(self, context_length: int) -> BenchOptions:
        """Without the tests that need more tokens than the model was trained for."""
        prompts = tuple(prompt for prompt in self.prompts if prompt < context_length)
        depths = tuple(depth for depth in self.depths if depth + self.added_tokens <= context_length)
        return replace(self, prompts=prompts, depths=depths)


def run_benchmark(options: BenchOptions, on_progress: Progress) -> Report:
    """Measure everything. Raises EngineError when the model, our engine or the peer fails."""
    with open_model(options.path) as file:
        hyperparameters = read_hyperparameters(file)
        possible = options.within(hyperparameters.context_length)
        plan = build_plan(hyperparameters, bind_weights(file, hyperparameters), possible.context_tokens)
        session = _Session(possible, on_progress, plan, hyperparameters.vocab_size, file.file_bytes)
        if possible != options:
            session.report.notes.append(
                f"The model was trained for {hyperparameters.context_length:,} tokens; longer tests are left out."
            )
        session.report.model = {
            "file": options.path.name,
            "name": file.metadata.string("general.name", options.path.stem),
            "architecture": hyperparameters.architecture,
            "tensor_type": tensor_type_name(file),
            "file_bytes": file.file_bytes,
            "kv_type": options.kv_type,
        }
        session.run()
    return session.report


class _Session:
    """One run over one model."""

    def __init__(
        self, options: BenchOptions, on_progress: Progress, plan: Plan, vocab_size: int, file_bytes: int
    ) -> None:
        self.options = options
        self.on_progress = on_progress
        self.plan = plan
        self.vocab_size = vocab_size
        self.file_bytes = file_bytes
        self.report = Report({}, _machine(), [OWN, *([options.peer] if options.peer else [])])

    def run(self) -> None:
        used = psutil.cpu_percent(0.5) / 100
        if used > _BUSY_SHARE:
            self.report.notes.append(f"Other programs used {used:.0%} of the processor when the run began.")
        most_threads, places = max(self.options.thread_counts), psutil.cpu_count() or 1
        if most_threads > places:
            note = f"{most_threads:,} threads take turns on this machine, which runs {places:,} at once."
            self.report.notes.append(note)
        self._measure_start()
        self._measure_bandwidth()
        for num_threads in self.options.thread_counts:
            self._measure_speeds(num_threads, is_last=num_threads == self.options.thread_counts[-1])
        sections: tuple[tuple[str, Callable[[int], None]], ...] = (
            ("What passes between two steps", self._measure_between_steps),
            ("Several sequences at once", self._measure_streams),
            ("The speed beside busy processes", self._measure_busy),
        )
        for told, measure in sections:
            try:
                measure(self.options.thread_counts[-1])
            except EngineError as error:  # what was measured before is worth more than this
                self.report.notes.append(f"{told} could not be measured: {error}")

    def _measure_start(self) -> None:
        """Also fills the kernel cache and the page cache for all that follows."""
        if self.options.has_first_compile:
            self.on_progress("first start, with an empty kernel cache")
            with tempfile.TemporaryDirectory() as folder:
                started = self._start_once("own", {"FIRESIDE_CACHE_DIR": folder})
                self.report.first_compile_s = started[1]
        self.on_progress("warming the caches")
        self._start_once("own")
        if not self.options.has_start:
            return
        peer = self.options.peer
        sides = {OWN: "own"} | ({peer: peer} if peer in WHEELS else {})
        start = self.report.start
        for repetition in range(self.options.repetitions):
            self.on_progress(f"load and first token, {repetition + 1} of {self.options.repetitions}")
            for name, side in sides.items():
                loaded, first_token = self._start_once(side)
                start.loads.setdefault(name, Series()).samples.append(loaded)
                start.first_tokens.setdefault(name, Series()).samples.append(first_token)

    def _start_once(self, engine: str, environment: dict[str, str] | None = None) -> tuple[float, float]:
        arguments = {"task": "first token", "engine": engine, "path": str(self.options.path)}
        threads = {"num_threads": self.options.thread_counts[-1]}
        backend = {"backend": self.options.backend} if engine == "own" else {}
        with WorkerProcess(f"{engine} (first token)", {**arguments, **threads, **backend}, environment) as worker:
            begun, _ = worker.receive()
            loaded, _ = worker.receive()
            finished, _ = worker.receive()
        # The peer's clock starts when Python and this package are up: a program of its own needs neither.
        started = worker.started if engine == "own" else begun
        return loaded - started, finished - started

    def _measure_bandwidth(self) -> None:
        self.on_progress("memory bandwidth")
        arguments = {
            "task": "bandwidth",
            "thread_counts": list(self.options.thread_counts),
            "path": str(self.options.path),
        }
        with WorkerProcess("bandwidth", arguments) as worker:
            found: list[dict[str, float]] = worker.receive()[1]
        memory, file = ({int(threads): value for threads, value in each.items()} for each in found)
        self.report.bandwidth, self.report.file_bandwidth = memory, file

    def _measure_speeds(self, num_threads: int, *, is_last: bool) -> None:
        tests = self._tests(num_threads)
        if not tests:
            return
        with contextlib.ExitStack() as stack:
            engines = self._open_engines(stack, num_threads)
            for test in tests:
                for name, engine in engines.items():
                    self.on_progress(f"{test.label}, {num_threads} threads: {name} fills its KV cache")
                    engine.prepare(test)
                self.on_progress(f"{test.label}, {num_threads} threads")
                speeds = collect_samples(test, engines, self.options.repetitions, self.options.limit_s)
                self.report.speeds.append(
                    SpeedResult(test, speeds, self._traffic(test), self.report.bandwidth.get(num_threads, 0.0))
                )
                self._note_spread(test, speeds)
            if is_last:
                self._measure_processes(engines)

    def _note_spread(self, test: SpeedTest, speeds: Mapping[str, Series]) -> None:
        for name, series in speeds.items():
            if series.spread > _WIDE_SPREAD:
                self.report.notes.append(
                    f"{name}, {test.label}, threads {test.num_threads}: the fastest sample is {series.spread:.1f} "
                    "times the slowest, so something else was running."
                )

    def _tests(self, num_threads: int) -> list[SpeedTest]:
        prefills = [SpeedTest("prefill", prompt, 0, num_threads) for prompt in self.options.prompts]
        num_tokens = self.options.num_decode_tokens
        decodes = [SpeedTest("decode", num_tokens, depth, num_threads) for depth in sorted(self.options.depths)]
        return prefills + decodes

    def _traffic(self, test: SpeedTest) -> int:
        if test.kind == "prefill":
            return 0
        return weight_bytes_per_token(self.plan) + kv_bytes_per_token(self.plan, test.depth, self.options.kv_type)

    def _open_engines(self, stack: contextlib.ExitStack, num_threads: int) -> dict[str, TimedEngine]:
        options = self.options
        engines: dict[str, TimedEngine] = {
            OWN: open_own(
                options.path,
                name=OWN,
                backend=options.backend,
                kv_type=options.kv_type,
                num_threads=num_threads,
                num_tokens=options.context_tokens,
            )
        }
        stack.callback(engines[OWN].close)
        if options.peer in WHEELS:
            engines[options.peer] = open_wheel(
                options.path,
                name=options.peer,
                num_threads=num_threads,
                num_fill_threads=max(options.thread_counts),
                vocab_size=self.vocab_size,
                num_tokens=options.context_tokens,
            )
            stack.callback(engines[options.peer].close)
        elif options.peer == LLAMA_BENCH and options.llama_bench is not None:
            engines[LLAMA_BENCH] = LlamaBench(options.llama_bench, options.path, options.repetitions)
        return engines

    def _measure_processes(self, engines: Mapping[str, TimedEngine]) -> None:
        self.on_progress("memory and idle use")
        workers = {name: engine.worker for name, engine in engines.items() if isinstance(engine, WorkerEngine)}
        facts = {name: worker.ask("facts") for name, worker in workers.items()}
        time.sleep(_IDLE_S / 4)  # threads that wait a while for more work go to sleep
        before = {name: worker.cpu_seconds() for name, worker in workers.items()}
        time.sleep(_IDLE_S)
        for name, worker in workers.items():
            peak_bytes = facts[name]["peak_bytes"]
            kv_bytes = facts[name].get("kv_bytes")
            if kv_bytes is None:
                kv_bytes = peer_kv_bytes(self.plan, self.options.context_tokens, PEER_BATCH_TOKENS)
            idle = (worker.cpu_seconds() - before[name]) / _IDLE_S
            beyond = peak_bytes - kv_bytes - self.file_bytes
            self.report.processes.append(ProcessResult(name, peak_bytes, kv_bytes, beyond, idle))
            if "instruction_set" in facts[name]:
                self.report.machine["instruction_set"] = facts[name]["instruction_set"]

    def _measure_between_steps(self, num_threads: int) -> None:
        if self.options.backend != "cpu" or not self.options.depths:
            return
        self.on_progress("what passes between two steps")
        arguments = {"path": str(self.options.path), "num_threads": num_threads}
        wanted = {"task": "between steps", "num_tokens": self.options.num_decode_tokens, **arguments}
        with WorkerProcess("between steps", wanted) as worker:
            self.report.between_steps = [BetweenSteps(**found) for found in worker.receive()[1]]

    def _measure_streams(self, num_threads: int) -> None:
        options = self.options
        if not options.streams:
            return
        counts = sorted({1, *options.streams})
        length = -(-(STREAM_PROMPT + options.num_decode_tokens) // BLOCK_SIZE) * BLOCK_SIZE
        own = open_own(
            options.path,
            name=OWN,
            backend=options.backend,
            kv_type=options.kv_type,
            num_threads=num_threads,
            num_tokens=counts[-1] * length,
        )
        tests = [SpeedTest("streams", options.num_decode_tokens, 0, num_threads, count) for count in counts]
        series = {test: Series() for test in tests}
        with contextlib.closing(own):
            for repetition in range(options.repetitions):
                for test in tests if repetition % 2 == 0 else reversed(tests):
                    self.on_progress(f"{test.label}, {num_threads} threads, {repetition + 1}")
                    series[test].samples.append(own.sample(test))
        others = {name: Series() for name in self.report.engines if name != OWN}
        for test in tests:
            self.report.speeds.append(SpeedResult(test, {OWN: series[test], **others}))
            gain = ratio(series[test].median, series[tests[0]].median)
            if test.num_streams > 1 and gain:
                note = f"{test.num_streams} sequences at once give {gain:.1f} times the tokens/s of one."
                self.report.notes.append(note)

    def _measure_busy(self, num_threads: int) -> None:
        num_neighbours = self.options.num_neighbours
        if not num_neighbours:
            return
        share = fair_share(num_physical_cores(), num_threads, num_neighbours)
        with contextlib.ExitStack() as stack:
            engines = self._open_engines(stack, num_threads)
            for test in self._busy_tests(num_threads):
                result = BusyResult(
                    test,
                    num_neighbours,
                    share,
                    {name: Series() for name in engines},
                    {name: Series() for name in engines},
                )
                self.report.busy.append(result)
                for repetition in range(self.options.repetitions):
                    self.on_progress(f"{test.label} beside {num_neighbours} busy processes, {repetition + 1}")
                    for name, engine in engines.items():
                        result.alone[name].samples.append(engine.sample(test))
                        with busy_neighbours(num_neighbours):
                            result.beside[name].samples.append(engine.sample(test))

    def _busy_tests(self, num_threads: int) -> list[SpeedTest]:
        tests = [SpeedTest("prefill", prompt, 0, num_threads) for prompt in sorted(self.options.prompts)[:1]]
        return [*tests, SpeedTest("decode", self.options.num_decode_tokens, 0, num_threads)]


def collect_samples(
    test: SpeedTest, engines: Mapping[str, TimedEngine], repetitions: int, limit_s: float
) -> dict[str, Series]:
    """Sample the engines in turn; who goes first alternates, so that a trend favours nobody."""
    series = {name: Series() for name in engines}
    spent_s = dict.fromkeys(engines, 0.0)
    for repetition in range(repetitions):
        order = list(engines.items())
        for name, engine in order if repetition % 2 == 0 else reversed(order):
            if repetition >= _FEWEST_SAMPLES and spent_s[name] > limit_s:
                continue
            speed = engine.sample(test)
            spent_s[name] += test.num_tokens / speed
            series[name].samples.append(speed)
    return series


def _machine() -> dict[str, object]:
    return {
        "processor": _processor_name(),
        "physical_cores": num_physical_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _processor_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
