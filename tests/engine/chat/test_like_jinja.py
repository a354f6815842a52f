"""Templates of no family in particular against plain Jinja: every feature that templates use gives the same text.

What people wrote is concealed while a template runs; here it is told whether any operation shows that.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

import pytest
from jinja2.ext import ExprStmtExtension, LoopControlExtension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.chat.rendering import CompiledTemplate, TemplateRefusedError
from engine.chat.sandbox import GenerationTag
from engine.errors import TemplateError
from engine.protocol import Message, Role, Tool, ToolCall

SPECIALS: Final = {"bos_token": "<s>", "eos_token": "</s>"}
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Köln", "Paris"], "description": "x"},
        "days": {"type": ["integer", "null"]},
        "more": {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "number"}}},
            "required": [],
        },
    },
    "required": ["city"],
}
WEATHER: Final = Tool("get_weather", "Tells the weather.\nNow.", json.dumps(SCHEMA))
USER, ASSISTANT, SYSTEM = Role.USER, Role.ASSISTANT, Role.SYSTEM
CONVERSATIONS: Final[dict[str, list[Message]]] = {
    "odd letters": [Message(USER, 'Hi <b>there</b> & "you"?\nÜber 12 aö 🦙')],
    "system": [
        Message(SYSTEM, "Be brief.\r\nOk"),
        Message(USER, "Hi o?"),
        Message(ASSISTANT, "Hello\nworld  "),
        Message(USER, "  Straße ßa  "),
    ],
    "reasoning": [Message(USER, "Hi"), Message(ASSISTANT, "42", "Let me\nthink"), Message(USER, "why?")],
    "tools": [
        Message(SYSTEM, "Sys"),
        Message(USER, "Hi weather"),
        Message(
            ASSISTANT,
            "",
            tool_calls=(ToolCall("get_weather", '{"city": "Köln", "days": 2, "skip": [1]}', "abc123456"),),
        ),
        Message(Role.TOOL, '{"t": 3}', name="get_weather", call_id="abc123456"),
        Message(ASSISTANT, "It is 3"),
        Message(USER, "thanks"),
    ],
    "nothing": [Message(USER, "")],
    "long": [Message(ASSISTANT if turn % 2 else USER, f"Hi {turn} " + "word " * 12) for turn in range(9)],
}
# fmt: off
TEMPLATES: Final = {
    "offered tools": (
        "{%- if tools %}{{- '<|system|>\n' }}{%- if messages[0]['role'] == 'system' %}"
        "{{- messages[0]['content'] }}{%- set remaining_messages = messages[1:] %}{%- else %}"
        "{%- set remaining_messages = messages %}{%- endif %}"
        "{{- 'You may call functions.\nFunctions:\n' + tools|tojson(indent=2) }"
        "}{{- '\n' }}{%- else %}{%- set remaining_messages = messages %}{%- endif %}"
        "{%- for message in remaining_messages %}"
        "{{- '<|' + message['role'] + '|>\n' + (message['content'] or '') }}{%- if message.tool_calls %}"
        "{%- for tc in message.tool_calls %}"
        "{{- '<tool_call>' + ({'name': tc.function.name, 'arguments': tc.function.arguments}|tojson(ensure_as"
        "cii=True)) + '</tool_call>' }}{%- endfor %}{%- endif %}"
        "{{- eos_token if loop.last and not add_generation_prompt else '\n' }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|assistant|>\n' }}{%- endif %}"
    ),
    "macros+namespace": (
        "{%- macro render_extra(d, skip=[]) -%}{%- for k, v in d.items() if k not in skip -%}<{{ k }}"
        ">{{ v if v is string else v|tojson(separators=(',', ':')) }}</{{ k }}>{%- endfor -%}{%- endmacro -%}"
        "\n{%- set ns = namespace(first=true, count=0, last_user=-1) -%}\n{%- for m in messages -%}"
        "{%- if m.role == 'user' -%}{%- set ns.last_user = loop.index0 -%}{%- endif -%}{%- endfor -%}"
        "\n{%- for m in messages -%}\n{%- set ns.count = ns.count + 1 -%}\n[{{ ns.count }}/{{ messages|length }}"
        ":{{ m.role|upper }}{% if loop.index0 == ns.last_user %}*{% endif %}"
        "] {{ m.content|trim if m.content is string else '' }}"
        "\n{% if m.tool_calls is defined and m.tool_calls %}{% for c in m.tool_calls %}"
        "{{ render_extra(c.function.arguments, ['skip']) }}{% endfor %}{% endif -%}\n{%- endfor -%}"
        "\n{%- if add_generation_prompt %}[{{ ns.count + 1 }}:ASSISTANT] {% endif -%}"
    ),
    "break-continue": (
        "{%- for m in messages -%}{%- if m.role == 'system' -%}{%- continue -%}{%- endif -%}"
        "{%- if loop.index > 6 -%}{%- break -%}{%- endif -%}{{ loop.cycle('A','B') }}>{{ m.content }}"
        "{{ '\n' if not loop.last }}{%- endfor -%}{{ '#' * 3 }}{%- if add_generation_prompt -%}>>{%- endif -%}"
    ),
    "generation-tag": (
        "{% for m in messages %}{% if m['role'] == 'assistant' %}{% generation %}<a>{{ m['content'] }}"
        "</a>{% endgeneration %}{% else %}<{{ m['role'][0] }}>{{ m['content'] }}</{{ m['role'][0] }}"
        ">{% endif %}\n{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
    ),
    "strftime+slices": (
        "{{- '<|begin|>' }}{%- if not date_string is defined %}"
        '{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}Today: {{ date_string }}'
        "\n{% for m in messages[-4:] %}{{ m.role }}: {{ (m.content or '')[:40] }}"
        "{% if (m.content or '')|length > 40 %}...{% endif %}\n{% endfor %}{{ messages[::-1][0].role }}"
        "{{ messages|map(attribute='role')|join('/') }}"
        " {{ messages|selectattr('role','equalto','user')|list|length }}"
        " {{ messages|rejectattr('role','in',['user','system'])|map(attribute='role')|unique|sort|join('+') }"
        "}"
    ),
    "string-methods": (
        "{% for m in messages %}{%- set c = m.content or '' -%}{% if c.startswith('<think>') %}"
        "T{{ c.split('</think>')[-1].lstrip('\n') }}{% elif '</think>' in c %}"
        "{{ c.rsplit('</think>', 1)[1].strip() }}{% else %}"
        "{{ c.strip().replace('\r\n', '\n').title() if m.role == 'user' else c.rstrip().splitlines()|join(' ⏎ ')"
        " }}{% endif %}|{{ c.find('a') }} {{ c.count('o') }} {{ c.partition(' ')[0].upper() }}"
        " {{ c.removeprefix('Hi').removesuffix('?') }} {{ '%s-%d' % (m.role, loop.index) }}"
        " {{ '{}:{}'.format(m.role, c|length) }} {{ c.isdigit() }} {{ c.center(5, '*') }} {{ c.zfill(3) }}"
        "\n{% endfor %}"
    ),
    "raise-roles": (
        "{% if messages[0]['role'] == 'system' %}{% set sys = messages[0]['content'] %}"
        "{% set loop_messages = messages[1:] %}{% else %}{% set sys = '' %}{% set loop_messages = messages %}"
        "{% endif %}{% for message in loop_messages %}"
        "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('the roles must alternate') }}"
        "{% endif %}{% if loop.index0 == 0 and sys %}"
        "{% set content = '<<SYS>>\\n' + sys + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}"
        "{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
        "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
        "{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
    ),
    "typed-schema": (
        "{%- macro type_of(p) -%}{%- if p.type == 'array' -%}{{ type_of(p['items']) }}"
        "[]{%- elif p.enum is defined -%}{{ p.enum|map('tojson')|join(' | ') }}"
        "{%- elif p.type is iterable and p.type is not string -%}{{ p.type|join(' | ') }}"
        "{%- elif p.type == 'object' and p.properties is defined -%}{ {% for k, v in p.properties.items() %}"
        "{{ k }}{{ '?' if k not in (p.required or []) }}: {{ type_of(v) }}{{ ', ' if not loop.last }}"
        "{% endfor %} }{%- else -%}{{ p.type|default('any', true) }}{%- endif -%}{%- endmacro -%}"
        "\n{%- if tools -%}namespace functions {\n{% for t in tools %}{%- set f = t.function -%}"
        "// {{ f.description|replace('\n', ' ') }}\ntype {{ f.name }} = (_: {{ type_of(f.parameters) }}"
        ") => any;\n{% endfor %}}\n{% endif -%}\n{% for m in messages %}<|{{ m.role }}"
        "|>{{ m.content|default('', true) }}<|end|>{% endfor %}{% if add_generation_prompt %}"
        "<|assistant|>{% endif %}"
    ),
    "dictsort-groupby": (
        "{% for m in messages %}{% for k, v in m|dictsort %}{{ k }}={{ v if v is string else v|tojson }}"
        ";{% endfor %}{{ '\n' }}{% endfor %}{% for g in messages|groupby('role') %}{{ g.grouper }}"
        ":{{ g.list|length }} {% endfor %}{{ {'b': 1, 'a': [1, 2.5, none, true]}|tojson(sort_keys=true) }}"
    ),
    "ternary-tests": (
        "{%- set x = messages|first -%}{%- set y = messages|last -%}{{ x.role if x is mapping else 'no' }}"
        "{{ 1 if y.content is none else 2 }}{{ 'seq' if messages is sequence }}"
        "{{ x.content is string and x.content is not number }}{{ loop is defined }}"
        "{{ undefined_thing is defined }}{{ undefined_thing or 'dflt' }}"
        "{{ (undefined_thing|default({})).foo }}"
        "{{ messages[99].content if messages|length > 99 else 'short' }}{{ 7 // 2 }}{{ 7 % 3 }}{{ 2 ** 8 }}"
        "{{ 1.5|round|int }}{{ '3'|int + 4 }}{{ ['a','b'][-1] }}{{ ('a' ~ 1 ~ none) }}"
        "{{ not false and true }}{{ 'x' in ['x'] }}{% for m in messages %}"
        "{{ loop.previtem.role if loop.previtem else '^' }}"
        ">{{ loop.nextitem.role if loop.nextitem is defined else '$' }} {{ loop.revindex }}"
        " {{ loop.changed(m.role) }}{% endfor %}{% set joined %}{% for m in messages %}{{ m.content }}"
        "{% endfor %}{% endset %}{{ joined|length }} {{ joined|trim|upper }}"
    ),
    "recursive+call": (
        "{%- macro box(t) -%}[{{ t }}:{{ caller() }}]{%- endmacro -%}{% for m in messages %}"
        "{% call box(m.role) %}{{ m.content }}{% endcall %}{% endfor %}"
        "{%- for item in [[1,[2,3]],4] recursive -%}{{ loop(item) if item is iterable else item }}"
        ",{%- endfor -%}{% filter upper %}{{ messages[0].content }}{% endfilter %}{% with a = 1, b = a %}"
        "{{ a }}{{ b }}{% endwith %}{% if messages is not none %}"
        "{% for m in messages if m.role != 'system' %}{{ m.role[:1] }}{% else %}none{% endfor %}{% endif %}"
        "{% raw %}{{ raw }}{% endraw %}{# comment #}"
    ),
    "json-content-parts": (
        "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for part in m.content or [] %}{% if part.type == 'text' %}{{ part.text }}"
        "{% elif part.type == 'image' %}<image>{% endif %}{% endfor %}{% endif %}"
        "{% if m.role == 'assistant' and m.reasoning_content is defined and m.reasoning_content %}"
        "<think>{{ m.reasoning_content }}</think>{% endif %}</{{ m.role }}>{% endfor %}"
    ),
    "list-building": (
        "{%- set ns = namespace(parts=[], d={}) -%}{%- for m in messages -%}"
        "{%- set ns.parts = ns.parts + [m.role ~ ': ' ~ (m.content or '')] -%}"
        "{%- set ns.d = dict(ns.d, **{m.role: (ns.d.get(m.role, 0) + 1)}) -%}{%- endfor -%}"
        "{{ ns.parts|join('\n') }}{{ ns.d|tojson }}{{ ns.parts|length }}{{ ns.d.items()|list }}"
        "{{ ns.d.keys()|list }}{{ ns.d|length }}{{ ns.parts[0]|replace('s','S', 1) }}"
        "{{ ns.parts|last|truncate(12) }}{{ range(3)|list }}{{ ns.parts|reverse|list|first }}"
        "{{ [3,1,2]|sort(reverse=true) }}{{ [1,2]|sum }}{{ ns.parts|batch(2)|list|length }}"
    ),
    "indent-wordcount": (
        "{{ messages[0].content|indent(4, true) }}{{ messages[0].content|wordcount }}"
        "{{ messages[0].content|e }}{{ messages[0].content|string|length }}{{ '  a '|trim }}{{ 'abc'|first }}"
        "{{ 'abc'|last }}{{ 'abc'|reverse }}{{ 'abc'|list|join('-') }}{{ messages|tojson }}"
        "{{ messages[0].content|tojson(ensure_ascii=true) }}{{ messages[0].content|capitalize }}"
        "{{ messages[0].content|title }}{{ messages[0].content|lower }}"
    ),
    "python-repr": (
        "{{ tools }}{{ messages[0] }}{{ messages|map(attribute='content')|list }}"
    ),
    "pythonic": (
        "{%- for m in messages -%}{{ m['role'] }}{{ m.get('name', 'x') }}{{ m.get('content') }}"
        "{{ 'content' in m }}{{ m['content']|length if m['content'] }}{{ m.keys()|list|length > 1 }}"
        "{%- endfor -%}{{ messages[0]['content'].split()|length }}"
        "{{ messages[0]['content'].lower().capitalize() }}{{ 'a,b,c'.split(',')[1:]|join }}"
        "{{ ', '.join(['x','y']) }}{{ messages[0]['content'].swapcase() }}"
        "{{ messages[0].content.casefold() }}{{ messages[0].content.index('H') }}"
    ),
    "batch-slice": (
        "{% for row in messages|batch(2) %}{{ row|map(attribute='role')|join(',') }};{% endfor %}"
        "{% for col in messages|slice(2) %}{{ col|length }}{% endfor %}"
    ),
    "statement": (
        "{% set xs = namespace(n=0) %}{% do messages|map(attribute='role')|list %}{{ xs.n }}"
        "{{ messages[0].content }}"
    ),
}
# fmt: on


def plain_jinja(template: str, variables: dict[str, Any]) -> str:
    """The template as Hugging Face's library sets Jinja up; with its statement ``do``, too."""

    def refuse(message: str) -> None:
        raise TemplateRefusedError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, LoopControlExtension, ExprStmtExtension]
    )
    environment.filters["tojson"] = lambda value, ensure_ascii=False, **options: json.dumps(
        value, ensure_ascii=ensure_ascii, **options
    )
    environment.globals |= {
        "raise_exception": refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
    }
    return environment.from_string(template).render(variables)


def variables_of(messages: list[Message], tools: list[Tool]) -> dict[str, Any]:
    """A conversation as templates see it."""
    told: list[dict[str, Any]] = []
    for message in messages:
        variables: dict[str, Any] = {"role": message.role.value, "content": message.content}
        if message.reasoning:
            variables |= dict.fromkeys(("reasoning_content", "reasoning", "thinking"), message.reasoning)
        if message.tool_calls:
            variables["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.loads(call.arguments)},
                }
                for call in message.tool_calls
            ]
        if message.role is Role.TOOL:
            variables |= {"name": message.name, "tool_call_id": message.call_id}
        told.append(variables)
    functions = [
        {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)}
        for tool in tools
    ]
    offered = [{"type": "function", "function": function} for function in functions]
    return {"tools": offered or None, "documents": None, "messages": told, **SPECIALS}


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_writes_what_plain_jinja_writes(name: str, conversation: str) -> None:
    messages, tools = CONVERSATIONS[conversation], [WEATHER] if conversation == "tools" else []
    template = CompiledTemplate(TEMPLATES[name], SPECIALS)
    for opens_answer in (True, False):
        variables = variables_of(messages, tools) | {"add_generation_prompt": opens_answer}
        try:
            expected = plain_jinja(TEMPLATES[name], variables)
        except Exception as error:
            kind = TemplateRefusedError if isinstance(error, TemplateRefusedError) else TemplateError
            with pytest.raises(kind):
                template.render(messages, opens_answer, tools)
            continue
        segments = template.render(messages, opens_answer, tools)
        assert "".join(text for text, _ in segments) == expected
        written = "".join(text for text, is_scaffolding in segments if is_scaffolding)
        assert not any(word in written for word in ("weather", "word", "Straße", "world"))
