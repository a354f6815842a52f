"""``python -m engine models`` against a loopback hub."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.library.app_settings import AppSettings, read_app_settings
from engine.library.places import point_to
from engine.terminal.cli import main
from tests.engine.hub.loopback import TOKEN, LoopbackHub, loopback_hub


@pytest.fixture
def hub(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    with loopback_hub() as running:
        running.add("acme/Smol-GGUF", {"smol-Q4_1.gguf": smollm2_path.read_bytes(), "smol-F16.gguf": b"GGUF"})
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> object:
    code = main([*arguments, "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert code == (1 if isinstance(printed, dict) and "error" in printed else 0)
    return printed


def test_search_inspect_download_list(
    home: Path, hub: LoopbackHub, smollm2_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ("smol", "https://huggingface.co/acme/Smol-GGUF/tree/main?x=y", f"{hub.url}/acme/Smol-GGUF"):
        (found,) = _json(capsys, "models", "search", words)  # type: ignore[misc]
        assert found["repository"] == "acme/Smol-GGUF"
    page = hub.url.removeprefix("http://") + "/acme/Smol-GGUF"
    shown = _json(capsys, "models", "inspect", page)
    assert isinstance(shown, dict)
    assert shown["model"]["repository"] == "acme/Smol-GGUF"
    versions = _json(capsys, "models", "inspect", "acme/Smol-GGUF")["versions"]  # type: ignore[index, call-overload]
    assert [(version["label"], version["quality"]) for version in versions] == [("F16", "exact"), ("Q4_1", "good")]
    facts = _json(capsys, "models", "inspect", "acme/Smol-GGUF", "q4_1")
    assert isinstance(facts, dict)
    assert (facts["architecture"], facts["file_bytes"]) == ("llama", smollm2_path.stat().st_size)
    assert hub.num_sent < 5_000_000
    assert _json(capsys, "models", "list") == []
    done = _json(capsys, "models", "download", "acme/Smol-GGUF", "Q4_1")
    path = home / "models" / "acme" / "Smol-GGUF" / "smol-Q4_1.gguf"
    assert done == {"paths": [str(path)], "size": path.stat().st_size}
    (model,) = _json(capsys, "models", "list")  # type: ignore[misc]
    assert (model["name"], model["state"], model["origin"]) == ("smol", "ready", "Fireside")
    assert main(["inspect", "smol", "--json"]) == 0  # by the name that the list shows
    assert json.loads(capsys.readouterr().out)["architecture"] == "llama"


def test_what_cannot_be_done_is_one_sentence(
    home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "owner/name" in _json(capsys, "models", "inspect", "nonsense")["error"]  # type: ignore[index, call-overload]
    answer = _json(capsys, "models", "download", "acme/Smol-GGUF", "Q9_9")
    assert isinstance(answer, dict)
    assert "F16, Q4_1" in answer["error"]
    for arguments, words in (
        (["advise", "acme/Smol-GGUF", "--context", "-5"], "--context -5: a context has at least one token"),
        (["search", "x", "--endpoint", "nonsense"], "'nonsense' is no address of a hub: write it as https://host"),
        (["advise", "smol-Q4_1.gguf"], "There is no file 'smol-Q4_1.gguf'"),
    ):
        assert main(["models", *arguments]) == 1
        assert words in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["models", "search", "--limit", "0"])
    assert "'0' is no number of results: give one from 1 to 1000" in capsys.readouterr().err
    assert main(["models", "search", "x", "--endpoint", "http://127.0.0.1:1"]) == 1
    assert "cannot be reached" in capsys.readouterr().err
    assert not os.path.exists(home / "models" / ".downloads")


def test_what_cannot_run_here_is_downloaded_only_on_demand(
    home: Path, hub: LoopbackHub, smollm2_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = smollm2_path.read_bytes().replace(b"llama", b"llamx", 1)
    hub.add("acme/Strange-GGUF", {"strange-Q4_1.gguf": strange, "mmproj-F16.gguf": b"GGUF"}, gated="auto")
    hub.repositories["acme/Strange-GGUF"]["gated"] = ""
    assert main(["models", "download", "acme/Strange-GGUF"]) == 1
    assert "'llamx' is not supported" in (said := capsys.readouterr().err)
    assert "; --anyway downloads Q4_1, 98 MB, all the same." in said
    assert main(["models", "download", "acme/Strange-GGUF", "Q4_1"]) == 1
    assert "'llamx' is not supported" in capsys.readouterr().err
    assert main(["models", "download", "acme/Strange-GGUF", "--anyway"]) == 0
    capsys.readouterr()
    assert main(["models", "advise", "strange"]) == 1
    assert "'llamx' is not supported" in capsys.readouterr().err  # and not that there is no such file


def test_advice_on_what_is_here_needs_no_network(
    home: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("engine.advisor.needs_measuring", lambda: False)
    assert main(["models", "download", "acme/Smol-GGUF", "Q4_1"]) == 0
    capsys.readouterr()
    for name in ("smol-Q4_1.gguf", "smol", "SMOL Q4_1"):
        assert main(["models", "advise", name]) == 0
        assert capsys.readouterr().out.startswith("Fits. About")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert main(["models", "advise", "acme/Smol-GGUF"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("* Q4_1             Fits. About")
    assert "cannot be reached (Connection refused): check the connection. This is what is on this" in printed.err
    assert main(["models", "advise", "acme/Other-GGUF"]) == 1
    assert "cannot be reached" in capsys.readouterr().err


def test_a_context_that_the_model_never_had_is_said(
    home: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("engine.advisor.needs_measuring", lambda: False)
    page = "https://huggingface.co/acme/Smol-GGUF/blob/main/smol-Q4_1.gguf"
    assert main(["models", "advise", page, "--context", "999999999"]) == 0
    printed = capsys.readouterr()
    assert "--context 999999999: the model was made for 8,192 tokens; this is about so many." in printed.err
    assert printed.out.startswith("* Q4_1")
    assert "F16" not in printed.out


def test_a_repository_without_models_is_an_error(
    home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add("acme/Text", {"README.md": b"x"})
    hub.add("acme/Bad", {"a/../x-Q4_0.gguf": b"GGUF"})
    assert main(["models", "inspect", "acme/Text"]) == 1
    assert "acme/Text has no GGUF file that can be used here." in capsys.readouterr().err
    assert main(["models", "inspect", "acme/Bad"]) == 1
    assert "(a/../x-Q4_0.gguf: the name points out of the models folder)." in capsys.readouterr().err


def test_a_repository_for_people(home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"m-Q4_0-00001-of-00003.gguf": b"GGUF", "mmproj-F16.gguf": b"x" * 5000, "../x-Q4_0.gguf": b"GGUF"}
    hub.add("acme/M-GGUF", files, gated="manual")
    assert main(["models", "inspect", "acme/M-GGUF"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "acme/M-GGUF, no licence stated, asks to accept its terms"
    assert lines[0].endswith("fair  lacks shards 2, 3 of 3")
    assert lines[1].split() == ["mmproj-F16.gguf", "5", "kB", "an", "image", "part,", "not", "a", "chat", "model"]
    assert lines[2].startswith("  ../x-Q4_0.gguf is left out")
    assert main(["models", "inspect", "acme/Smol-GGUF", "Q4_1"]) == 0
    assert "has_chat_template:   yes" in capsys.readouterr().out


def test_lists_for_people(home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "search"]) == 0
    assert main(["models", "inspect", "acme/Smol-GGUF"]) == 0
    assert main(["models", "list"]) == 0
    printed = capsys.readouterr().out
    assert "acme/Smol-GGUF" in printed
    assert "nearly exact" not in printed
    assert "There is no model yet" in printed


def test_the_terminal_goes_by_the_settings_of_the_window(
    home: Path,
    hub: LoopbackHub,
    smollm2_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Settings as the app itself writes them: hub, folders, token, and where the models lie."""
    from app.paths import AppPaths
    from app.settings import Settings

    monkeypatch.delenv("HF_ENDPOINT")
    paths = AppPaths.default()
    settings = Settings(paths.settings_file)
    mine = home / "mine"
    mine.mkdir()
    os.symlink(smollm2_path, mine / "Mine-Q4_1.gguf")
    settings.set("hub_endpoint", hub.url)
    settings.set("library_folders", json.dumps([str(mine)]))
    settings.set("kv_type", "q8_0")
    hub.repositories["acme/Smol-GGUF"]["gated"] = "auto"
    (paths.config / "hub-token").write_text(f"{TOKEN} {hub.url}")
    (found,) = _json(capsys, "models", "search", "smol")  # type: ignore[misc]
    assert found["repository"] == "acme/Smol-GGUF"
    assert hub.log[-1].authorization == f"Bearer {TOKEN}"
    (model,) = _json(capsys, "models", "list")  # type: ignore[misc]
    assert (model["name"], model["origin"]) == ("Mine", "your folder")
    assert main(["inspect", "mine", "--json"]) == 0
    capsys.readouterr()
    facts = _json(capsys, "models", "inspect", "acme/Smol-GGUF", "Q4_1")
    assert isinstance(facts, dict)
    assert facts["architecture"] == "llama"
    point_to(home / "elsewhere", paths.models)
    done = _json(capsys, "models", "download", "acme/Smol-GGUF", "Q4_1")
    assert isinstance(done, dict)
    assert done["paths"] == [str(home / "elsewhere" / "acme" / "Smol-GGUF" / "smol-Q4_1.gguf")]
    compact = _json(capsys, "models", "advise", "smol")
    exact = _json(capsys, "models", "advise", "smol", "--kv-type", "f16")
    assert isinstance(compact, dict)
    assert isinstance(exact, dict)
    assert compact["need"]["kv"] < 0.6 * exact["need"]["kv"]
    assert _json(capsys, "models", "search", "smol", "--endpoint", "http://127.0.0.1:1") == {
        "error": "127.0.0.1 cannot be reached (Connection refused): check the connection."
    }


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "[" * 9999, '{"hub_endpoint": 3, "library_folders": 4, "kv_type": [], "context_length": -1}',
     '{"library_folders": "[1, null, \\"relative\\"]", "context_length": true}', '{"library_folders": "{"}'],
)  # fmt: skip
def test_settings_that_make_no_sense_are_the_defaults(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.json").write_text(text)
    assert read_app_settings(tmp_path / "settings.json") == AppSettings()


def test_a_search_is_sorted_and_sifted(home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"total": 7 * 10**9, "architecture": "llama"}
    tags = ["gguf", "license:mit"]
    hub.add("zeta/Smol-7B", {}, gguf=facts, downloads=9, tags=tags, gated="manual")
    hub.add("zeta/Smol-alien", {}, gguf={**facts, "architecture": "unheard-of"}, downloads=5, tags=tags)

    def search(*options: str) -> list[str]:
        found = _json(capsys, "models", "search", "smol", *options)
        assert isinstance(found, list)
        return [model["repository"].partition("/")[2] for model in found]

    assert search("--sort", "downloads") == ["Smol-7B", "Smol-GGUF"]
    assert search("--sort", "downloads", "--any-architecture") == ["Smol-7B", "Smol-alien", "Smol-GGUF"]
    assert search("--author", "zeta") == ["Smol-7B"]
    assert search("--license", "MIT", "--any-architecture") == ["Smol-7B", "Smol-alien"]
    assert search("--open") == ["Smol-GGUF"]
    assert search("--min-parameters", "1B", "--max-parameters", "8B") == ["Smol-7B"]
    assert search("--max-parameters", "500000000") == ["Smol-GGUF"]
    assert "Smol-GGUF" in search("--fits")
    with pytest.raises(SystemExit):
        main(["models", "search", "--max-parameters", "lots"])
    assert "invalid number of parameters value: 'lots'" in capsys.readouterr().err
