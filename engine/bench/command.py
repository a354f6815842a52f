"""``bench``: the arguments of a benchmark, and its results on the terminal."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
from pathlib import Path

from engine.bench.extras import missing_extra
from engine.bench.llama_bench import LlamaBench, check_program
from engine.bench.plot import check_plot, write_plot
from engine.bench.session import IK_LLAMA, LLAMA_BENCH, WHEELS, XLLAMACPP, BenchOptions, run_benchmark
from engine.bench.synthetic import cached_model
from engine.bench.table import render_table
from engine.errors import EngineError
from engine.loader import MAX_THREADS, num_physical_cores
from engine.terminal.models import find_model
from engine.terminal.output import Output

_MODULES = {XLLAMACPP: "xllamacpp", IK_LLAMA: "ik_llama_cpp"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options beside MODEL and ``--json``."""
    parser.add_argument(
        "--synthetic", metavar="SHAPE-TYPE", help="instead of MODEL, random weights in a real shape, e.g. 1b-q4_k_m"
    )
    parser.add_argument("--backend", choices=("cpu", "reference"), default="cpu")
    parser.add_argument("--kv-type", choices=("f16", "q8_0"), default="f16", help="of our KV cache (%(default)s)")
    what = parser.add_argument_group("what to measure")
    what.add_argument(
        "--threads", type=_thread_counts, metavar="LIST", help="thread counts (1 and one a physical core)"
    )
    what.add_argument(
        "--prompts", type=_lengths, default=(512, 2048), metavar="LIST", help="prefill lengths (512,2048)"
    )
    what.add_argument("--depths", type=_sizes, default=(0, 4096), metavar="LIST", help="decode depths (0,4096)")
    what.add_argument(
        "--decode-tokens", type=_count, default=32, metavar="N", help="tokens of a sample (%(default)s)"
    )
    what.add_argument(
        "--repetitions", type=_count, default=5, metavar="N", help="samples of a median (%(default)s)"
    )
    what.add_argument(
        "--limit",
        type=_seconds,
        default=6.0,
        metavar="S",
        help="leave out further repetitions of a test that has run so long (%(default)s s)",
    )
    what.add_argument(
        "--busy", type=int, default=0, metavar="N", help="also beside N busy processes: the share kept"
    )
    what.add_argument(
        "--streams",
        type=_counts,
        default=(),
        metavar="LIST",
        help="also so many sequences at once, e.g. 2,8",
    )
    what.add_argument("--cold", action="store_true", help="also a start with nothing compiled yet")
    what.add_argument("--no-start", action="store_true", help="without load and first token")
    peer = parser.add_argument_group("peer").add_mutually_exclusive_group()
    peer.add_argument(
        "--peer", choices=WHEELS, help="llama.cpp, or the fork ik_llama.cpp, from its PyPI wheel, in turn with ours"
    )
    peer.add_argument("--llama-bench", metavar="PATH", help="the llama-bench program of a native build")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture of the speeds (.png, .svg, .pdf)")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Measure and print."""
    if arguments.plot:
        check_plot(arguments.plot)
    if arguments.peer:
        check_peer(arguments.peer)
    options = _options(arguments, output)
    try:
        report = run_benchmark(options, lambda text: output.progress(f"Measuring {text} ..."))
    finally:
        output.end_progress()
    output.text(render_table(report))
    output.json(report.as_plain())
    if arguments.plot:
        write_plot(report, arguments.plot)
        output.note(f"The plot is in {arguments.plot}.")
    return 0


def _options(arguments: argparse.Namespace, output: Output) -> BenchOptions:
    if arguments.synthetic is not None and arguments.model is not None:
        raise EngineError("Give either a model or --synthetic, not both.")
    if not 0 <= arguments.busy <= 256:
        raise EngineError(f"--busy {arguments.busy}: the number of busy processes is 0 to 256.")
    program = None
    if arguments.llama_bench is not None:
        program = Path(os.path.expanduser(arguments.llama_bench))
        output.progress("Asking llama-bench ...")
        check_program(program)
    if arguments.synthetic is not None:
        output.progress("Writing the model ...")
        path = cached_model(arguments.synthetic)
    else:
        path = find_model(arguments.model)
    if program:
        output.progress("Asking llama-bench for the model ...")
        LlamaBench(program, path, 1).check()
    return BenchOptions(
        path=path,
        backend=arguments.backend,
        kv_type=arguments.kv_type,
        thread_counts=arguments.threads or tuple(sorted({1, num_physical_cores()})),
        prompts=arguments.prompts,
        depths=arguments.depths,
        num_decode_tokens=arguments.decode_tokens,
        repetitions=arguments.repetitions,
        limit_s=arguments.limit,
        peer=arguments.peer or (LLAMA_BENCH if program else None),
        llama_bench=program,
        num_neighbours=arguments.busy,
        streams=arguments.streams,
        has_start=not arguments.no_start,
        has_first_compile=arguments.cold,
    )


def check_peer(name: str = XLLAMACPP) -> None:
    """Raise EngineError where the peer is not installed."""
    import importlib.util

    if importlib.util.find_spec(_MODULES[name]) is None:
        raise missing_extra(_MODULES[name])


def _count(text: str) -> int:
    return _number(text, 1, 1024)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({_count(part) for part in text.split(",")}))


def _thread_counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({_number(part, 1, MAX_THREADS) for part in text.split(",")}))


def _sizes(text: str, least: int = 0) -> tuple[int, ...]:
    """``512,2048`` as numbers; an empty text is none."""
    return tuple(_number(part, least, 1 << 20) for part in text.split(",") if part.strip())


def _lengths(text: str) -> tuple[int, ...]:
    return _sizes(text, 1)


def _number(text: str, least: int, most: int) -> int:
    with contextlib.suppress(ValueError):
        number = int(text)
        if least <= number <= most:
            return number
    raise argparse.ArgumentTypeError(f"{text.strip()!r} is not a whole number from {least:,} to {most:,}")


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        seconds = float(text)
        if 0 <= seconds < math.inf:
            return seconds
    raise argparse.ArgumentTypeError(f"{text.strip()!r} is not a number of seconds from 0 on")
