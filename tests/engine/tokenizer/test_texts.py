"""What tokens stand for, all at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.tokenizer.byte_level import alphabet, text_to_bytes
from engine.tokenizer.kinds_for_kernels import ALPHABET, AS_IT_IS, BYTE, BYTE_SHIFT, MARKED, NOTHING, SPACED
from engine.tokenizer.texts import TokenBytes, TokenTexts


def _texts(texts: list[str]) -> TokenTexts:
    pieces = [text.encode() for text in texts]
    data = b"".join(len(piece).to_bytes(8, "little") + piece for piece in pieces)
    return TokenTexts(np.frombuffer(data, np.uint8), len(pieces))


def _stand_for(texts: list[str], kinds: list[int]) -> list[bytes]:
    return _texts(texts).token_bytes(np.array(kinds, np.int32)).pieces()


def test_each_kind_of_token() -> None:
    texts = ["Ġh", "▁a▁▁", "<0x0A>", "<|end|>", "hole", "▁a", "ĠÄ"]
    kinds = [ALPHABET, SPACED, BYTE | 0x0A << BYTE_SHIFT, AS_IT_IS | MARKED, NOTHING, AS_IT_IS, ALPHABET | MARKED]
    assert _stand_for(texts, kinds) == [b" h", b" a  ", b"\n", b"\xff<|end|>", b"", "▁a".encode(), b"\xff \xc4"]
    assert _stand_for(["<0xFF>"], [BYTE | 0xFF << BYTE_SHIFT]) == [b"\xff"]


@given(st.lists(st.text(st.one_of(st.sampled_from(list(alphabet().values())), st.characters()), max_size=6)))
def test_byte_level_tokens_are_read_as_one_by_one(texts: list[str]) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    assert _stand_for(texts, [ALPHABET] * len(texts)) == [text_to_bytes(text) for text in texts]


@given(st.lists(st.text(st.sampled_from("▁▂a\u2580é🦙"), max_size=6)))
def test_spaces_are_put_back(texts: list[str]) -> None:
    assert _stand_for(texts, [SPACED] * len(texts)) == [text.replace("▁", " ").encode() for text in texts]


def test_bytes_of_python_make_the_round_trip() -> None:
    pieces = [b"a", b"", b"\xff<end>", "🦙".encode()]
    assert TokenBytes.of(pieces).pieces() == pieces
