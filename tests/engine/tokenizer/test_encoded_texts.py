from __future__ import annotations

from engine.tokenizer.encoded_texts import MIN_CHARACTERS, EncodedTexts

LONG = MIN_CHARACTERS * "a"


def test_a_text_is_encoded_once_and_its_ids_are_the_callers_own() -> None:
    encoded: list[str] = []

    def encode(text: str) -> list[int]:
        encoded.append(text)
        return [ord(character) for character in text]

    texts = EncodedTexts(encode)
    for _ in range(2):
        ids = texts(LONG)
        assert ids == [97] * MIN_CHARACTERS
        ids.append(5)
    assert texts("short") == texts("short")
    assert encoded == [LONG, "short", "short"]


def test_what_was_not_used_lately_is_forgotten() -> None:
    encoded: list[str] = []

    def encode(text: str) -> list[int]:
        encoded.append(text)
        return [len(text)]

    texts = EncodedTexts(encode, max_characters=3 * MIN_CHARACTERS)
    for text in (LONG, LONG + "b", LONG, LONG + "c", LONG + "b", 4 * LONG, 4 * LONG):
        assert texts(text) == [len(text)]
    assert encoded == [LONG, LONG + "b", LONG + "c", LONG + "b", 4 * LONG, 4 * LONG]
