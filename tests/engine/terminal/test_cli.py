"""The terminal as a person or a script meets it, in this process."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineError
from engine.terminal import arguments
from engine.terminal.cli import main
from tests.tiny_models import write_tiny_model


class Terminal:
    """Runs commands and keeps what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.out = ""
        self.err = ""

    def run(self, *arguments: object, stdin: str = "") -> int:
        self._monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        self._capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *arguments: object, stdin: str = "", code: int = 0) -> Any:
        assert self.run(*arguments, "--json", stdin=stdin) == code, self.err
        return json.loads(self.out)


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(capsys, monkeypatch)


def test_inspect_shows_header_template_and_tensors(terminal: Terminal, smollm2_path: Path) -> None:
    facts = terminal.json("inspect", smollm2_path)
    assert facts["architecture"] == "llama"
    assert facts["tensor_type"] == "Q4_1"
    assert facts["num_tensors"] == len(facts["tensors"]) == 272
    assert facts["metadata"]["llama.block_count"] == 30
    assert "<|im_start|>" in facts["chat_template"]
    assert facts["tensors"][0].keys() == {"name", "type", "shape", "num_bytes", "shard", "offset"}
    assert terminal.run("inspect", smollm2_path) == 0
    assert "llama.block_count = 30" in terminal.out
    assert "blk.0.attn_q.weight" in terminal.out


def test_inspect_says_whether_the_model_can_run(terminal: Terminal, tmp_path: Path) -> None:
    path = write_tiny_model("llama", tmp_path)
    assert terminal.json("inspect", path)["can_run"] == "yes"
    path.write_bytes(path.read_bytes().replace(b"gpt2", b"bert"))
    assert terminal.json("inspect", path)["can_run"].startswith("no, its tokenizer is WordPiece")
    path.write_bytes(path.read_bytes().replace(b"llama", b"rwkv7"))
    refusal = terminal.json("inspect", path)["can_run"]
    assert refusal.startswith("no, the architecture 'rwkv7' is not supported")
    assert path.name not in refusal


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tokens", -5], "cannot be negative"),
        (["--tokens", 1], "fewer than two tokens"),
        (["--context", 1], "context of one token"),
        (["--context", -1], "cannot be negative"),
        (["--save-logits", "."], r"cannot be written to \.: Is a directory"),
        (["--save-logits", "no/such/folder.npz"], "cannot be written"),
        (["--against", "absent.npz"], "cannot be compared with"),
    ],
)
def test_a_wrong_option_of_score_gets_a_sentence(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[object], message: str
) -> None:
    path = write_tiny_model("llama", tmp_path)
    monkeypatch.chdir(tmp_path)
    command = ("score", path, "-", "--backend", "reference", *options)
    assert re.search(message, terminal.json(*command, stdin="Some words.", code=1)["error"])
    assert [each.name for each in tmp_path.iterdir()] == ["llama.gguf"]


def test_tokenize_equals_the_goldens(terminal: Terminal, smollm2_path: Path, goldens: Path) -> None:
    cases = json.loads((goldens / "logits_smollm2.json").read_text(encoding="utf-8"))["prompts"]
    for case in [case for case in cases if "<|" not in case["text"]][:4]:
        result = terminal.json("tokenize", smollm2_path, "-", stdin=case["text"])
        assert result["token_ids"] == case["tokens"]
        assert result["num_tokens"] == len(case["tokens"])
        assert "".join(result["tokens"]) == case["text"]


def test_tokenize_keeps_control_tokens_out_unless_told(terminal: Terminal, smollm2_path: Path) -> None:
    assert terminal.json("tokenize", smollm2_path, "<|im_end|>", "--specials")["token_ids"] == [2]
    assert terminal.json("tokenize", smollm2_path, "<|im_end|>")["num_tokens"] > 1


def test_tokenize_shows_bytes_and_backslashes_as_they_are(terminal: Terminal, smollm2_path: Path) -> None:
    assert terminal.run("tokenize", smollm2_path, "😀 \\x") == 0
    shown = [ast.literal_eval(line.split(maxsplit=1)[1]) for line in terminal.out.splitlines()[:-1]]
    assert "".join(shown) == "\xf0\x9f\x98\x80 \\x"


def test_without_a_command_the_commands_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    for command, known in (([], "tokenize"), (["models"], "download")):
        with pytest.raises(SystemExit) as left:
            main(command)
        assert left.value.code == 2
        printed = capsys.readouterr()
        assert not printed.out
        assert known in printed.err
        assert printed.err.endswith(": name one of the commands.\n")


def test_tokenize_with_the_first_token_of_a_prompt(terminal: Terminal, gemma3_path: Path) -> None:
    assert terminal.json("tokenize", gemma3_path, "Hello", "--prompt")["token_ids"] == [2, 9259]


def test_score_equals_the_goldens(terminal: Terminal, smollm2_path: Path, goldens: Path, tmp_path: Path) -> None:
    golden = json.loads((goldens / "logits_smollm2.json").read_text(encoding="utf-8"))["nll"]["prose"]
    text = tmp_path / "prose.txt"
    text.write_text(golden["text"], encoding="utf-8")
    result = terminal.json("score", smollm2_path, text)
    assert result["num_tokens"] == golden["n_tokens"]
    assert result["num_predicted"] == golden["n_tokens"] - 1
    assert result["mean_nll"] == pytest.approx(golden["exact_f32kv"]["mean_nll"], rel=0.002)
    arguments = ("score", smollm2_path, "-", "--tokens", 34, "--all", "--backend", "reference")
    few = terminal.json(*arguments, stdin=golden["text"])
    assert len(few["nll"]) == few["num_predicted"] == 33
    assert few["nll"][::16] == pytest.approx(golden["exact_per_token_nll_every_16th"][:3], abs=1e-3)


def test_score_against_logits_kept_from_the_reference(
    terminal: Terminal, smollm2_path: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.npz"
    text = "The quick brown fox jumps over the lazy dog, and then it sleeps."
    terminal.json("score", smollm2_path, "-", "--backend", "reference", "--save-logits", kept, stdin=text)
    result = terminal.json("score", smollm2_path, "-", "--against", kept, stdin=text)["divergence"]
    assert 0 < result["mean_kl"] < 0.02
    assert result["same_top"] > 0.8
    error = terminal.json("score", smollm2_path, "-", "--against", kept, stdin=text + " Yes.", code=1)["error"]
    assert "another text" in error


def test_generate_raw_continues_the_text(terminal: Terminal, smollm2_path: Path, goldens: Path) -> None:
    golden = json.loads((goldens / "logits_smollm2.json").read_text(encoding="utf-8"))["prompts"][0]
    arguments = ("generate", smollm2_path, golden["text"], "--raw", "--temperature", 0, "--max-tokens", 5)
    result = terminal.json(*arguments)
    assert golden["greedy_exact"]["text"].startswith(result["text"])
    assert result["finish_reason"] == "length"
    assert result["stats"]["num_completion_tokens"] == 5
    assert result["stats"]["num_prompt_tokens"] == 5
    assert terminal.run(*arguments) == 0
    assert terminal.out == result["text"] + "\n", "only the answer is on stdout"
    assert "5 new" in terminal.err


def test_generate_with_a_seed_is_reproducible(terminal: Terminal, smollm2_path: Path) -> None:
    arguments = ("generate", smollm2_path, "-", "--temperature", 1.5, "--max-tokens", 8, "--seed", 7)
    texts = {terminal.json(*arguments, stdin="Hello")["text"] for _ in range(2)}
    assert len(texts) == 1


def test_chat_through_a_pipe_keeps_its_turns(terminal: Terminal, smollm2_path: Path) -> None:
    arguments = ("chat", smollm2_path, "--json", "--temperature", 0, "--max-tokens", 6)
    assert terminal.run(*arguments, stdin="My name is Tom.\nWhat is my name?\n/reset\nHi\n/exit\nnever\n") == 0
    events = [json.loads(line) for line in terminal.out.splitlines()]
    starts = [event for event in events if event["event"] == "RequestStarted"]
    assert [event["request_id"] for event in starts] == ["turn-1", "turn-2", "turn-3"]
    first, second, third = starts
    assert second["num_reused_tokens"] >= first["num_prompt_tokens"], "only what is new is read"
    assert third["num_prompt_tokens"] < second["num_prompt_tokens"], "the chat began anew"
    assert all("text" in event for event in events if event["event"] == "Delta")


def test_chat_says_what_went_wrong_and_goes_on(terminal: Terminal, smollm2_path: Path) -> None:
    arguments = ("chat", smollm2_path, "--context", 64, "--max-tokens", 3)
    code = terminal.run(*arguments, stdin="word " * 100 + "\nHi\n")
    assert code == 1, "a message was not answered"
    assert "the context holds 64" in terminal.err
    assert terminal.out.splitlines()[-1], "the next one was"


@pytest.mark.parametrize("when_full", ["go-on", "stop"])
def test_a_chat_that_outgrows_the_context(terminal: Terminal, smollm2_path: Path, when_full: str) -> None:
    arguments = ("chat", smollm2_path, "--context", 96, "--max-tokens", 3, "--when-full", when_full)
    code = terminal.run(*arguments, stdin=4 * ("word " * 25 + "\n"))
    if when_full == "go-on":
        assert code == 0
        assert "no longer reads 2 of the oldest messages" in terminal.err
    else:
        assert code == 1
        assert "tokens but the context holds 96; go on without its oldest turns" in terminal.err


@pytest.mark.parametrize("command", ["inspect", "chat"])
def test_a_file_that_is_no_model_is_one_sentence(terminal: Terminal, tmp_path: Path, command: str) -> None:
    bad = tmp_path / "page.gguf"
    bad.write_text("<!DOCTYPE html><html>404</html>", encoding="utf-8")
    assert terminal.run(command, bad) == 1
    assert terminal.err.count("\n") == 1
    assert terminal.err.startswith("page.gguf: this is")
    error = terminal.json(command, bad, code=1)
    assert error == {"error": terminal.err.removesuffix("\n")}


def test_a_missing_model_and_a_missing_starter(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESIDE_HOME", str(tmp_path))
    assert terminal.run("inspect", "nowhere.gguf") == 1
    assert "There is no file 'nowhere.gguf'" in terminal.err
    assert terminal.run("inspect") == 1
    assert f"The starter model is not in the models folder {tmp_path / 'models'}" in terminal.err


def test_the_starter_model_is_the_default(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smollm2_path: Path
) -> None:
    monkeypatch.setenv("FIRESIDE_HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / smollm2_path.name).symlink_to(smollm2_path)
    assert terminal.json("tokenize", "Hi")["num_tokens"] == 1
    assert terminal.json("inspect", smollm2_path.stem)["architecture"] == "llama"


def test_unreadable_texts_are_one_sentence(terminal: Terminal, tmp_path: Path, smollm2_path: Path) -> None:
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"abc\xff\xfe")
    assert terminal.json("score", smollm2_path, binary, code=1) == {
        "error": f"{binary} is not UTF-8 text (byte 3)."
    }
    assert terminal.run("score", smollm2_path, tmp_path / "absent.txt") == 1
    assert "cannot be read" in terminal.err


def test_a_file_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_bytes('{"title": "für"}\r\n'.encode(encoding))
        assert arguments.read_file(str(path)) == '{"title": "für"}\n'
    path.write_bytes(b"\xff\xfea")
    with pytest.raises(EngineError, match=r"is not UTF-16 text \(byte 2\)"):
        arguments.read_file(str(path))


def test_what_comes_through_a_pipe_is_read_like_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(data: bytes) -> str:
        pipe = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace")
        monkeypatch.setattr("sys.stdin", pipe)
        return arguments.read_text("-")

    assert read("für\r\n你".encode()) == "für\n你"
    assert read("für".encode("utf-16")) == "für"
    assert read(b"\xef\xbb\xbf") == ""
    with pytest.raises(EngineError, match=r"^The input is not UTF-8 text \(byte 2\)\.$"):
        read(b"ab\xffcd")


def test_a_parameter_out_of_range_is_named(terminal: Terminal, smollm2_path: Path) -> None:
    error = terminal.json("generate", smollm2_path, "Hi", "--top-p", 3, code=1)
    assert error == {"error": "top_p is 3.0, but it must be between 0 and 1."}


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("chat", "generate", "tokenize", "inspect", "score"):
        with pytest.raises(SystemExit) as left:
            main([command, "--help"])
        assert left.value.code == 0
        text = capsys.readouterr().out
        assert "--json" in text
        assert "starter model" in text
    with pytest.raises(SystemExit) as left:
        main(["no-such-command"])
    assert left.value.code == 2


@pytest.mark.parametrize("name", ["a" * 5000, "a/" * 3000, "~no-such-person/x.gguf", "a\0b", "\udcff.gguf"])
def test_a_name_that_no_file_can_have_gets_a_sentence(terminal: Terminal, name: str) -> None:
    error = terminal.json("inspect", name, code=1)["error"]
    assert error.startswith("There is no file")
    assert len(error) < 500


def test_an_endless_text_is_refused(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, smollm2_path: Path
) -> None:
    monkeypatch.setattr(arguments, "MAX_TEXT_LENGTH", 100)
    text = tmp_path / "long.txt"
    text.write_text("x" * 101, encoding="utf-8")
    assert "longer than 100 characters" in terminal.json("score", smollm2_path, text, code=1)["error"]
    assert "longer than 100" in terminal.json("tokenize", smollm2_path, "-", stdin="x" * 101, code=1)["error"]
    assert terminal.json("tokenize", smollm2_path, "-", stdin="x" * 100)["num_tokens"] > 0


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.skipif(sys.platform == "win32", reason="closes streams as a shell of Unix does")
def test_closed_streams_are_no_failure(smollm2_path: Path, redirection: str) -> None:
    command = f'"$0" -m engine tokenize "$1" - {redirection}'
    ended = subprocess.run(
        ["sh", "-c", command, sys.executable, smollm2_path], capture_output=True, timeout=300, input=b"hi"
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_gets_a_sentence(smollm2_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "engine", "inspect", smollm2_path, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=300,
        )
    assert ended.returncode == 1
    assert b"No space left" in ended.stderr
    assert ended.stderr.count(b"\n") == 1


def test_a_line_without_end_is_refused_and_passed(
    terminal: Terminal, smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.terminal.chat.MAX_TEXT_LENGTH", 100)
    stdin = "x" * 1000 + "\nHello\n"
    assert terminal.run("chat", smollm2_path, "--max-tokens", 2, "--temperature", 0, stdin=stdin) == 1
    assert "A line is longer than 100 characters" in terminal.err
    assert len(terminal.out.splitlines()) >= 2, "the line after it is answered"


def test_a_negative_number_of_tokens_is_refused_before_the_model_is_loaded(terminal: Terminal) -> None:
    assert terminal.run("generate", "no-such-model.gguf", "Hi", "--max-tokens", -1) == 1
    assert terminal.err == "--max-tokens cannot be negative; 0 means up to the end of the context.\n"


@pytest.mark.parametrize("content", ["", "{", "3", "[3]", '[{"description": "x"}]', '{"name": "f"}'])
def test_a_bad_list_of_tools_is_refused_in_a_sentence(terminal: Terminal, tmp_path: Path, content: str) -> None:
    file = tmp_path / "tools.json"
    file.write_text(content, encoding="utf-8")
    assert terminal.run("generate", "no-such-model.gguf", "Hi", "--tools", file) == 1
    assert "is no JSON list of functions that can be used" in terminal.err


def test_tools_are_offered_and_told(terminal: Terminal, smollm2_path: Path, tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(
        '[{"type": "function", "function": {"name": "get_time", "description": "Now."}}]', encoding="utf-8"
    )
    result = terminal.json("generate", smollm2_path, "Hi", "--tools", file, "--max-tokens", 3, "--temperature", 0)
    assert result["tool_calls"] == []
    assert any("knows no tools" in notice for notice in result["notices"])
    plain = terminal.json("generate", smollm2_path, "Hi", "--max-tokens", 3, "--temperature", 0)
    assert result["stats"]["num_prompt_tokens"] > plain["stats"]["num_prompt_tokens"] + 50


def test_ctrl_c_while_the_program_loads_prints_no_traceback() -> None:
    code = (
        "import builtins, runpy\n"
        "real = builtins.__import__\n"
        "def interrupted(name, *rest, **named):\n"
        "    if name == 'engine.terminal.cli':\n"
        "        raise KeyboardInterrupt\n"
        "    return real(name, *rest, **named)\n"
        "builtins.__import__ = interrupted\n"
        "runpy.run_module('engine', run_name='__main__')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "Interrupted.\n")


def test_the_package_alone_imports_nothing_heavy() -> None:
    code = "import sys, engine; print([name for name in ('numpy', 'llvmlite', 'psutil') if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert shown.stdout == "[]\n"


def test_a_text_that_is_too_long_is_called_what_it_is(
    terminal: Terminal, tmp_path: Path, smollm2_path: Path
) -> None:
    words, context = "word " * 200, ("--context", 64)
    for name, needs, asked in (
        ("generate", "The prompt needs", [words]),
        ("generate", "The prompt needs", [words, "--raw"]),
        ("decide", "The prompt with its choices needs", [words, "--choices", "a,b"]),
    ):
        error = terminal.json(name, smollm2_path, *asked, *context, code=1)["error"]
        assert re.fullmatch(
            rf"{needs} \d+ tokens but the context holds 64; shorten it, or give a larger --context\.", error
        )
    (tmp_path / "schema.json").write_text('{"type": "object", "properties": {"a": {"type": "string"}}}', "utf-8")
    (tmp_path / "in.csv").write_text(f"text\n{words}\n", "utf-8")
    paths = (
        "--schema",
        tmp_path / "schema.json",
        "--input",
        tmp_path / "in.csv",
        "--output",
        tmp_path / "out.jsonl",
    )
    terminal.run("extract", smollm2_path, *paths, *context)
    assert re.search(
        r"This row needs \d+ tokens with its schema but the context holds 64; shorten its text", terminal.err
    )
