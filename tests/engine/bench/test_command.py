"""``python -m engine bench`` from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from engine.terminal.cli import main
from tests.tiny_models import write_tiny_model

QUICK = [
    *("--backend", "reference", "--prompts", "20", "--depths", "0", "--threads", "1"),
    *("--repetitions", "1", "--decode-tokens", "2", "--no-start"),
]


def test_the_results_are_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_tiny_model("llama", tmp_path)
    assert main(["bench", str(path), "--json", *QUICK]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["model"]["architecture"] == "llama"
    assert [(test["kind"], test["num_tokens"]) for test in found["speeds"]] == [("prefill", 20), ("decode", 2)]
    assert found["first_token_s"] == {}


def test_the_results_are_a_table_and_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("FIRESIDE_CACHE_DIR", str(tmp_path / "cache"))
    plot = tmp_path / "out.svg"
    assert main(["bench", "--synthetic", "tiny-q8_0", "--plot", str(plot), *QUICK]) == 0
    captured = capfd.readouterr()
    assert "prefill 20" in captured.out
    assert "synthetic tiny q8_0 (llama" in captured.out
    assert plot.exists()
    assert list((tmp_path / "cache" / "bench").glob("*.gguf"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--synthetic", "9b-q4_0"], "no synthetic model"),
        (["--synthetic", ""], "'' is no synthetic model"),
        (["m.gguf", "--synthetic", "tiny-q4_0"], "not both"),
        (["m.gguf", "--busy", "-1"], "0 to 256"),
        (["m.gguf", "--llama-bench", "absent"], "There is no program absent"),
        (["m.gguf", "--llama-bench", ""], " is a folder"),
        (["m.gguf", "--llama-bench", "x" * 5000], "There is no program xxx"),
        (["m.gguf", "--llama-bench", "~nobody-of-that-name/x"], "There is no program ~nobody"),
        (["absent.gguf"], "absent.gguf"),
        (["m.gguf", "--plot", "out.txt"], r".png, .svg, .pdf"),
        (["m.gguf", "--plot", "absent/out.png"], "does not exist"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "0"], "'0' is not a whole number from 1 to 512"),
        (["--threads", "1,,2"], "'' is not a whole number from 1 to 512"),
        (["--threads", "1,1024"], "'1024' is not a whole number from 1 to 512"),
        (["--streams", "x"], "'x' is not a whole number from 1 to 1,024"),
        (["--prompts", "-1"], "'-1' is not a whole number from 1 to 1,048,576"),
        (["--prompts", "512,0"], "'0' is not a whole number from 1 to 1,048,576"),
        (["--depths", "1e3"], "'1e3' is not a whole number from 0 to 1,048,576"),
        (["--repetitions", "0"], "'0' is not a whole number from 1 to 1,024"),
        (["--limit", "nan"], "'nan' is not a number of seconds from 0 on"),
        (["--limit", "inf"], "'inf' is not a number of seconds from 0 on"),
    ],
)
def test_wrong_numbers_are_wrong_usage(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "m.gguf", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_a_missing_peer_is_named_with_the_command_that_adds_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["bench", "m.gguf", "--peer", "ik-llama"]) == 1
    told = "The package ik-llama-cpp-python is not installed; this adds it: "
    assert capsys.readouterr().err.startswith(told + sys.executable + " -m pip install ik-llama-cpp-python")


def test_a_paste_of_less_than_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench-chat", "m.gguf", "--paste", "-1"]) == 1
    assert capsys.readouterr().err == "--paste -1: the number of tokens is 0 or more.\n"
