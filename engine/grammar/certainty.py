"""How sure the model was of each value: the probability that it, left free, would have written it.

A trace notes the probability of every token of an answer under the model's own distribution, forced ones included.
A value's probability is the product over the tokens that carry it: of a string what is between the quotes and the
closing quote, of a number also the character after it, for there the model decided that it ends.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.grammar.result import FieldCertainty
from engine.grammar.schema_tree import References, escape
from engine.grammar.value_scanner import ValueScanner

MAX_ALLOWED: Final = 512  # an enumeration leaves fewer tokens to choose from
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][-+.eE0-9]*|true|false|null|[{}\[\],:]', re.DOTALL)
_CLOSED: Final = {ord("{"): b"}", ord("["): b"]"}


class CertaintyTrace:
    """Log-probabilities of the tokens of one answer; a ``LogitsProbe``.

    Attributes:
        logprobs: by index of a token in the completion.
        allowed: by that index, the tokens that were allowed where they were few, with their log-probabilities.
    """

    def __init__(self, num_prompt_tokens: int, bytes_of: Callable[[int], bytes]) -> None:
        """``bytes_of`` gives what a token stands for."""
        self.bytes_of = bytes_of
        self.logprobs: dict[int, float] = {}
        self.allowed: dict[int, dict[int, float]] = {}
        self._num_prompt_tokens = num_prompt_tokens
        self._choices: dict[int, npt.NDArray[np.int64]] = {}
        self._scanner = ValueScanner()
        self._carriers: set[int] = set()

    def note_token(self, index: int, token_id: int) -> None:
        """The token at ``index`` of the completion is the next of the answer."""
        if self._scanner.feed(self.bytes_of(token_id)):
            self._carriers.add(index)

    def wants(self, start: int, end: int) -> bool:
        """Whether the logits after each of the tokens ``[start, end)`` are wanted, not only the last.

        They are where one of these decides about a token that carries a value; most forced ones carry none.
        """
        first, last = start + 1 - self._num_prompt_tokens, end - self._num_prompt_tokens
        return any(i in self._carriers and i not in self.logprobs for i in range(max(first, 0), last + 1))

    def note_choice(self, index: int, allowed: npt.NDArray[np.int64]) -> None:
        """The token at ``index`` of the completion was chosen among ``allowed``."""
        self._choices[index] = allowed

    def see(self, token_ids: Sequence[int], first: int, rows: npt.NDArray[np.float32]) -> None:
        """Take up logits, (n, vocab_size): row i comes after ``token_ids[first + i]``; the next may be there."""
        for offset, row in enumerate(rows):
            position = first + offset + 1
            index = position - self._num_prompt_tokens
            if index < 0 or position >= len(token_ids):
                continue
            normalizer = log_sum_exp(row)
            self.logprobs[index] = float(row[token_ids[position]]) - normalizer
            choices = self._choices.pop(index, None)
            if choices is not None:
                self.allowed[index] = dict(zip(choices.tolist(), (row[choices] - normalizer).tolist()))


def log_sum_exp(row: npt.NDArray[np.float32]) -> float:
    """The logarithm of the sum of the exponentials of a row of logits."""
    largest = float(row.max())
    return largest + math.log(float(np.exp(row - largest).sum(dtype=np.float64)))


@dataclass(frozen=True)
class ValueSpan:
    """A value that is no object and no array: where it stands in the text of an answer, in bytes."""

    path: tuple[str | int, ...]
    start: int
    end: int


def value_spans(text: bytes) -> list[ValueSpan]:
    """The scalar values of a JSON text, whole ones only, in order; empty objects and arrays are none."""
    spans: list[ValueSpan] = []
    path: list[str | int] = []  # one step for each open object or array
    closers: list[bytes] = []
    key: str | None = None
    for match in _TOKEN.finditer(text):
        token = match.group()
        in_object = bool(closers) and closers[-1] == b"}"
        if token in b"{[":
            closers.append(_CLOSED[token[0]])
            path.append("" if token == b"{" else 0)
            key = None
        elif token in b"}]":
            if closers:
                closers.pop()
                path.pop()
        elif token == b",":
            key = None
            if closers and not in_object:
                path[-1] = int(path[-1]) + 1
        elif token != b":":
            if in_object and key is None:
                key = str(json.loads(token))
                path[-1] = key
            else:
                spans.append(ValueSpan(tuple(path), match.start(), match.end()))
    return spans


def field_certainties(
    trace: CertaintyTrace, token_bytes: Sequence[bytes], schema: Any, first_index: int = 0
) -> tuple[FieldCertainty, ...]:
    """The certainty of each value of a JSON answer.

    Args:
        trace: of the whole completion.
        token_bytes: of the answer's tokens, its end token left out.
        schema: of the answer, for the alternatives of enumerations.
        first_index: of the answer's first token in the completion; thinking may come before it.
    """
    text = b"".join(token_bytes)
    starts = np.concatenate([[0], np.cumsum([len(piece) for piece in token_bytes])]).tolist()
    references = References(schema)
    fields = []
    for span in value_spans(text):
        is_string = text[span.start] == ord('"')
        begin = span.start + 1 if is_string else span.start
        end = span.end + (text[span.start] in b"-0123456789")
        carriers = [i for i, piece in enumerate(token_bytes) if starts[i] < end and starts[i] + len(piece) > begin]
        known = [trace.logprobs[i + first_index] for i in carriers if i + first_index in trace.logprobs]
        options = enumeration(schema, span.path, references)
        written = json.loads(text[span.start : span.end])
        others = [option for option in options if json.dumps(option) != json.dumps(written)]
        alternatives = []
        for option in others[:MAX_ALLOWED]:
            wanted = text[: span.start] + json.dumps(option, ensure_ascii=False).encode()
            is_same_kind = carriers and wanted[: starts[carriers[0]]] == text[: starts[carriers[0]]]
            probability = _probability_of(wanted, trace, token_bytes, starts, carriers, first_index)
            if is_same_kind and probability is not None:  # a number among texts leaves them before the quote
                alternatives.append((json.dumps(option, ensure_ascii=False), probability))
        alternatives.sort(key=lambda item: -item[1])
        path = "".join(f"/{escape(str(step))}" for step in span.path)
        fields.append(FieldCertainty(path, math.exp(min(0.0, sum(known))), tuple(alternatives)))
    return tuple(fields)


def _probability_of(
    wanted: bytes,
    trace: CertaintyTrace,
    token_bytes: Sequence[bytes],
    starts: Sequence[int],
    carriers: Sequence[int],
    first_index: int,
) -> float | None:
    """The probability of leaving the answer's tokens for a text that begins with ``wanted``; None: not known."""
    logprob = 0.0
    for i in carriers:
        rest = wanted[starts[i] :]
        if rest.startswith(token_bytes[i]):
            logprob += trace.logprobs.get(i + first_index, 0.0)
            continue
        allowed = trace.allowed.get(i + first_index)
        if allowed is None:
            return None
        mass = sum(
            math.exp(value) for token_id, value in allowed.items() if _agrees(trace.bytes_of(token_id), rest)
        )
        return math.exp(min(0.0, logprob)) * mass
    return None


def _agrees(piece: bytes, rest: bytes) -> bool:
    return bool(piece) and (rest.startswith(piece) or piece.startswith(rest))


def enumeration(schema: Any, path: Sequence[str | int], references: References) -> list[Any]:
    """The values that an enumeration in ``schema`` allows at ``path``; empty where there is none."""
    for part in _parts(schema, references):
        if not path:
            if isinstance(part.get("enum"), list):
                return [value for value in part["enum"] if not isinstance(value, dict | list)]
            if part.get("type") == "boolean":
                return [True, False]
            continue
        step, rest = path[0], path[1:]
        child: Any = None
        if isinstance(step, str):
            child = part.get("properties", {}).get(step, part.get("additionalProperties"))
        else:
            first = part.get("prefixItems", [])
            child = first[step] if step < len(first) else part.get("items")
        found = enumeration(child, rest, references) if isinstance(child, dict) else []
        if found:
            return found
    return []


def _parts(schema: Any, references: References) -> list[dict[str, Any]]:
    """``schema`` and what it refers to or is composed of, each once."""
    parts: list[dict[str, Any]] = []
    waiting = [schema]
    while waiting:
        part = waiting.pop(0)
        if not isinstance(part, dict) or any(part is seen for seen in parts):
            continue
        parts.append(part)
        if isinstance(part.get("$ref"), str):
            waiting.append(references.find(part["$ref"]))
        for keyword in ("allOf", "anyOf", "oneOf"):
            waiting += part.get(keyword, [])
    return parts
