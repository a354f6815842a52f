from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline

from app.chat.block_parts import MAX_OPEN_CHARACTERS, affordable
from app.chat.blocks import Block, BlockKind, BlockStream, displayable, parse_blocks

WHOLE = """# A heading
Text with **bold** and <smirk>.

1. one
2. two
   - nested

   more

> quoted
> twice

| a | b |
|---|--:|
| 1 | 2 |

```python
x = "```"
```

~~~
tilde
~~~

    indented

end"""


def _shape(block: Block, *, with_links: bool = True) -> tuple[object, ...]:
    """All of a block but the lines that it comes from, which count from another one when it streams.

    Without links where an address is noted after the block: one that is finished never changes again.
    """
    tokens = [
        (t.type, t.tag, t.markup, t.info, t.level, t.hidden, t.attrs, t.content, t.children if with_links else None)
        for t in block.tokens
    ]
    return (block.kind, block.text, block.language, tokens)


def _streamed(text: str, sizes: list[int]) -> list[Block]:
    stream = BlockStream()
    finished: list[Block] = []
    position, turn = 0, 0
    while position < len(text):
        size = sizes[turn % len(sizes)]
        finished.extend(stream.push(text[position : position + size]).finished)
        position, turn = position + size, turn + 1
    return finished + list(stream.finish().finished)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_pieces_of_any_size_give_the_same_blocks(sizes: list[int]) -> None:
    assert [_shape(block) for block in _streamed(WHOLE, sizes)] == [_shape(block) for block in parse_blocks(WHOLE)]


_PIECES = st.one_of(
    st.sampled_from([" ", "  ", "\t", "\n", "\n\n", "\r\n", "\u2028", "\0", "\n- ", "\n1. ", "\n> ", "\n# "]),
    st.sampled_from(
        ["word", " word", "é", "e\u0301", "日本", "1", " 2", "1.", "'s", "http://a", "&amp", "$5", "|x"]
    ),
    st.sampled_from(
        [",", ".", "-", " -", "*", "**", "_", "`", "```", "```py", "~~~", "$", "\\", "(", ")", ";", "!"]
    ),
    st.sampled_from([":", "/", "://", '"', "“a”", " (b)", "%", "1)", "。", "（", "\n[c", "](x", "\n- [d] e"]),
    st.sampled_from(["[", "[a](b", "]: x", "<b>", "{", "}", "|", "| a "]),
    st.sampled_from(["\n\n| a | b |\n|--|:-:|\n", "| 1 | *c* |\n", "|\r\n| 2 ", "\n    ", "| [a] |\n\n[a]: x\n"]),
)


@given(st.lists(_PIECES, max_size=25))
@settings(max_examples=120, deadline=None)
def test_the_open_end_is_what_parsing_all_of_it_gives(pieces: list[str]) -> None:
    stream, finished, source = BlockStream(), (), ""
    for piece in pieces:
        update = stream.push(piece)
        finished, source = finished + update.finished, source + piece
        whole = BlockStream().push(source)
        shown, expected = (
            [_shape(block, with_links="]:" not in source) for block in blocks]
            for blocks in (finished + update.open, whole.finished + whole.open)
        )
        assert shown == expected


@pytest.mark.parametrize(
    "rest", ["  ", "\n\t", "\n ", "a\n ", "a\n \n", "a\n b", "\t```", " \t```", "   ```\n", "    ```"]
)
def test_a_fence_grows_as_it_is_parsed_where_lines_are_blank_or_deep(rest: str) -> None:
    stream, finished = BlockStream(), ()
    for end, piece in enumerate(("```", "\n", *rest), 1):
        update = stream.push(piece)
        finished += update.finished
        whole = BlockStream().push(("```\n" + rest)[: end + 2])
        shown, expected = finished + update.open, whole.finished + whole.open
        assert [(_shape(x), x.is_closed) for x in shown] == [(_shape(x), x.is_closed) for x in expected]


@given(st.lists(_PIECES, max_size=25))
@settings(max_examples=80, deadline=None)
def test_what_is_added_to_a_block_is_what_its_text_got(pieces: list[str]) -> None:
    stream, before = BlockStream(), ()
    for piece in pieces:
        update = stream.push(piece)
        for block in update.open:
            if block.added:
                assert len(before) == len(update.open) == 1
                assert _text_of(block) == _text_of(before[0]) + block.added
        before = update.open


def _text_of(block: Block) -> str:
    """All words of a block, without their looks."""
    children = [child for token in block.tokens for child in token.children or ()]
    return block.text + "".join(child.content for child in children)


@given(st.text(alphabet="ab \n\t`~*_#>-+12.|:[]()<&\\\r\u2028\u0000", max_size=120))
@settings(max_examples=150, deadline=None)
def test_no_text_breaks_the_stream(text: str) -> None:
    stream = BlockStream()
    for character in text:
        stream.push(character)
    stream.finish()


def test_kinds_and_languages() -> None:
    blocks = parse_blocks(WHOLE)
    kinds = [block.kind.value for block in blocks]
    assert kinds == ["prose", "prose", "prose", "prose", "table", "code", "code", "code", "prose"]
    code = [block for block in blocks if block.kind is BlockKind.CODE]
    assert [(block.language, block.text) for block in code] == [
        ("python", 'x = "```"'),
        ("", "tilde"),
        ("", "indented"),
    ]


def test_a_fence_is_open_until_its_end_and_shows_no_half_of_it() -> None:
    stream = BlockStream()
    (block,) = stream.push("```py\nx = 1\n``").open
    assert (block.text, block.is_closed) == ("x = 1", False)
    (block,) = stream.push("`").open
    assert (block.text, block.is_closed) == ("x = 1", True)


def test_a_fence_that_never_ends_is_closed_by_the_end() -> None:
    (block,) = parse_blocks("```\nx")
    assert block.is_closed
    assert block.text == "x"


def test_finished_blocks_come_once() -> None:
    stream = BlockStream()
    assert stream.push("one\n\n2").finished == (), "it may become a list"
    assert len(stream.push("\n").finished) == 1
    assert len(stream.push("\nthree").finished) == 1, "a word is a word, however the line goes on"
    assert len(stream.finish().finished) == 1


def test_half_a_line_does_not_end_a_list() -> None:
    stream = BlockStream()
    finished = [block for piece in ("1. a\n\n", "2", ". b\n", "\nend\n") for block in stream.push(piece).finished]
    assert len(finished) == 1
    assert [token.type for token in finished[0].tokens].count("list_item_open") == 2


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> int:
    """Characters of an open block: a tenth of the usual, for the time of the parser grows faster than a block."""
    for name, value in {"MAX_OPEN_CHARACTERS": 600, "_PIECE": 150, "_LEAST_PIECE": 4}.items():
        monkeypatch.setattr(f"app.chat.block_parts.{name}", value)
    monkeypatch.setattr("app.chat.blocks._MAX_UNDECIDED", 20)
    return 600


@pytest.mark.parametrize(
    "line", ["12345 ", "- an item of a list\n", "7. an item\n", "> a quote\n", "12345", "你好。", "字字字。字"]
)
def test_no_block_stays_open_for_ever(line: str, limit: int) -> None:
    stream = BlockStream()
    finished = [block for _ in range(300) for block in stream.push(line).finished]
    assert len(finished) >= 1
    assert len(stream._open_source) <= limit + len(line)
    finished += stream.finish().finished
    text = "".join(t.content for block in finished for t in block.tokens if t.type == "inline")
    assert text.count(line.split()[-1].strip("> ")) == 300


def test_a_table_that_is_long_goes_on_in_another_with_its_head(limit: int) -> None:
    stream = BlockStream()
    lines = ["| name | size |\n", "|---|--:|\n", *(f"| row {number} | {number} |\n" for number in range(300))]
    finished = [block for line in lines for block in stream.push(line).finished]
    assert len(stream._open_source) <= limit + 40
    finished += stream.finish().finished
    assert {block.kind for block in finished} == {BlockKind.TABLE}
    cells = [[t.content for t in block.tokens if t.type == "inline"] for block in finished]
    assert {tuple(one[:2]) for one in cells} == {("name", "size")}
    assert [cell for one in cells for cell in one[2::2]] == [f"row {number}" for number in range(300)]
    last = [t.attrGet("style") for t in finished[-1].tokens if t.type == "td_open"]
    assert set(last[1::2]) == {"text-align:right"}


def test_of_a_table_that_grows_the_last_row_alone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, head = BlockStream(), "| a | b |\n|--|--|\n"
    stream.push(head + "| 1 | *x* |\n" * 40)
    read: list[str] = []
    spans = BlockStream._spans
    monkeypatch.setattr(
        BlockStream, "_spans", lambda stream, source: (read.append(source), spans(stream, source))[1]
    )
    (block,) = stream.push("| 2 | y").open
    assert read == [head + "| 1 | *x* |\n| 2 | y"]
    assert [token.content for token in block.tokens if token.type == "inline"][-4:] == ["1", "*x*", "2", "y"]
    update = stream.push("z |\n\nEnd")
    assert [each.kind for each in update.finished + update.open] == [BlockKind.TABLE, BlockKind.PROSE]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("- a\n" * 30 + "- *b", "- *b c"),
        ("1. a\n\n" * 30 + "31. b", "31. b c"),
        ("- a\n  - b\n\n" * 9 + "- c\n\n  d\n  - e", "- c\n\n  d\n  - e c"),
    ],
)
def test_of_a_list_that_grows_the_last_item_alone_is_read(
    monkeypatch: pytest.MonkeyPatch, text: str, read: str
) -> None:
    stream, seen = BlockStream(), []
    stream.push(text)
    spans = BlockStream._spans
    monkeypatch.setattr(
        BlockStream, "_spans", lambda stream, source: (seen.append(source), spans(stream, source))[1]
    )
    (block,) = stream.push(" c\n").open
    assert seen == [read + "\n"]
    assert block.tokens == parse_blocks(text + " c\n")[0].tokens


def test_an_address_that_is_noted_in_pieces_is_complete() -> None:
    pieces = ["See\n\n", "[a]: https://", "a.example/", "long\n[b]:", " /x\n\n", "[a] [b]"]
    stream = BlockStream()
    for piece in pieces:
        update = stream.push(piece)
    (block,) = update.open
    links = [child.attrs for child in block.tokens[1].children or () if child.type == "link_open"]
    assert links == [{"href": "https://a.example/long"}, {"href": "/x"}]
    assert _shape(block) == _shape(BlockStream().push("".join(pieces)).open[-1])


def test_a_table_has_begun_when_the_line_below_its_names_is_complete() -> None:
    stream = BlockStream()
    assert len(stream.push("words\n| a\n---").open) == 2
    (block,) = stream.push(" b\n").open
    assert block.tokens == parse_blocks("words\n| a\n--- b\n")[0].tokens


@pytest.mark.parametrize("text", ["$$\n- b\n+ c$$", "\\[\n- b\n+ c\n\\]", "$$\n# a\n> b\n$$"])
def test_a_formula_may_have_lines_that_look_like_others(text: str) -> None:
    stream = BlockStream()
    finished = [block for character in text for block in stream.push(character).finished]
    assert [token.type for token in stream.finish().finished[0].tokens] == ["math_block"]
    assert not finished
    stream.push("$$\n- b\n\n")  # it ends at a blank line
    assert len(stream.push("words").finished) == 2


@pytest.mark.parametrize("end", ["'", "\n'"])
def test_words_that_end_the_title_of_an_address_are_none(end: str) -> None:
    stream = BlockStream()
    assert stream.push("[a]: /x 'a title\nof two lines").open
    update = stream.push(end)
    assert update.open == BlockStream().push("[a]: /x 'a title\nof two lines" + end).open == ()


def test_more_columns_than_anybody_reads_are_text() -> None:
    wide, wider = ("|" + "a|" * number + "\n|" + "-|" * number + "\n" for number in (60, 500))
    assert [block.kind for block in parse_blocks(wide)] == [BlockKind.TABLE]
    assert {block.kind for block in parse_blocks(wider)} == {BlockKind.PROSE}


@pytest.mark.parametrize("line", ["[note]: /address\n", "\n"])
def test_what_shows_nothing_is_let_go(line: str, limit: int) -> None:
    stream = BlockStream()
    for _ in range(1000):
        stream.push(line)
    assert len(stream._open_source) <= limit
    stream.push("\n\nsee [note]")
    links = [child.type for block in stream.finish().finished for child in block.tokens[1].children or ()]
    assert ("link_open" in links) is ("note" in line)


def test_a_text_without_spaces_is_parted_between_characters(limit: int) -> None:
    family = "👨\u200d👩\u200d👧"
    for piece in (family, "e\u0301", "**b**", "`code`"):
        texts = [
            "".join(t.content for t in block.tokens if t.type == "inline") for block in parse_blocks(piece * 500)
        ]
        assert "".join(texts) == piece * 500
        assert all(not text.startswith(("\u200d", "\u0301")) and not text.endswith("\u200d") for text in texts)


def test_only_line_ends_end_lines() -> None:
    code = "a\x0cb\u2028c\x1cd\x0be\x85f"
    blocks = parse_blocks(f"```\r\n{code}\r\nsecond\r\n```\r\nafter\x1c```\rend")
    assert blocks[0].text == f"{code}\nsecond"
    assert [block.kind for block in blocks] == [BlockKind.CODE, BlockKind.PROSE]


@pytest.mark.parametrize("space", [" ", "\n"])
def test_a_very_long_paragraph_comes_in_pieces_that_are_quick_to_lay_out(space: str, limit: int) -> None:
    source = space.join(str(number) for number in range(6000))
    assert len(source) > 40 * limit
    blocks = parse_blocks(source)
    texts = ["".join(t.content for t in block.tokens if t.type == "inline") for block in blocks]
    assert max(map(len, texts)) <= limit
    assert " ".join(texts).split() == source.split(), "nothing is lost"


@pytest.mark.parametrize("text", ["<smirk> waffles", "<script>x</script>", "<b onmouseover=x>", "<img src=h>"])
def test_html_is_text(text: str) -> None:
    (block,) = parse_blocks(text)
    assert "".join(token.content for token in block.tokens[1].children or ()) == text


def test_what_breaks_a_line_is_shown_as_its_code_point() -> None:
    assert displayable("a\x00b\x1b\u202ec\ufdd0") == "a⟨U+0000⟩b⟨U+001B⟩⟨U+202E⟩c⟨U+FDD0⟩"
    assert displayable("tab\tand\nline\r\n") == "tab\tand\nline\n"
    assert len(displayable("e" + "\u0301" * 10_000)) < 20
    assert displayable("नमस्ते 🙂 مرحبا") == "नमस्ते 🙂 مرحبا"


@pytest.mark.parametrize("piece", [190, 100_000])
@pytest.mark.parametrize(("indent", "mark"), [("  ", "-"), ("   ", "1."), (">", ">"), ("> ", "-")])
def test_of_what_is_nested_deep_every_line_is_shown_as_text(indent: str, mark: str, piece: int) -> None:
    source = "".join(f"{indent * depth}{mark} level{depth} {'word ' * 10}\n" for depth in range(150))
    blocks = _streamed(source, [piece])
    assert {block.kind for block in blocks} == {BlockKind.PROSE}
    tokens = [token for block in blocks for token in block.tokens]
    assert not any(token.type == "code_block" for token in tokens)
    words = " ".join(token.content for token in tokens if token.type == "inline").split()
    assert [word for word in words if "level" in word] == [f"level{depth}" for depth in range(150)]


@pytest.mark.parametrize("unit", ["word\n", "**b** ", "`c` ", "- item\n", "12. item\n", "> quoted\n", "[a](b) "])
def test_no_piece_of_any_text_has_much_to_parse_and_write(unit: str) -> None:
    stream = BlockStream()
    most = max(
        sum(1 + len(token.children or ()) for token in block.tokens)
        for _ in range(60)
        for block in stream.push(10 * unit).open
    )
    assert most < 660


@pytest.mark.parametrize(
    ("unit", "most"),
    [
        ("[", 300),
        ("![", 450),
        ("*a ", 3000),
        ("`a ", 3000),
        ("<", 1600),
        ("$x$ ", 240),
        ("[]", 1520),
        ("[a](", 800),
    ],
)
def test_what_takes_long_to_parse_is_finished_in_short_parts(unit: str, most: int) -> None:
    stream, finished = BlockStream(), 0
    for _ in range(170):
        finished += len(stream.push(10 * unit).finished)
        assert len(stream._open_source) <= most
    assert finished


_STARS, _DASHES = "*" * 4000, "_" * 4000
_ODD_TEXTS = {
    "a rule that is none": _STARS + "a" + _STARS,
    "the same of another mark": _DASHES + "a" + _DASHES,
    "in a heading": f"# {_STARS}a",
    "in an item": f"- {_STARS}a",
    "in a quote": f"> {_DASHES}a",
    "in a cell": f"| a | b |\n|--|--|\n| {_STARS}a |",
    "behind a paragraph": "a\n\n" + "1" * 6000,
    "brackets behind a paragraph": "a\n\n" + "[" * 3000,
    "ticks": "`" * 6000 + "a" + "`" * 6000,
    "entities": "&#" * 2000,
    "an address": "[a]: http://" + "x" * 6000,
    "spaces": "a\n\n" + " " * 6000,
    "one item": "- a\n" + "  word word\n" * 500,
    "one nested list": "- a\n" + "  - b\n" * 500,
    "code in an item": "- a\n  ```py\n" + "  code line\n" * 500,
    "one quoted line": "> " + "word " * 1200,
    "code with an indent": "    code\n" * 1500,
    "a fence with an indent": "  ```py\n" + "code\n" * 2000,
    "a cell": "| a | b |\n|--|--|\n| " + "word " * 1200,
    "no table": "| " + "word " * 1200 + " | b |\n|--|--|\n" + "| 1 | 2 |\n" * 100,
}


@pytest.mark.parametrize("name", _ODD_TEXTS)
def test_no_text_makes_the_parser_read_much_for_a_piece(
    name: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    spans = BlockStream._spans
    monkeypatch.setattr(
        BlockStream, "_spans", lambda stream, source: (read.append(len(source)), spans(stream, source))[1]
    )
    stream, text, start, shown = BlockStream(), _ODD_TEXTS[name], 0, []
    most_read = most_times = 0
    sizes = itertools.cycle([40, 4, 150, 18])
    while start < len(text):
        end = start + min(next(sizes), affordable(text, start))
        read.clear()
        shown += stream.push(text[start:end]).finished
        most_read, most_times = max(most_read, sum(read)), max(most_times, len(read))
        start = end
    shown += stream.finish().finished
    assert most_times <= 24
    assert most_read <= 24 * limit, "twice what is kept open of code that cannot grow unread"
    leaves = {"inline", "fence", "code_block"}
    letters = "".join(
        block.text + "".join(token.content for token in block.tokens if token.type in leaves) for block in shown
    )
    for letter in set("1abdx[&") & set(text):
        assert letters.count(letter) >= text.count(letter) - 3, "but for what the first line means"


def test_a_bracket_that_nothing_closes_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    skip = ParserInline.skipToken

    def counted(parser: ParserInline, state: StateInline) -> None:
        nonlocal steps
        steps += 1
        skip(parser, state)

    monkeypatch.setattr(ParserInline, "skipToken", counted)
    parse_blocks("[" * 240 + " ![" * 60)
    assert steps == 0
    (block,) = parse_blocks("[[a](b)")
    assert "link_open" in [child.type for child in block.tokens[1].children or ()]
    assert steps


@pytest.mark.parametrize("piece", [7, 1000])
def test_a_long_fence_is_read_by_the_parser_once(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "x = `1` # 🙂 ``` no end\n  ~~~\n``\n\n" * 300
    text = f"````py\n{code} ````` \t\nafter"
    expected = [(_shape(block)) for block, _ in BlockStream()._spans(text)]
    num_read = 0
    spans = BlockStream._spans

    def counted(stream: BlockStream, source: str) -> list[tuple[Block, int]]:
        nonlocal num_read
        num_read += 1
        return spans(stream, source)

    monkeypatch.setattr(BlockStream, "_spans", counted)
    stream = BlockStream()
    finished = [
        block for start in range(0, len(text), piece) for block in stream.push(text[start : start + piece]).finished
    ]
    finished += stream.finish().finished
    assert [_shape(block) for block in finished] == expected
    assert [block.is_closed for block in finished] == [True, True]
    assert num_read < 8


@pytest.mark.parametrize("end", ["```", "```\n", "```\n\n"])
def test_a_fence_that_came_whole_takes_nothing_of_what_follows(end: str) -> None:
    stream = BlockStream()
    finished = list(stream.push(f"```\nx\n{end}").finished)
    finished += stream.push("\n\nwords\n\n```\ny\n```\n").finished
    finished += stream.finish().finished
    assert [block.text or block.tokens[1].content for block in finished] == ["x", "words", "y"]


def test_the_open_end_of_a_table_has_few_cells() -> None:
    stream, most, kinds = BlockStream(), 0, set()
    for line in ["| a | b | c |\n", "|---|---|---|\n", *("| 1 | 2 | 3 |\n" for _ in range(500))]:
        for block in stream.push(line).open:
            kinds.add(block.kind)
            most = max(most, sum(token.type == "inline" for token in block.tokens))
    assert most <= MAX_OPEN_CHARACTERS // 20
    assert kinds == {BlockKind.TABLE, BlockKind.PROSE}, "its first line alone is none yet"
