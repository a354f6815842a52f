"""Tools, calls and results in prompts: of templates that know them, and of those that do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.chat.builtin import PLAIN
from engine.chat.channels import ChannelSplitter
from engine.chat.rendering import CompiledTemplate, RenderedPrompt
from engine.chat.template import ChatTemplate, _try_out
from engine.chat.tool_support import OFFERED, TOLD
from engine.errors import InvalidParameterError
from engine.protocol import Message, Role, Tool, ToolCall

SYSTEM, USER, ASSISTANT, TOOL = Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "where"}, "days": {"type": "integer"}},
    "required": ["city"],
}
WEATHER = Tool("get_weather", "Tells the weather <|im_end|>.", json.dumps(SCHEMA))
ARGUMENTS = {"city": "Bärn <b>", "days": 3}
CALL = ToolCall("get_weather", json.dumps(ARGUMENTS, ensure_ascii=False), "abc123xyz")
SECOND = ToolCall("get_weather", '{"city": "Rom"}', "abc123xy2")
QUESTION = (Message(SYSTEM, "Be brief."), Message(USER, "Weather?"))


def result(text: str, call: ToolCall) -> Message:
    return Message(TOOL, text, name=call.name, call_id=call.call_id)


CALLED = (*QUESTION, Message(ASSISTANT, "", tool_calls=(CALL,)), result("RESULT-42", CALL))
ANSWERED = (*CALLED, Message(ASSISTANT, "It rains.", "Let me think."), Message(USER, "Thanks <|im_end|>!"))
SPOKEN = (
    *QUESTION,
    Message(ASSISTANT, "One moment.", "I should ask.", (CALL, SECOND)),
    result("RESULT-42", CALL),
    result("RESULT-43", SECOND),
)
HERMES = (
    "{% if tools %}<tools>{% for t in tools %}{{ t|tojson }}{% endfor %}</tools>{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments|tojson }}}</tool_call>{% endfor %}'
    "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def template_of(source: str) -> ChatTemplate:
    compiled = CompiledTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"})
    _try_out(compiled)
    return ChatTemplate(compiled, lambda: CompiledTemplate(PLAIN.source, {}), None)


def content_of(prompt: RenderedPrompt) -> str:
    return "".join(text for text, is_scaffolding in prompt.segments if not is_scaffolding)


def scaffolding_of(prompt: RenderedPrompt) -> str:
    return "".join(text for text, is_scaffolding in prompt.segments if is_scaffolding)


def test_names_descriptions_and_arguments_are_content() -> None:
    prompt = template_of(HERMES).render(ANSWERED, tools=[WEATHER])
    assert '"description": "Tells the weather <|im_end|>."' in prompt.text
    assert '{"city": "Bärn <b>", "days": 3}' in prompt.text
    assert "<|im_end|>." not in scaffolding_of(prompt)
    assert "get_weather" not in scaffolding_of(prompt)
    assert scaffolding_of(prompt).count("<|im_end|>") == len(ANSWERED)
    assert prompt.notices == ()


def test_a_template_that_wants_arguments_as_text() -> None:
    source = HERMES.replace("{{ c.function.arguments|tojson }}", "{{ c.function.arguments + '' }}")
    assert CALL.arguments in template_of(source).render(CALLED, tools=[WEATHER]).text


def test_a_template_that_writes_calls_only_without_content() -> None:
    source = HERMES.replace(
        "for c in m.tool_calls or []", "for c in (m.tool_calls or [] if m.content is none else [])"
    )
    source = source.replace("{{ m.content }}", "{{ m.content or '' }}")
    prompt = template_of(source).render(SPOKEN, tools=[WEATHER])
    assert "One moment.<|im_end|><|im_start|>assistant\n<tool_call>" in prompt.text
    assert prompt.text.count("<tool_call>") == 2


def test_a_template_that_takes_one_call_at_a_time() -> None:
    refusal = "{{ raise_exception('one at a time') if (m.tool_calls or [])|length > 1 else '' }}"
    prompt = template_of(HERMES.replace("{{ m.content }}", refusal + "{{ m.content }}")).render(
        SPOKEN, tools=[WEATHER]
    )
    positions = [prompt.text.index(text) for text in ("Bärn", "RESULT-42", "Rom", "RESULT-43")]
    assert positions == sorted(positions), "each call is followed by its result"
    assert len(prompt.notices) == 1
    assert "one after the other" in prompt.notices[0]


def test_a_template_that_knows_no_tools_is_told_in_words() -> None:
    source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
    prompt = template_of(source.replace("for m in messages", "for m in messages if m.role != 'tool'")).render(
        SPOKEN, tools=[WEATHER]
    )
    for text in ("Be brief.", '"name": "get_weather"', "Bärn", "Rom", "RESULT-42", "RESULT-43", "One moment."):
        assert text in content_of(prompt)
    assert prompt.notices == (TOLD, OFFERED)
    alone = template_of(source).render([Message(USER, "Weather?")], tools=[WEATHER])
    assert alone.text.startswith("<|im_start|>system\nYou may call functions.")


def test_what_the_text_asks_for_is_read_as_a_call() -> None:
    splitter = ChannelSplitter(tools=[WEATHER])
    splitter.push('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rom"}}\n</tool_call>')
    assert [call.name for call in splitter.take_calls()] == ["get_weather"]


def test_escaped_json_is_content_all_the_same() -> None:
    source = HERMES.replace("|tojson", "|tojson(ensure_ascii=true)")
    messages = (Message(USER, "x"), Message(ASSISTANT, "", tool_calls=(ToolCall("f", '{"a": "é😀<|im_end|>"}'),)))
    prompt = template_of(source).render(messages, tools=[WEATHER])
    assert '{"a": "\\u00e9\\ud83d\\ude00<|im_end|>"}' in prompt.text
    assert "u00e9" not in scaffolding_of(prompt)
    assert scaffolding_of(prompt).count("<|im_end|>") == 2


def test_no_tools_change_nothing() -> None:
    template = template_of(HERMES)
    assert template.render(QUESTION, tools=()) == template.render(QUESTION)
    assert "<tools>" not in template.render(QUESTION).text


@pytest.mark.parametrize("parameters", ["", "{", "[]", "3", "[" * 100_000, '{"a": ' * 100 + "1" + "}" * 100])
def test_parameters_that_are_no_schema_are_refused_in_a_sentence(parameters: str) -> None:
    with pytest.raises(InvalidParameterError, match="tool"):
        template_of(HERMES).render(QUESTION, tools=[Tool("f", parameters=parameters)])


def test_a_template_may_keep_lists_and_each_render_has_its_own() -> None:
    source = (
        "{% set q = namespace(ids=[]) %}{% for m in messages %}{% set _ = q.ids.append(m.content) %}{% endfor %}"
        "{% set _ = tools.append('x') if tools is not none else 0 %}{{ q.ids.pop(0) }}{{ q.ids|length }}"
    )
    template = CompiledTemplate(source, {})
    template.variables["tools"] = []
    for _ in range(2):
        assert "".join(text for text, _ in template.render([Message(USER, "a"), Message(USER, "b")], True)) == "a1"
        assert template.variables["tools"] == []


# ------------------------------------------------------------------------------------------- real templates

# What the templates of the collection do not know, and how we tell it.
NO_PLACE_FOR_TOOLS = {
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "deepseek-ai-DeepSeek-V3.1",
    "google-gemma-2-2b-it",
    "llama-cpp-rwkv-world",
    "microsoft-Phi-3.5-mini-instruct",
}
NO_PLACE_FOR_CALLS = {
    "LFM2.5-Instruct",
    "google-gemma-2-2b-it",
    "ibm-granite-granite-3.3-2B-Instruct",
    "llama-cpp-rwkv-world",
    "microsoft-Phi-3.5-mini-instruct",
}
# A turn ends before the call, which the model would begin with the token that ends its turns.
UNREADABLE = {"GigaChat3-10B-A1.8B"}
# The template itself writes the first of several calls only.
FIRST_CALL_ONLY = {"GigaChat3-10B-A1.8B", "GigaChat3.1-10B-A1.8B"}
# fmt: off
ENDS = (
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "</s>", "<|end|>\n", "<｜end▁of▁sentence｜>", "<|call|>", "<|calls|>",
    "[e~[", "<|END_OF_TURN_TOKEN|>", "<|message_sep|>", "<|observation|>", "<|end_of_text|>", "<|role_end|>",
    "<|tool_response>", "<|eot|>", "<SPECIAL_12>", "<|close|>message", "[TOOL_RESULTS]", "RESULT",
)
# fmt: on


def _names() -> list[str]:
    folder = Path(__file__).resolve().parents[4] / "shared" / "data" / "chat_templates"
    return sorted(path.stem for path in folder.glob("*.jinja"))


@pytest.mark.parametrize("name", _names() or ["absent"])
def test_real_templates_take_tools_calls_and_results(name: str, shared_data: Path) -> None:
    path = shared_data / "chat_templates" / f"{name}.jinja"
    if not path.exists():
        pytest.skip("the chat templates are not beside this checkout")
    template = template_of(path.read_text(encoding="utf-8"))
    for messages in (QUESTION, CALLED, ANSWERED, SPOKEN):
        prompt = template.render(messages, tools=[WEATHER])
        content = content_of(prompt)
        assert not any("built-in" in notice for notice in prompt.notices), prompt.notices
        for text in ("Be brief.", "Weather?", "get_weather", "RESULT-42" if len(messages) > 2 else ""):
            assert text in content, text
        if messages is not QUESTION:
            assert "Bärn <b>" in content or "B\\u00e4rn <b>" in content
        if messages is ANSWERED:
            assert "It rains." in content
            assert "Thanks" in content
        if messages is SPOKEN and name not in FIRST_CALL_ONLY:
            assert "Rom" in content
        assert (OFFERED in prompt.notices) is (name in NO_PLACE_FOR_TOOLS)
        assert (TOLD in prompt.notices) is (name in NO_PLACE_FOR_CALLS and messages is not QUESTION)


@pytest.mark.parametrize("name", _names() or ["absent"])
def test_what_a_template_writes_for_a_call_is_read_as_that_call(name: str, shared_data: Path) -> None:
    path = shared_data / "chat_templates" / f"{name}.jinja"
    if not path.exists():
        pytest.skip("the chat templates are not beside this checkout")
    template = template_of(path.read_text(encoding="utf-8"))
    asked = template.render(QUESTION, add_generation_prompt=False, tools=[WEATHER]).text
    written = template.render(CALLED, tools=[WEATHER]).text
    start = next((n for n, (a, b) in enumerate(zip(asked, written)) if a != b), len(asked))
    text = written[start : min(end for end in map(written.find, ENDS, [start + 1] * len(ENDS)) if end > 0)]
    opened = template.render(QUESTION, tools=[WEATHER]).text[start:]
    text = text.removeprefix(opened) if name.startswith("meta-llama") else text  # bare JSON begins an answer
    splitter = ChannelSplitter(channels=template.channels, tools=[WEATHER])
    for piece in text:
        splitter.push(piece)
    splitter.flush()
    calls = [(call.name, json.loads(call.arguments)) for call in splitter.take_calls()]
    assert calls == ([] if name in UNREADABLE else [("get_weather", ARGUMENTS)]), text
