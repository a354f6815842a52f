"""One table a model, made when the first grammar is wanted and made better beside it."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from engine.errors import GrammarError
from engine.gguf import open_model
from engine.grammar.compiler import compile_format
from engine.grammar.model_grammars import ModelGrammars, token_table
from engine.grammar.response_format import FormatKind, ResponseFormat
from engine.tokenizer import load_tokenizer


@pytest.mark.parametrize("model", ["smollm2_path", "gemma3_path"])
def test_bytes_of_all_tokens_are_those_of_each(model: str, request: pytest.FixtureRequest) -> None:
    with open_model(request.getfixturevalue(model)) as file:
        tokenizer = load_tokenizer(file.metadata)
    every = tokenizer.all_token_bytes()
    chosen = [*range(600), *range(600, tokenizer.vocab_size, 97), *sorted(tokenizer.special_ids())[:500]]
    assert [every[i] for i in chosen] == [tokenizer.token_bytes(i) for i in chosen]


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
