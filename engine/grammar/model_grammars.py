"""Grammars for one model: its vocabulary's table, made when the first is wanted, and constraints over it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import TYPE_CHECKING

from engine.errors import GrammarError
from engine.grammar.answer_gate import AnswerGate
from engine.grammar.certainty import CertaintyTrace
from engine.grammar.compiler import Grammar, compile_format
from engine.grammar.constraint import GrammarConstraint
from engine.grammar.library import STRING_SLICES, TokenTable
from engine.grammar.response_format import ResponseFormat

if TYPE_CHECKING:
    from engine.tokenizer import Tokenizer

_compile = lru_cache(32)(compile_format)


def token_table(tokenizer: Tokenizer, slices: Sequence[str] = STRING_SLICES) -> TokenTable:
    """The table of a tokenizer's vocabulary, in which no text matches a control token or a template's marker."""
    ends = sorted(tokenizer.end_token_ids)
    if not ends:
        raise GrammarError("This model has no token that ends an answer, so no form can be kept.")
    return TokenTable(tokenizer.all_token_bytes(), ends, tokenizer.encode_continuation, slices)


class ModelGrammars:
    """Makes constraints for one model; any thread may ask."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._table: Future[TokenTable] | None = None

    def prepare(self) -> None:
        """Begin to make the vocabulary's table; returns at once.

        It takes up to a second, in which other threads run. The first table is made without the masks of strings,
        so that the first answer begins soon; the same thread then makes the one that later answers use.
        """
        with self._lock:
            if self._table is None:
                self._table = Future()
                threading.Thread(target=self._make, args=(self._table,), name="grammar table", daemon=True).start()

    def grammar(self, wanted: ResponseFormat) -> Grammar:
        """The grammar of a form. Raises GrammarError where it cannot be honoured."""
        return _compile(wanted)

    def constraint(
        self, grammar: Grammar, gate: AnswerGate | None, trace: CertaintyTrace | None, written: str = ""
    ) -> GrammarConstraint:
        """A constraint at the start of an answer, or after ``written``, the part of it that is there.

        Raises GrammarError where the library refuses the grammar, or ``written`` does not follow it.
        """
        table = self.table()
        matcher = table.matcher(grammar.kind, grammar.text)
        token_ids = self._tokenizer.encode_continuation(written) if written else []
        if matcher.num_valid(token_ids) < len(token_ids):
            raise GrammarError("The answer so far has not the form that is asked for; begin it anew.")
        for token_id in token_ids:
            matcher.consume(token_id)
        return GrammarConstraint(matcher, table.vocab_size, self._tokenizer.end_token_ids, gate, trace)

    def table(self) -> TokenTable:
        """The vocabulary's table, once it is there. Raises GrammarError where the vocabulary has none."""
        self.prepare()
        assert self._table is not None, "prepared"
        return self._table.result()

    def _make(self, first: Future[TokenTable]) -> None:
        """Make both tables; on a thread of its own."""
        try:
            first.set_result(token_table(self._tokenizer, slices=()))
        except BaseException as error:
            first.set_exception(error)
            return
        better: Future[TokenTable] = Future()
        better.set_result(token_table(self._tokenizer))
        self._table = better
