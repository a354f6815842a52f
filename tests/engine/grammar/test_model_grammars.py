"""One table a model, made when the first grammar is wanted and made better beside it."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from engine.errors import GrammarError
from engine.gguf import open_model
from engine.grammar.compiler import compile_format
from engine.grammar.library import SPECIAL_MARK, TokenTable
from engine.grammar.model_grammars import ModelGrammars, token_table
from engine.grammar.response_format import FormatKind, ResponseFormat
from engine.tokenizer import Tokenizer, load_tokenizer


@pytest.mark.parametrize("model", ["smollm2_path", "gemma3_path"])
def test_bytes_of_all_tokens_are_those_of_each(model: str, request: pytest.FixtureRequest) -> None:
    with open_model(request.getfixturevalue(model)) as file:
        tokenizer = load_tokenizer(file.metadata)
    every, specials = tokenizer.all_token_bytes().pieces(), tokenizer.special_ids()
    for token_id, found in enumerate(every):
        mark = SPECIAL_MARK if token_id in specials else b""
        assert found == mark + tokenizer.token_bytes(token_id)


def test_both_tables_give_the_same_masks_and_text_matches_no_control_token(smollm2_path: Path) -> None:
    with open_model(smollm2_path) as file:
        tokenizer = load_tokenizer(file.metadata)
    grammars = ModelGrammars(tokenizer)
    grammar = compile_format(ResponseFormat(FormatKind.REGEX, "[a-z<|_>]*"))
    quick = grammars.constraint(grammar, None, None)
    for thread in threading.enumerate():
        if thread.name == "grammar table":
            thread.join()
    refined = grammars.constraint(grammar, None, None)
    mask = quick.mask()
    assert mask is not None
    assert np.array_equal(mask, refined.mask())
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little", count=tokenizer.vocab_size)
    allowed = set(np.flatnonzero(bits).tolist())
    assert tokenizer.encode_continuation("abc")[0] in allowed
    assert allowed & tokenizer.special_ids() <= tokenizer.end_token_ids
    assert token_table(tokenizer, slices=()).vocab_size == tokenizer.vocab_size


def test_what_is_there_already_must_have_the_form(smollm2_path: Path) -> None:
    with open_model(smollm2_path) as file:
        grammars = ModelGrammars(load_tokenizer(file.metadata))
    grammar = compile_format(ResponseFormat(FormatKind.REGEX, "ab*c"))
    assert grammars.constraint(grammar, None, None, "abb").is_accepting is False
    with pytest.raises(GrammarError, match="answer so far"):
        grammars.constraint(grammar, None, None, "ax")


def test_the_table_is_made_ahead_when_forms_are_expected(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_model(smollm2_path) as file:
        grammars = ModelGrammars(load_tokenizer(file.metadata))
    made: list[int] = []

    def make(tokenizer: Tokenizer, slices: tuple[str, ...] = ("x",)) -> TokenTable:
        made.append(len(slices))
        return token_table(tokenizer, slices=())

    monkeypatch.setattr("engine.grammar.model_grammars.token_table", make)
    grammars.prepare()
    grammars.prepare()
    for thread in threading.enumerate():
        if thread.name == "grammar table":
            thread.join()
    assert made == [0, 1]  # the quick one and the one for later answers, once each
    first = grammars.table()
    assert grammars.table() is first
    assert made == [0, 1]


def test_a_vocabulary_without_an_end_is_refused_each_time(smollm2_path: Path) -> None:
    with open_model(smollm2_path) as file:
        tokenizer = load_tokenizer(file.metadata)
    tokenizer.end_token_ids = frozenset()
    grammars = ModelGrammars(tokenizer)
    for _ in range(2):
        with pytest.raises(GrammarError, match="no token that ends an answer"):
            grammars.table()
