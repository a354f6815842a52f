"""The tokens that carry values are those that the certainty of values is made of."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.grammar.certainty import CertaintyTrace, value_spans
from engine.grammar.value_scanner import ValueScanner
from tests.engine.grammar.vocabulary import encode, piece

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.lists(st.integers(0, 80), max_size=12), st.booleans())
def test_it_agrees_with_the_spans_of_the_whole_text(value: object, cuts: list[int], is_compact: bool) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":") if is_compact else None)
    text = text.encode("utf-8", "replace")
    ends = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    wanted = set()
    for span in value_spans(text):
        begin = span.start + (text[span.start] == ord('"'))
        end = span.end + (text[span.start] in b"-0123456789")
        wanted |= {start for start, stop in pairwise(ends) if start < end and stop > begin}
    scanner = ValueScanner()
    assert {start for start, stop in pairwise(ends) if scanner.feed(text[start:stop])} == wanted


def test_only_tokens_with_values_want_their_logits() -> None:
    trace = CertaintyTrace(5, piece)
    ids = encode('{"name": "ab"')
    for index, token_id in enumerate(ids):
        trace.note_token(index, token_id)
    first = next(i for i in range(len(ids)) if b"".join(map(piece, ids[: i + 1])).endswith(b'"a'))
    assert not trace.wants(0, 5), "the prompt alone"
    assert not trace.wants(5, 5 + first - 1), "names and punctuation"
    assert trace.wants(5, 5 + first), "the last of these decides about the first letter"
    trace.logprobs.update(dict.fromkeys(range(len(ids)), 0.0))
    assert not trace.wants(0, 5 + len(ids)), "known already, and read again after it lost its place"
