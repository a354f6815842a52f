"""Native builds: both dialects of llama-bench, played by a script."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from engine.bench.llama_bench import LlamaBench, check_program
from engine.bench.programs import ProgramError, run_program
from engine.bench.results import SpeedTest
from engine.errors import EngineError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="scripts are no programs there")

PREFILL = SpeedTest("prefill", 512, 0, 2)
DECODE = SpeedTest("decode", 32, 0, 1)
DEEP = SpeedTest("decode", 32, 4096, 1)

SCRIPT = """#!{python} -S
import json, pathlib, sys
arguments = sys.argv[1:]
if "--help" in arguments:
    print({help!r})
    sys.exit(0)
with open({log!r}, "a", encoding="utf-8") as log:
    log.write(" ".join(arguments) + "\\n")
count = int(arguments[arguments.index("-r") + 1])
print("some banner")
print(json.dumps([{{"samples_ts": [10.0]}}, {{"samples_ts": [100.0 + index for index in range(count)]}}]))
"""


def program(folder: Path, text: str) -> Path:
    path = folder / "llama-bench"
    path.write_text(text, encoding="utf-8")
    os.chmod(path, 0o755)
    return path


def script(folder: Path, help_text: str) -> tuple[Path, Path]:
    log = folder / "log.txt"
    return program(folder, SCRIPT.format(python=sys.executable, help=help_text, log=str(log))), log


def test_each_test_has_its_arguments(tmp_path: Path) -> None:
    path, log = script(tmp_path, "  -d, --n-depth <n>")
    bench = LlamaBench(path, Path("m.gguf"), 3)
    assert [bench.sample(test) for test in (PREFILL, DECODE, DEEP)] == [100.0, 100.0, 100.0]
    assert log.read_text(encoding="utf-8").splitlines() == [
        "-m m.gguf -t 2 -r 1 -o json -p 512 -n 0",
        "-m m.gguf -t 1 -r 1 -o json -p 0 -n 32",
        "-m m.gguf -t 1 -r 3 -o json -p 0 -n 32 -d 4096",
    ]


def test_one_run_gives_all_deep_samples(tmp_path: Path) -> None:
    path, log = script(tmp_path, "--n-depth")
    bench = LlamaBench(path, Path("m.gguf"), 3)
    assert [bench.sample(DEEP) for _ in range(4)] == [100.0, 101.0, 102.0, 100.0]
    assert len(log.read_text(encoding="utf-8").splitlines()) == 2


def test_forks_without_depth_take_a_pair(tmp_path: Path) -> None:
    path, log = script(tmp_path, "-gp <pp,tg>")
    assert LlamaBench(path, Path("m.gguf"), 2).sample(DEEP) == 100.0
    assert log.read_text(encoding="utf-8").strip().endswith("-p 0 -n 0 -gp 4096,32")


def test_a_failing_program_is_quoted(tmp_path: Path) -> None:
    path = program(tmp_path, f"#!{sys.executable} -S\nimport sys\nsys.exit('no such model')\n")
    with pytest.raises(EngineError, match="failed with code 1: no such model"):
        LlamaBench(path, Path("m.gguf"), 1).sample(DECODE)


@pytest.mark.parametrize(
    "printed",
    [
        *("hello", "", "[]", '[{"samples_ts": []}]', "[1]", "[{", "[" * 5000, '{"samples_ts": [1]}'),
        *('[{"samples_ts": [0]}]', '[{"samples_ts": [-1.0]}]', '[{"samples_ts": [NaN]}]'),
        *('[{"samples_ts": ["fast"]}]', '[{"samples_ts": [Infinity]}]'),
    ],
)
def test_other_output_is_no_result(tmp_path: Path, printed: str) -> None:
    path = program(tmp_path, f"#!{sys.executable} -S\nprint({printed!r})\n")
    with pytest.raises(EngineError, match="printed no speeds for decode at 0; --llama-bench wants"):
        LlamaBench(path, Path("m.gguf"), 1).sample(DECODE)


def test_what_stands_before_the_results_is_passed_over(tmp_path: Path) -> None:
    printed = '[INFO] loading [1]\n[2]\n[{"samples_ts": [7.5]}]\ndone'
    path = program(tmp_path, f"#!{sys.executable} -S\nprint({printed!r})\n")
    assert LlamaBench(path, Path("m.gguf"), 1).sample(DECODE) == 7.5


HELP = "-m, --model -t, --threads -r, --repetitions -p, --n-prompt -n, --n-gen -o, --output"


def test_what_answers_as_a_llama_bench_is_one(tmp_path: Path) -> None:
    """Also one that calls it a failure to be asked, and one that prints its help as an error."""
    check_program(script(tmp_path, HELP)[0])
    check_program(program(tmp_path, f"#!{sys.executable} -S\nimport sys\nsys.exit({HELP!r})\n"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("text", "cannot be run: Exec format error when asked for --help"),
        ("#!/absent/interpreter\n", "cannot be run: No such file or directory"),
        ("#!/bin/sh\n", "is no llama-bench: its --help does not name --model"),
        (f"#!/bin/sh\necho '{HELP.replace('-n, --n-gen', '')}'\n", "its --help does not name --n-gen"),
        ("#!/bin/sh\nkill -SEGV $$\n", "failed with the signal SIGSEGV when asked for --help"),
        ("#!/bin/sh\nsleep 60\nsleep 60\n", "did not end within 1 s when asked for --help"),
        ("#!/bin/sh\nread line\necho $line\n", "does not name --model"),  # there is nothing to read
        ("#!/bin/sh\nwhile :; do echo yyyyyyyyyyyyyyyy; done\n", "printed more than 0 MB when asked for"),
    ],
)
def test_what_is_no_llama_bench_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, told: str
) -> None:
    monkeypatch.setattr("engine.bench.llama_bench.HELP_TIMEOUT_S", 0.6)
    monkeypatch.setattr("engine.bench.programs.MAX_OUTPUT_BYTES", 1000)
    with pytest.raises(EngineError, match=told) as caught:
        check_program(program(tmp_path, content))
    assert str(caught.value).endswith("; --llama-bench wants the path of a built llama-bench.")


def test_folders_and_absent_files_are_no_programs(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="is a folder; --llama-bench wants"):
        check_program(tmp_path)
    with pytest.raises(EngineError, match="There is no program"):
        check_program(tmp_path / "absent")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may run what nobody may")
def test_a_file_that_nobody_may_run_is_said(tmp_path: Path) -> None:
    path = program(tmp_path, "#!/bin/sh\n")
    path.chmod(0o644)
    with pytest.raises(EngineError, match="cannot be run: Permission denied"):
        check_program(path)


def test_a_model_it_cannot_read_is_said_before_anything_is_timed(tmp_path: Path) -> None:
    path = program(
        tmp_path, f"#!{sys.executable} -S\nimport sys\nprint('loading')\nsys.exit('unknown architecture')\n"
    )
    with pytest.raises(EngineError, match="failed with code 1: unknown architecture"):
        LlamaBench(path, Path("m.gguf"), 1).check()


def test_children_end_with_the_program(tmp_path: Path) -> None:
    """A script's child, which holds what the script prints to."""
    kept = tmp_path / "child"
    path = program(tmp_path, f"#!/bin/sh\nsleep 60 & echo $! > {kept}\nwait\n")
    started = time.monotonic()
    with pytest.raises(ProgramError, match="did not end within"):
        run_program([str(path)], 0.7)
    assert time.monotonic() - started < 30
    pid = int(kept.read_text(encoding="utf-8"))
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(10)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
