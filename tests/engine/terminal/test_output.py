from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

from engine.protocol import Channel, Delta
from engine.terminal.output import Output, printable


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_control_characters_are_shown_on_a_screen_and_kept_in_a_pipe() -> None:
    screen, pipe = Screen(), io.StringIO()
    Output(False, screen, Screen()).text("a\x1b[31mb\x07\n\tc\x9b")
    Output(False, pipe, Screen()).text("a\x1b[31mb", end="")
    assert screen.getvalue() == "a␛[31mb␇\n\tc�\n"
    assert pipe.getvalue() == "a\x1b[31mb"
    assert printable("grüße 🦙\n") == "grüße 🦙\n"


def test_documents_are_valid_json() -> None:
    out = io.StringIO()
    output = Output(True, out, io.StringIO())
    output.text("never with --json")
    output.json({"delta": Delta("a", Channel.ANSWER, "ü\n", 1), "path": Path("x"), "bad": float("nan")})
    output.json([np.int32(3), (1, 2), np.float32("inf")])
    first, second = out.getvalue().splitlines()
    assert json.loads(first) == {
        "delta": {"request_id": "a", "channel": "answer", "text": "ü\n", "num_completion_tokens": 1},
        "path": "x",
        "bad": "nan",
    }
    assert json.loads(second) == [3, [1, 2], "inf"]


def test_progress_is_replaced_and_only_on_a_screen() -> None:
    screen, pipe = Screen(), io.StringIO()
    for stream in (screen, pipe):
        output = Output(False, io.StringIO(), stream)
        output.progress("loading 10 %")
        output.progress("done")
        output.note("remark")
    assert screen.getvalue().endswith("\rremark\n")
    assert "loading" in screen.getvalue()
    assert pipe.getvalue() == "remark\n"


def test_an_error_is_a_sentence_and_a_document() -> None:
    out, err = io.StringIO(), io.StringIO()
    Output(True, out, err).error("It failed; try again.")
    assert err.getvalue() == "It failed; try again.\n"
    assert json.loads(out.getvalue()) == {"error": "It failed; try again."}
