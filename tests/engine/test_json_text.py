from __future__ import annotations

import codecs

import pytest

from engine.errors import InputError
from engine.extraction.texts import decoded
from engine.grammar.schema_tree import SchemaTextError, parse_schema
from engine.json_text import RepeatedKeyError, parse_json, parse_json_file
from engine.tools import parse_tools

TEXT = '{"für": "你", "a": [1]}'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_file_may_have_any_encoding_of_unicode(encoding: str) -> None:
    assert parse_json_file(TEXT.encode(encoding), "x.json") == {"für": "你", "a": [1]}


@pytest.mark.parametrize(
    ("data", "label", "byte"),
    [
        ('{"a": "für"}'.encode("cp1252"), "UTF-8", 9),
        ('{"a": "你"}'.encode()[:-3] + b'"}', "UTF-8", 8),
        (codecs.BOM_UTF8 + b'{"a": "\xff"}', "UTF-8", 11),
        (codecs.BOM_UTF16_LE + '{"a": "\ud800"}'.encode("utf-16-le", "surrogatepass"), "UTF-16", 17),
    ],
)
def test_bytes_that_are_no_text_are_told_with_their_place(data: bytes, label: str, byte: int) -> None:
    with pytest.raises(InputError) as caught:
        parse_json_file(data, "x.json")
    assert str(caught.value) == f"x.json is no {label} text: byte {byte} does not fit. Save it as UTF-8."


TWICE = ('{"a": 1, "b": 2, "a": 3}', '[{"x": {"a": 1, "a": 1}}]', '{"\\u0061": 1, "a": 2}')


@pytest.mark.parametrize("text", TWICE)
def test_a_key_that_is_there_twice_is_refused(text: str) -> None:
    with pytest.raises(RepeatedKeyError) as caught:
        parse_json(text)
    assert caught.value.key == "a"
    with pytest.raises(InputError) as told:
        parse_json_file(text.encode(), "x.json")
    assert str(told.value) == "x.json has the key “a” twice in one object; remove one of them."


def test_the_same_key_in_two_objects_is_fine() -> None:
    assert parse_json('[{"a": {"a": 1}}, {"a": 2}]') == [{"a": {"a": 1}}, {"a": 2}]


def test_schemas_and_functions_say_which_key_they_have_twice() -> None:
    with pytest.raises(SchemaTextError) as about_schema:
        parse_schema('{"properties": {"name": {}, "age": {}, "name": {}}}')
    assert str(about_schema.value) == "The schema has the key “name” twice in one object; remove one of them."
    with pytest.raises(InputError) as about_functions:
        parse_tools('[{"name": "f", "name": "g"}]')
    assert str(about_functions.value).startswith("The functions have the key “name” twice in one object;")


GERMAN = "Größe, Länge, Übung und Straße."


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16", "utf-8-sig", "utf-32"])
def test_a_text_is_read_in_its_encoding(encoding: str) -> None:
    assert decoded(GERMAN.encode(encoding), "x.txt") == GERMAN


@pytest.mark.parametrize(
    ("data", "label", "byte"),
    [
        (GERMAN.encode() + b"\xff " + GERMAN.encode(), "UTF-8", len(GERMAN.encode()) + 1),
        ("你好，世界".encode()[:-1], "UTF-8", 13),
        (GERMAN.encode("cp1252") + b"\x81", "Windows-1252", len(GERMAN) + 1),
        (codecs.BOM_UTF16_LE + "ab".encode("utf-16-le") + b"\x00", "UTF-16", 7),
        (codecs.BOM_UTF8 + b"ab\xff", "UTF-8", 6),
    ],
)
def test_no_byte_of_a_text_is_replaced_in_silence(data: bytes, label: str, byte: int) -> None:
    with pytest.raises(InputError) as caught:
        decoded(data, "x.txt")
    assert str(caught.value) == f"x.txt is no {label} text: byte {byte} does not fit. Save it as UTF-8."
