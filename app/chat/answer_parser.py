"""The parser of answers: which Markdown it knows, and what keeps odd texts from taking it long."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from app.chat.maths_syntax import use_maths

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MAX_COLUMNS = 64
TASK = "task"
"""Attribute of the text of an item that is a task: "open" or "done"."""
_TASK = re.compile(r"\[([ xX])\][ \t]+")


@lru_cache(maxsize=1)
def answer_parser() -> MarkdownIt:
    """The one parser of the app; it keeps nothing of what it parsed."""
    from markdown_it import MarkdownIt  # an empty chat should not wait for it

    # Raw HTML stays text: what a model writes between angle brackets is shown, never interpreted.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    _bound_tables(parser)
    _bound_links(parser)
    _bound_nesting(parser)
    _read_tasks(parser)
    use_maths(parser)
    return parser


def _bound_tables(parser: MarkdownIt) -> None:
    """Leave a table with more columns than anybody reads as the text that it is."""
    from markdown_it.rules_block import StateBlock, table

    def bounded(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
        first = state.src[state.bMarks[start_line] : state.eMarks[start_line]]
        return first.count("|") <= MAX_COLUMNS and table(state, start_line, end_line, silent)

    parser.block.ruler.at("table", bounded, {"alt": ["paragraph", "reference"]})


def _bound_links(parser: MarkdownIt) -> None:
    """Look for a link only where a bracket closes: each that opens is else followed to the end, through all."""
    from markdown_it.rules_inline import StateInline, image, link

    def bounded(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
        def closes(state: StateInline, silent: bool) -> bool:
            return (
                state.src[state.pos] in "[!"
                and state.src.find("]", state.pos, state.posMax) > 0
                and rule(state, silent)
            )

        return closes

    parser.inline.ruler.at("link", bounded(link))
    parser.inline.ruler.at("image", bounded(image))


def _bound_nesting(parser: MarkdownIt) -> None:
    """Leave lists and quotes that stand too deep in others as lines of text: the parser would drop them."""
    from markdown_it.rules_block import StateBlock, blockquote, list_block

    max_level = parser.options.maxNesting - 3  # a list and its item are two levels, and a paragraph is one

    def bounded(rule: Callable[[StateBlock, int, int, bool], bool]) -> Callable[[StateBlock, int, int, bool], bool]:
        return lambda state, start_line, end_line, silent: (
            state.level < max_level and rule(state, start_line, end_line, silent)
        )

    ends = ["paragraph", "reference", "blockquote"]  # what lists and quotes interrupt
    parser.block.ruler.at("list", bounded(list_block), {"alt": ends})
    parser.block.ruler.at("blockquote", bounded(blockquote), {"alt": [*ends, "list"]})


def _read_tasks(parser: MarkdownIt) -> None:
    """Tell tasks from other items of a list, as GitHub does: by the box that they begin with."""
    from markdown_it.rules_core import StateCore

    def read(state: StateCore) -> None:
        for index, opening in enumerate(state.tokens[:-2]):
            if opening.type != "list_item_open" or opening.markup not in "-*+":
                continue
            inline = state.tokens[index + 2]
            children = inline.children or []
            found = _TASK.match(children[0].content) if children and children[0].type == "text" else None
            if found is not None and (len(children) > 1 or found.end() < len(children[0].content)):
                children[0].content = children[0].content[found.end() :]
                inline.attrSet(TASK, "open" if found[1] == " " else "done")

    parser.core.ruler.push("tasks", read)
