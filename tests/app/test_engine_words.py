from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import engine_words, translation
from app.engine_words import read_engine_texts, told
from app.translation import Language, load_language
from engine.errors import (
    ContextOverflowError,
    InputError,
    MetadataError,
    NotGGUFError,
    TemplateError,
    sentence_of,
)
from engine.gguf.reader import open_model
from engine.protocol import ModelLoadFailed, Notice, RequestFailed
from tests.app.conftest import Bench
from tests.app.engine_texts import engine_texts


@pytest.fixture
def german() -> Iterator[None]:
    translation.use(load_language("de"))
    yield
    translation.use(Language())


def test_german_knows_all_that_the_engine_says() -> None:
    known, said = read_engine_texts("de"), engine_texts()
    assert len(said) > 200
    assert sorted(said - set(known)) == [], "these have no German yet: resources/translations/de-engine.json"
    assert sorted(set(known) - said) == [], "the engine says these no more"
    for text, meaning in known.items():
        parts = [f"X{number}" for number in range(text.count("{}"))]
        assert meaning.strip(), text
        assert set(re.findall(r"X\d", meaning.format(*parts))) <= set(parts), text
        numbered = re.findall(r"\{\d\}", meaning)
        assert numbered or meaning.count("{}") == len(parts), text


@pytest.mark.usefixtures("german")
def test_each_sentence_is_found_again() -> None:
    for text, meaning in read_engine_texts("de").items():
        parts = [f"Xx{number}" for number in range(text.count("{}"))]
        assert told(text.format(*parts)) == meaning.format(*parts), text


@pytest.mark.usefixtures("german")
def test_causes_names_and_numbers_are_told_too(tmp_path: Path) -> None:
    assert told(ContextOverflowError(9_000, 8_192)) == (
        "Das Gespräch braucht 9.000 Token, aber der Kontext fasst 8.192; kürze die Nachricht, beginne einen neuen "
        "Chat oder lade das Modell mit größerem Kontext."
    )
    assert told("The built-in chat format 'chatml' is used, because the chat template takes too long.") == (
        "Das eingebaute Chatformat 'chatml' wird verwendet, denn: die Chatvorlage braucht zu lange."
    )
    assert told(MetadataError("x.gguf", "llama.block_count", "is 0, but must be at least 1")) == (
        "x.gguf: llama.block_count: ist 0, muss aber mindestens 1 sein"
    )
    path = tmp_path / "Brief: an dich.gguf"
    path.write_bytes(b"%PDF-1.7 ...")
    with pytest.raises(NotGGUFError) as caught:
        open_model(path)
    assert told(caught.value) == (
        "Brief: an dich.gguf: das ist ein PDF-Dokument, kein GGUF-Modell; lade das Modell neu herunter"
    )
    needs = (
        "With a context of 8,192 tokens the model needs 12.5 GB of memory and 3.0 GB is free; choose a context of "
    )
    assert told(needs + "at most 1,024 tokens.") == (
        "Mit einem Kontext von 8.192 Token braucht das Modell 12,5 GB Arbeitsspeicher, und 3,0 GB sind frei; wähle "
        "einen Kontext von höchstens 1.024 Token."
    )
    assert (
        told("No model is loaded. Loading was stopped.")
        == "Es ist kein Modell geladen. Das Laden wurde angehalten."
    )
    assert told(sentence_of(KeyError("x"))).startswith("Ein interner Fehler ist aufgetreten (KeyError: 'x')")
    schema = '#/properties/a: "not" cannot be honoured while an answer is generated.'
    assert told(f"{schema} It can be checked when the answer is there.") == (
        "#/properties/a: „not“ lässt sich beim Schreiben einer Antwort nicht einhalten. Es lässt sich prüfen, wenn "
        "die Antwort da ist."
    )
    assert told('A schema is a JSON object, such as {"type": "object"}.').endswith('etwa {"type": "object"}.')
    long = "x is " * 5000
    assert told(long) == long
    assert told("Nobody said this: never.") == "Nobody said this: never."


def test_english_stays_as_it_is() -> None:
    assert told(InputError("1,204 rows")) == "1,204 rows"
    assert told(TemplateError("the chat template takes too long")) == "the chat template takes too long"


@pytest.mark.usefixtures("german")
def test_the_window_is_told_in_its_language(bench: Bench) -> None:
    notices: list[str] = []
    failures: list[str] = []
    bench.controller.notice.connect(notices.append)
    bench.controller.model_failed.connect(failures.append)
    bench.engine.on_event(Notice("This request is being answered already."))
    bench.controller.send("Hallo")
    bench.engine.on_event(RequestFailed(bench.request(), "The prompt is empty; write something first."))
    bench.wait_idle()
    bench.settle()
    assert "Diese Anfrage wird schon beantwortet." in notices
    assert bench.controller.current_messages[-1].record.error == "Die Eingabe ist leer; schreibe zuerst etwas."
    bench.controller.load_model("/nowhere/x.gguf")
    bench.engine.on_event(
        ModelLoadFailed(
            Path("/nowhere/x.gguf"),
            "x.gguf: there is no such file; it may have been moved, renamed or deleted",
        )
    )
    bench.settle()
    assert failures[-1].endswith(
        "die Datei gibt es nicht; vielleicht wurde sie verschoben, umbenannt oder gelöscht"
    )


def test_a_damaged_table_leaves_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_words, "TRANSLATIONS", tmp_path)
    (tmp_path / "de-engine.json").write_text("[1", encoding="utf-8")
    assert read_engine_texts("de") == {}
