"""Calls as the families write them, split off at any boundary."""

from __future__ import annotations

import json

import pytest

from engine.chat.channel_markers import FUNCTIONARY, HARMONY, Channels, choose_channels
from engine.chat.channels import ChannelSplitter
from engine.chat.tool_calls import parse_calls
from engine.protocol import Channel, Tool

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
WEATHER = Tool("get_weather", "Tells the weather.", json.dumps(SCHEMA))
EXPECTED = ("get_weather", {"city": 'Bärn "<b>"', "days": 3})
JSON = '{"city": "Bärn \\"<b>\\"", "days": 3}'
CALL = f'{{"name": "get_weather", "arguments": {JSON}}}'

HARMONIC = Channels(markers=(), header=HARMONY)
SPOKEN = Channels(markers=(), header=FUNCTIONARY)
LLAMA = choose_channels('{"name": function name, "parameters": dictionary}')
FIRE = choose_channels("functools[")
FUNCTION = choose_channels("<function=example>")
ACTION = choose_channels("Action:")

# What a model writes after "Hm.\n", by family, and the channels where they are not those of all.
WRITTEN: dict[str, tuple[str, Channels | None]] = {
    "hermes": (f"<tool_call>\n{CALL}\n</tool_call>", None),
    "qwen coder": (
        '<tool_call>\n<function=get_weather>\n<parameter=city>\nBärn "<b>"\n</parameter>\n<parameter=days>\n3\n'
        "</parameter>\n</function>\n</tool_call>",
        None,
    ),
    "glm": (
        '<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bärn "<b>"</arg_value>\n'
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
        None,
    ),
    "mistral list": (f"[TOOL_CALLS][{CALL}]", None),
    "mistral": (f"[TOOL_CALLS]get_weather[CALL_ID]abc123xyz[ARGS]{JSON}", None),
    "devstral": (f"[TOOL_CALLS]get_weather[ARGS]{JSON}", None),
    "deepseek r1": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        f"{JSON}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        None,
    ),
    "deepseek v3.1": (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{JSON}<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>",
        None,
    ),
    "deepseek v3.2": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Bärn "<b>"</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        None,
    ),
    "granite 3": (f"<|tool_call|>[{CALL}]", None),
    "phi 4": (
        f'<|tool_call|>[{{"type": "function", "function": {CALL}}}]<|/tool_call|>',
        None,
    ),
    "llama 3 in python": (f'<|python_tag|>{{"name": "get_weather", "parameters": {JSON}}}', None),
    "command r": (
        f'<|START_ACTION|>[\n {{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {JSON}}}\n]'
        "<|END_ACTION|>",
        None,
    ),
    "command r+": (f'Action: ```json\n[{{"tool_name": "get_weather", "parameters": {JSON}}}]\n```', ACTION),
    "kimi k2": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        f"{JSON}<|tool_call_end|><|tool_calls_section_end|>",
        None,
    ),
    "kimi k3": (
        '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" '
        'type="string"<|sep|>Bärn "<b>"<|close|>argument<|sep|><|open|>argument key="days" type="number"<|sep|>3'
        "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
        None,
    ),
    "gemma 4": ('<|tool_call>call:get_weather{city:<|"|>Bärn "<b>"<|"|>,days:3}<tool_call|>', None),
    "apertus": (f'<|tools_prefix|>[{{"get_weather": {JSON}}}]<|tools_suffix|>', None),
    "nemotron": (f"<TOOLCALL>[{CALL}]</TOOLCALL>", None),
    "apriel": (f"<tool_calls>[{CALL}]</tool_calls>", None),
    "lfm": ("<|tool_call_start|>[get_weather(city='Bärn \"<b>\"', days=3)]<|tool_call_end|>", None),
    "minimax m2": (
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Bärn "<b>"</parameter>\n'
        '<parameter name="days">3</parameter>\n</invoke>\n</minimax:tool_call>',
        None,
    ),
    "minimax m3": (
        ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>Bärn "<b>"'
        "]<]minimax[>[</city>]<]minimax[>[<days>3]<]minimax[>[</days>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
        None,
    ),
    "solar": (
        "<|tool_calls|><|tool_call:begin|>abc123xyz<|tool_call:name|>get_weather<|tool_call:args|>"
        f"{JSON}<|tool_call:end|>",
        None,
    ),
    "gigachat": (f"<|function_call|>{CALL}", None),
    "firefunction": (f" functools[{CALL}]", FIRE),
    "functionary 3.1": (f"<function=get_weather>{JSON}</function>", FUNCTION),
    "gpt-oss": (
        f"<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{JSON}",
        HARMONIC,
    ),
    "functionary 3.2": (f">>>get_weather\n{JSON}", SPOKEN),
    "muse": (
        '<|start|>assistant to=get_weather<|message|><atem:function_calls>\n<atem:invoke name="get_weather">\n'
        '<atem:parameter name="city">Bärn "<b>"</atem:parameter>\n<atem:parameter name="days">3</atem:parameter>\n'
        "</atem:invoke>\n</atem:function_calls>",
        HARMONIC,
    ),
    "hunyuan": (f"<tool_call>get_weather<tool_sep>```json\n{JSON}\n```</tool_call>", None),
}


def answer_of(
    pieces: list[str], channels: Channels | None, opens_header: bool = False
) -> tuple[str, str, list[tuple[str, object]]]:
    """The reasoning, the answer and the calls of a text that comes in pieces."""
    splitter = ChannelSplitter(False, channels, tools=(WEATHER,), opens_header=opens_header)
    said, calls = [], []
    for piece in pieces:
        said += splitter.push(piece)
        calls += splitter.take_calls()
    said += splitter.flush()
    calls += splitter.take_calls()
    texts = [
        "".join(text for kind, text in said if kind is wanted) for wanted in (Channel.REASONING, Channel.ANSWER)
    ]
    return texts[0], texts[1], [(call.name, json.loads(call.arguments)) for call in calls]


@pytest.mark.parametrize("family", WRITTEN)
def test_every_cut_of_a_call_gives_the_same(family: str) -> None:
    written, channels = WRITTEN[family]
    text = f"Hm.\n{written}"
    assert answer_of([text], channels) == ("", "Hm.\n" if "firef" not in family else "Hm.\n ", [EXPECTED])
    whole = answer_of([text], channels)
    assert answer_of(list(text), channels) == whole
    for cut in range(1, len(text)):
        assert answer_of([text[:cut], text[cut:]], channels) == whole, (text[:cut], text[cut:])


@pytest.mark.parametrize("opening", ["", "  \n"])
@pytest.mark.parametrize("call", [f'{{"name": "get_weather", "parameters": {JSON}}}'])
def test_llama_calls_with_bare_json(opening: str, call: str) -> None:
    for cut in range(len(call)):
        assert answer_of([opening, call[:cut], call[cut:]], LLAMA)[2] == [EXPECTED]
    assert answer_of([call], None)[1] == call, "other families answer with JSON"
    assert answer_of(["See: " + call], LLAMA)[1] == "See: " + call
    splitter = ChannelSplitter(False, LLAMA)
    assert splitter.push(call) + splitter.flush() == [(Channel.ANSWER, call)], "no tools were offered"


def test_several_calls_in_a_row() -> None:
    text = f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>done"
    for pieces in ([text], list(text)):
        assert answer_of(pieces, None)[1:] == ("done", [EXPECTED, EXPECTED])
    assert [call.name for call in parse_calls(f"{CALL}\n{CALL}")] == ["get_weather"] * 2
    assert len({call.call_id for call in parse_calls(f"{CALL}\n{CALL}")}) == 2, "each has an id of its own"


def test_headers_that_the_prompt_opened() -> None:
    text = f" to=functions.get_weather<|channel|>commentary json<|message|>{JSON}"
    for cut in range(len(text)):
        assert answer_of([text[:cut], text[cut:]], HARMONIC, True) == ("", "", [EXPECTED])
    thought = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes"
    for cut in range(len(thought)):
        assert answer_of([thought[:cut], thought[cut:]], HARMONIC, True) == ("hm", "yes", [])
    spoken = f"all\nHello>>>get_weather\n{JSON}"
    for cut in range(len(spoken)):
        assert answer_of([spoken[:cut], spoken[cut:]], SPOKEN, True) == ("", "Hello", [EXPECTED])
    for channels in (HARMONIC, SPOKEN):
        assert answer_of(["No header, at all"], channels, True)[1] == "No header, at all"
        assert answer_of(list("No header, at all"), channels, True)[1] == "No header, at all"


def test_text_that_no_header_begins_is_shown_at_once() -> None:
    splitter = ChannelSplitter(False, HARMONIC, opens_header=True)
    assert splitter.push("Hello") == [(Channel.ANSWER, "Hello")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("not a call", []),
        ("[1, 2]", []),
        ('{"city": "x"', []),
        ('{"name": "f", "arguments": {"a": ', []),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', [("f", '{"a": 1}')]),
        ('{"name": "f"}', [("f", "{}")]),
        ("f(a=1, b=[true, null], c={'d': 2})", [("f", '{"a": 1, "b": [true, null], "c": {"d": 2}}')]),
        ("[f(a=__import__('os'))]", []),
        ("<function=f>\n</function>", [("f", "{}")]),
        ('call:f{a:{b:[1,<|"|>x<|"|>]},c:true}', [("f", '{"a": {"b": [1, "x"]}, "c": true}')]),
        ("call:f{" + "a:{" * 200, []),
        ("[" * 100_000, []),
        ("f(" * 50_000, []),
        ("<function=f>{broken</function>", [("f", "{broken")]),
    ],
)
def test_shapes_of_calls(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(call.name, call.arguments) for call in parse_calls(text)] == expected


def test_bare_values_take_the_type_that_the_tool_declares() -> None:
    tool = Tool("f", parameters='{"properties": {"zip": {"type": "string"}, "n": {"type": "integer"}}}')
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in (("zip", "0123"), ("n", "7")))
    (call,) = parse_calls(f"<function=f>\n{body}</function>", [tool])
    assert json.loads(call.arguments) == {"zip": "0123", "n": 7}
    (call,) = parse_calls('<function=g>\n<parameter=x>\n{"a": [1]}\n</parameter>\n</function>', [tool])
    assert json.loads(call.arguments) == {"x": {"a": [1]}}, "undeclared, so what JSON makes of it"


def test_ids_that_a_family_writes_are_kept() -> None:
    written = "<|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>{}<|tool_call_end|>"
    assert parse_calls(written)[0].call_id == "functions.f:3"
    assert parse_calls('[{"name": "f", "arguments": {}, "id": "abc"}]')[0].call_id == "abc"
    assert len(parse_calls('{"name": "f"}')[0].call_id) == 9, "as Mistral's templates demand"


@pytest.mark.parametrize(
    "text",
    [
        "f(a=1+2j)",
        "f(a=b'x')",
        "f(a={1, 2})",
        "f(a={(1, 2): 3})",
        "f(a=...)",
        "f(a=__import__('os'))",
        "f(*a)",
        "f(**{})",
        "f(",
        "lambda: 1",
        '{"name": 3}',
        '{"name": "f"',
        "[1, 2]",
        "call:f{a",
        "call:f" + "{" * 60,
        "<invoke name=f>",
    ],
)
def test_what_is_no_call_is_none(text: str) -> None:
    assert parse_calls(text, [WEATHER]) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<invoke name="f"><a>1</a><b><a>2</a></b><c>', {"a": 1, "b": "<a>2</a>"}),
        ("<function=f><parameter=a>1</parameter><parameter=b>2", {"a": 1}),
        ("f<arg_key>a</arg_key>oops<arg_key>b</arg_key><arg_value>1</arg_value><arg_key>c", {"b": 1}),
        ("f<arg_key>a</arg_key><arg_value>1", {}),
    ],
)
def test_of_calls_that_break_off_what_is_whole_counts(text: str, expected: dict[str, object]) -> None:
    (call,) = parse_calls(text)
    assert (call.name, json.loads(call.arguments)) == ("f", expected)


@pytest.mark.parametrize("beginning", ["", "[ARGS]", '<invoke name="f">', "<function=f>", "call:f{", "f<arg_key>"])
@pytest.mark.parametrize(
    "unit",
    [
        "f",
        "<a>",
        "<arg_key>",
        "<parameter=a>",
        '<parameter name="a">',
        "call:f{",
        "{",
        "[",
        "(",
        "<|tool_call_begin|>",
    ],
)
def test_nonsense_is_read_in_time_with_its_length(beginning: str, unit: str) -> None:
    """Of which patterns that look ahead from every place would take minutes."""
    assert len(parse_calls(beginning + unit * (60_000 // len(unit)))) <= 1
