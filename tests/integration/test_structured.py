"""Answers in a given form, decisions and extraction with a real model."""

from __future__ import annotations

import csv
import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from engine.config import EngineConfig
from engine.extraction.journal import Journal
from engine.loader import load_model
from engine.protocol import LoadModel, Message, Role
from engine.scoring import score_tokens
from engine.terminal.cli import main

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30},
        "mood": {"enum": ["happy", "sad"]},
    },
    "required": ["city", "nights", "mood"],
    "additionalProperties": False,
}


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_answer_is_valid_and_its_certainty_is_what_the_model_gave(
    smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    prompt = "I stayed three nights in Lisbon and loved it. JSON:"
    form = ["--schema", str(tmp_path / "s.json"), "--certainty", "--temperature", "0", "--raw"]
    found = run(capsys, "generate", str(smollm2_path), prompt, *form)
    jsonschema.validate(json.loads(found["text"]), SCHEMA)
    structured = found["structured"]
    assert structured["is_valid"]
    assert 0 < structured["num_forced_tokens"] < found["stats"]["num_completion_tokens"]

    model = load_model(LoadModel(smollm2_path, 512), EngineConfig(), lambda phase, fraction, message: None)
    prompt_ids = model.tokenizer.encode_prompt([(prompt, True)])
    answer_ids = model.tokenizer.encode_continuation(found["text"])
    sizes = {"vocab_size": model.info.vocab_size, "context_length": 512}
    scores = score_tokens(model.backend, [*prompt_ids, *answer_ids], **sizes)
    model.close()
    assert len(answer_ids) == found["stats"]["num_completion_tokens"], "as the tokenizer would write it"
    city = json.dumps(json.loads(found["text"])["city"], ensure_ascii=False)[1:]
    start = found["text"].index(city)
    ends = np.cumsum([len(model.tokenizer.token_bytes(i)) for i in answer_ids])
    wanted = sum(
        scores[len(prompt_ids) - 1 + index]
        for index, end in enumerate(ends)
        if end > start and (ends[index - 1] if index else 0) < start + len(city)
    )
    (field,) = (field for field in structured["fields"] if field["path"] == "/city")
    assert math.log(field["probability"]) == pytest.approx(-wanted, abs=0.3)  # other kernels, other rounding


def test_a_cut_off_answer_is_no_success(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(
        capsys, "generate", str(smollm2_path), "Count.", "--regex", "[0-9]{50}", "--max-tokens", "5", code=1
    )
    assert not found["structured"]["is_valid"]
    assert "cut off" in found["structured"]["message"]


def test_a_decision_is_what_the_model_would_write(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = "Which number comes after nine? {choices}"
    found = run(capsys, "decide", str(smollm2_path), question, "--choices", "1,10,eleven")
    assert sum(choice["probability"] for choice in found["choices"]) == pytest.approx(1)
    assert not found["is_calibrated"]

    model = load_model(LoadModel(smollm2_path, 512), EngineConfig(), lambda phase, fraction, message: None)
    asked = (Message(Role.USER, question.replace("{choices}", "1, 10, eleven")),)
    prompt_ids = model.tokenizer.encode_prompt(model.template.render(asked).segments)
    sizes = {"vocab_size": model.info.vocab_size, "context_length": 512}
    for choice in found["choices"]:
        path = model.tokenizer.encode_continuation(choice["text"])
        ends = [
            -float(score_tokens(model.backend, [*prompt_ids, *path, end], **sizes)[len(prompt_ids) - 1 :].sum())
            for end in model.tokenizer.end_token_ids
        ]
        assert choice["logprob"] == pytest.approx(np.logaddexp.reduce(ends), abs=0.3), choice["text"]
    model.close()
    assert found["coverage"] == pytest.approx(sum(math.exp(choice["logprob"]) for choice in found["choices"]))


def test_extraction_gives_a_valid_answer_for_each_row(
    smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    rows = ['"3 nights in Lisbon, wonderful"', '"Two nights, ""Porto"" 🙁"', "5 nights in Rome"]
    (tmp_path / "t.csv").write_text("note\n" + "\n".join(rows) + "\n", encoding="utf-8")
    given = ["--schema", str(tmp_path / "s.json"), "--input", str(tmp_path / "t.csv")]
    arguments = ["extract", str(smollm2_path), *given]
    first = run(capsys, *arguments, "--output", str(tmp_path / "a.jsonl"))
    assert first["num_failed"] == first["num_reused"] == 0
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 3
    for line in lines:
        jsonschema.validate(line["value"], SCHEMA)
        assert 0 < line["certainty"] <= 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "s.json", "t.csv"]
    assert main([*arguments, "--output", str(tmp_path / "a.jsonl"), "--json"]) == 1
    assert "--overwrite" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a process cannot be killed this way here")
def test_a_killed_extraction_keeps_every_finished_row(
    smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    lines = [f'{number},"{number} nights in Lisbon, ""good"" 🦙"' for number in range(1, 15)]
    (tmp_path / "t.csv").write_text('id,"note, long"\n' + "\n".join(lines) + "\n", encoding="utf-8")
    output, progress = tmp_path / "out.csv", tmp_path / "out.csv.progress"
    files = ["--schema", str(tmp_path / "s.json"), "--input", str(tmp_path / "t.csv"), "--output", str(output)]
    command = ["extract", str(smollm2_path), *files, "--columns", '"note, long"', "--together", "4"]
    process = subprocess.Popen([sys.executable, "-m", "engine", *command], stderr=subprocess.DEVNULL)
    while not progress.exists() or progress.read_bytes().count(b"\n") < 4:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = Journal.open(progress).results
    assert 3 <= len(kept) < 14

    summary = run(capsys, *command)
    assert (summary["num_reused"], summary["num_done"], summary["num_failed"]) == (len(kept), 14, 0)
    with output.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["row"] for row in rows] == [str(number) for number in range(1, 15)]
    assert {row: rows[row]["city"] for row in kept} == {row: result.value["city"] for row, result in kept.items()}
    assert not progress.exists()
