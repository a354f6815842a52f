"""Templates that attack: no code runs, no memory or time is lost, and each gives one reason."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.chat.limits import Budget, RenderLimitError
from engine.chat.rendering import CompiledTemplate, TemplateRefusedError
from engine.errors import TemplateError
from engine.protocol import Message, Role

QUESTION = [Message(Role.USER, "hi")]
DOUBLING = "{%% set n = namespace(x=%s, y=%s) %%}{%% for i in range(60) %%}%s{%% endfor %%}%s"


def rendered(source: str) -> str:
    return "".join(text for text, _ in CompiledTemplate(source, {}).render(QUESTION, True))


@pytest.mark.parametrize(
    "source",
    [
        "{{ lipsum.__globals__['os'].popen('id').read() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ self.__init__.__globals__ }}{{ self._TemplateReference__context.environment.from_string }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ (''['__class__'])() }}",
        "{{ (''|attr('__class__'))() }}",
        "{{ raise_exception.__globals__.os }}",
        "{{ '{0.__class__.__mro__}'.format(1).a.b }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ messages.clear() }}",
        "{{ messages[0].__setitem__('role', 'x') }}",
        "{{ (1).to_bytes(300000000, 'big') }}",
        "{{ 'a'.encode() }}",
        "{{ '\\t'.expandtabs(300000000) }}",
        "{{ 'a'.translate({97: 'b'*1000}) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends 'x' %}",
        "{{ foo.bar.baz }}",
        "{{ 1/0 }}",
        "{{ [1]|batch(10**9, 0)|list }}",
        "{{ messages|pprint }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% block a %}{{ self.a() }}{% endblock %}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "+".join(["1"] * 40_000) + " }}",
        "{% if 1 %}" * 300 + "x" + "{% endif %}" * 300,
        "{% for a in [1] %}" * 50 + "x" + "{% endfor %}" * 50,
        "{#" * 60_000,
        "x" * 200_000,
        "{% if %}",
        "{{ ",
    ],
)
def test_what_is_not_allowed_is_an_error_with_a_reason(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        rendered(source)
    assert 10 < len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_forbidden_attributes_are_empty() -> None:
    assert rendered("{{ ''['__class__'] }}{{ raise_exception.__globals__ }}{{ '{0.__class__}'.format(1) }}") == ""


@pytest.fixture
def little_memory() -> Iterator[None]:
    """At most 600 MB more than now: what a bomb would take is an error here, not a swapping machine."""
    if sys.platform != "linux":
        pytest.skip("the limit on memory is Linux's")
    resource = pytest.importorskip("resource")
    now = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + 600_000_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


# fmt: off
BOMBS = {
    "string product": "{{ ('a'*3*10**8)|length }}",
    "product, other way round": "{{ (3*10**8)*'a' }}",
    "list product": "{{ ([0]*10**9)|length }}",
    "power": "{{ 9**(9**7) }}",
    "repeated squares": DOUBLING % ("9", "1", "{% set n.x = n.x * n.x %}", "{{ n.x }}"),
    "condition": "{{ 'a' if ('a'*10**9) else 'b' }}",
    "argument": "{% set c = cycler('a'*10**9) %}",
    "center": "{{ 'a'.center(3*10**8) }}",
    "center filter": "{{ 'a'|center(3*10**8) }}",
    "center keyword": "{{ 'a'|center(width=3*10**8) }}",
    "ljust": "{{ 'a'.ljust(3*10**8) }}",
    "zfill": "{{ 'a'.zfill(3*10**8) }}",
    "percent width": "{{ '%300000000d' % 1 }}",
    "percent star": "{{ '%*d' % (300000000, 1) }}",
    "format filter": "{{ '%300000000d'|format(1) }}",
    "format": "{{ '{:300000000d}'.format(1) }}",
    "nested format": "{{ '{:{w}}'.format(1, w=300000000) }}",
    "format map": "{{ '{a:300000000d}'.format_map({'a': 1}) }}",
    "indent": "{{ ('\\n'*100000)|indent(100000) }}",
    "indent by text": "{{ ('a\\n'*100000)|indent('x'*100000) }}",
    "indented JSON": "{{ [[1]]|tojson(indent=10**9) }}",
    "replace": "{{ ('a'*100000).replace('a', 'b'*100000) }}",
    "replace filter": "{{ ('a'*100000)|replace('a', 'b'*100000) }}",
    "replace nothing": "{{ ('a'*100000).replace('', 'b'*100000) }}",
    "join filter": "{{ (range(100000)|list)|join('x'*100000) }}",
    "join": "{{ ('x'*100000).join(['a']*50000) }}",
    "tilde": DOUBLING % ("'a'", "1", "{% set n.x = n.x ~ n.x %}", "{{ n.x|length }}"),
    "plus": DOUBLING % ("'a'", "1", "{% set n.x = n.x + n.x %}", "{{ n.x|length }}"),
    "capture": DOUBLING % ("'a'", "1", "{% set z %}{{n.x}}{{n.x}}{% endset %}{% set n.x = z %}", "{{ n.x }}"),
    "macro": "{% macro m(s) %}{{s}}{{s}}{% endmacro %}" + DOUBLING % ("'a'", "1", "{% set n.x = m(n.x) %}", ""),
    "macro recursion": "{% macro m(s,n) %}{% if n %}{{ m(s~s,n-1) }}{% endif %}{% endmacro %}{{ m('a',100) }}",
    "call block": "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ 'a'*3*10**8 }}{% endcall %}",
    "filter block": "{% filter replace('a','b'*100000) %}{{ 'a'*100000 }}{% endfilter %}",
    "nested list": DOUBLING % ("[1]", "1", "{% set n.x = [n.x, n.x] %}", "{{ n.x }}"),
    "nested list as JSON": DOUBLING % ("[1]", "1", "{% set n.x = [n.x, n.x] %}", "{{ n.x|tojson }}"),
    "nested lists compared":
        DOUBLING % ("[1]", "[1]", "{% set n.x=[n.x,n.x] %}{% set n.y=[n.y,n.y] %}", "{{ n.x==n.y }}"),
    "nested dict": DOUBLING % ("{}", "1", "{% set n.x = {'a': n.x, 'b': n.x} %}", "{{ n.x|string }}"),
    "nested tuple as key": DOUBLING % ("(1,)", "1", "{% set n.x = (n.x, n.x) %}", "{{ {n.x: 1} }}"),
    "nested namespace": DOUBLING % ("1", "1", "{% set n.x = namespace(a=n.x, b=n.x) %}", "{{ n.x }}"),
    "namespace in itself": "{% set n = namespace() %}{% set n.a = n %}{{ n }}",
    "wide and nested": "{% set a = [[1]*90000]*90000 %}{{ a == [[1]*90000]*90000 }}",
    "kept strings": "{% set n=namespace(l=[]) %}{% set s='a'*1000000 %}"
                    "{% for i in range(10000) %}{% set n.l = n.l + [s ~ i] %}{% endfor %}",
    "output": "{% for i in range(100000) %}{{ 'a'*1000000 }}{% endfor %}",
    "split": "{{ ('a '*500000).split()|length }}",
    "date": "{{ strftime_now('%300000000d') }}",
    "backward search": "{{ ('a'*900000).rfind('b' + 'a'*400000) }}",
}
LONG = {
    "range": "{% for i in range(10**12) %}{% endfor %}",
    "loops": "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "macros": "{% macro m(n) %}{% if n > 0 %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(80) }}",
    "recursive loop": "{% for x in [1,2] recursive %}{{ loop([1,2]) if loop.depth < 60 }}{% endfor %}",
    "sums": "{% for i in range(100000) %}{% set x = range(100000)|sum %}{% endfor %}",
    "sorting": "{% for i in range(100000) %}{% set x = range(100000)|list|sort %}{% endfor %}",
    "searching": "{% set s='a'*900000 %}{% for i in range(10**5) %}{{ 'a'*450000+'b' in s }}{% endfor %}",
    "words": "{% for i in range(10**5) %}{{ ('a '*400000)|wordcount }}{% endfor %}",
    "lists of lists": "{{ ([range(100000)]*10000)|map('list')|list|length }}",
    "selecting": "{% for i in range(100000) %}{% set x = range(100000)|select('odd')|list %}{% endfor %}",
}
# fmt: on


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_stopped_before_they_go_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what they would take, not by the clock, which stands still here."""
    monkeypatch.setattr("engine.chat.limits.time.thread_time", lambda: 0.0)
    with pytest.raises(RenderLimitError):
        rendered(BOMBS[name])


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", LONG)
def test_long_renders_are_stopped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would go on for hours."""
    monkeypatch.setattr("engine.chat.rendering.Budget", lambda characters: Budget(characters, time_s=0.1))
    with pytest.raises(TemplateError):
        rendered(LONG[name])


def test_the_deadline_holds_on_any_thread() -> None:
    errors: list[TemplateError] = []

    def render() -> None:
        try:
            rendered(LONG["loops"])
        except TemplateError as error:
            errors.append(error)

    thread = threading.Thread(target=render)
    thread.start()
    thread.join(timeout=120)
    assert not thread.is_alive()
    assert "too long" in str(errors[0])


def test_a_sleep_of_the_computer_is_not_the_templates() -> None:
    budget = Budget(time_s=0.05)
    time.sleep(0.1)
    for _ in range(10):
        budget.tick(1000)


def test_a_spent_budget_stays_spent() -> None:
    budget = Budget(time_s=-1)
    with pytest.raises(RenderLimitError):
        budget.tick(1000)
    with pytest.raises(RenderLimitError):
        budget.admit("x")


def test_limits_grow_with_the_content() -> None:
    long = "word " * 400_000
    segments = CompiledTemplate("{% for m in messages %}[{{ m.content|trim }}]{% endfor %}", {}).render(
        [Message(Role.USER, long)], True
    )
    assert segments == [("[", True), (long.strip(), False), ("]", True)]


def test_a_refusal_keeps_its_words() -> None:
    with pytest.raises(TemplateRefusedError, match=r"^roles must alternate$"):
        rendered("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% for x in [1,2,3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "1"),
        ("{% for x in [1,2] %}{{ x }}{{ ',' if not loop.last }}{% endfor %}{{ [1,2]|length }}", "1,22"),
        ("{% generation %}a{{ 1 }}{% endgeneration %}b", "a1b"),
        ("{{ {'b': [1, 'é\"'], 'a': none}|tojson }}", '{"b": [1, "é\\""], "a": null}'),
        ("{{ {'b': 1, 'a': 2}|tojson(indent=2, sort_keys=true) }}", '{\n  "a": 2,\n  "b": 1\n}'),
        ("{{ 'é'|tojson(ensure_ascii=true) }}", '"\\u00e9"'),
        ("{{ [1,2]|tojson(separators=(',', ':')) }}", "[1,2]"),
        ("{{ 'a-b'.split('-')|join('+') }}{{ 'x'|upper }}{{ ' y '|trim }}", "a+bXy"),
        ("{{ '%s-%03d' % ('a', 7) }}{{ '{:>4}|{a}'.format('b', a=1) }}{{ '%s'|format('c') }}", "a-007   b|1c"),
        ("{{ 2**10 }}{{ 7 // 2 }}{{ 7 % 4 }}{{ 'ab' * 2 }}{{ [1] + [2] }}", "102433abab[1, 2]"),
        ("{{ 'a\nb'|indent(2) }}{{ 'a\nb'|indent(2, true) }}{{ 'a'|center(3) }}", "a\n  b  a\n  b a "),
        ("{{ '3'|int + 1 }}{{ 'x'|int }}{{ '2.5'|float }}{{ 2.567|round(1) }}{{ [1,2]|sum }}", "402.52.63"),
        ("{{ '<a>'|escape }}{{ '<a>'|safe }}{{ 'abc'|truncate(2, true, '') }}", "&lt;a&gt;<a>ab"),
        ("{{ [3,1,2]|sort|first }}{{ [{'a':1},{'a':2}]|map(attribute='a')|join(',') }}", "11,2"),
        ("{{ [{'a':1},{'a':2}]|selectattr('a','equalto',2)|list|length }}{{ {'a':1}|dictsort }}", "1[('a', 1)]"),
        ("{% set n = namespace(a=1) %}{% for i in [1] %}{% set n.a = 5 %}{% endfor %}{{ n.a }}", "5"),
        ("{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=3) }}", "1213"),
        ("{% for g in [{'k':1},{'k':1}]|groupby('k') %}{{ g.grouper }}{{ g.list|length }}{% endfor %}", "12"),
        ("{{ 'A' ~ 1 ~ none }}{{ undefined_thing }}{{ 'x' if undefined_thing is defined else 'y' }}", "A1Noney"),
        (
            "{{ messages[0].content[0] }}{{ messages[0]['content'][::-1] }}{{ 'i' in messages[0].content }}",
            "hihTrue",
        ),
        ("{% for x in [[1,[2]]] recursive %}{% for y in x %}{{ y }};{% endfor %}{% endfor %}", "1;[2];"),
        ("  {% if true %}\n  x\n  {% endif %}\n", "  x\n"),
        ("{{ strftime_now('%Y')|length }}{{ tools is none }}", "4True"),
    ],
)
def test_what_templates_need_works(source: str, text: str) -> None:
    assert rendered(source) == text
