"""LaTeX maths in Markdown: ``$…$`` and ``$$…$$``, and the ``\\(…\\)`` and ``\\[…\\]`` that models like to write.

Dollars are money more often than maths, so a pair of them is maths only where no space stands inside them and no
digit outside, and what lies between does not read like words about a sum.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

_CLOSINGS = {"\\(": "\\)", "\\[": "\\]"}
_MAX_LINES = 100  # of a formula; each line that may begin one is followed so far
_DOLLARS = re.compile(
    r"""\$\$(?P<double>(?:\\.|[^\\$])+)\$\$
      | \$(?![\s$])(?P<single>(?:\\.|[^\\$])+)(?<!\s)\$(?!\d)""",
    re.X | re.S,
)
_SUM_OF_MONEY = re.compile(r"\d[\d.,]*[kKmM]?(\s*[-–]\s*\d[\d.,]*)?\s[^\\^_={}]*[^\W\d_]{2,}")


def use_maths(parser: MarkdownIt) -> None:
    """Let ``parser`` make tokens ``math_inline``, ``math_inline_double`` and ``math_block`` of maths."""
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    dollarmath_plugin(parser, allow_labels=False, allow_blank_lines=False)
    parser.inline.ruler.at("math_inline", _inline_dollars)
    parser.inline.ruler.before("escape", "math_brackets", _inline_brackets)
    parser.block.ruler.before(
        "fence", "math_block_brackets", _block_brackets, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )


def _inline_dollars(state: StateInline, silent: bool) -> bool:
    found = _DOLLARS.match(state.src, state.pos, state.posMax)
    if found is None or (state.pos > 0 and state.src[state.pos - 1].isdigit()):
        return False
    is_double = found["double"] is not None
    content = found["double"] if is_double else found["single"]
    if not content.strip() or (not is_double and _SUM_OF_MONEY.match(content)):
        return False
    if not silent:
        token = state.push("math_inline_double" if is_double else "math_inline", "math", 0)
        token.content = content
        token.markup = "$$" if is_double else "$"
    state.pos = found.end()
    return True


def _inline_brackets(state: StateInline, silent: bool) -> bool:
    opening = state.src[state.pos : state.pos + 2]
    if opening not in _CLOSINGS:
        return False
    end = state.src.find(_CLOSINGS[opening], state.pos + 2, state.posMax)
    content = state.src[state.pos + 2 : end] if end > 0 else ""
    if not content.strip() or opening in content:
        return False
    if not silent:
        token = state.push("math_inline" if opening == "\\(" else "math_inline_double", "math", 0)
        token.content = content
        token.markup = opening
    state.pos = end + 2
    return True


def _block_brackets(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    if state.is_code_block(start_line):
        return False
    first = state.src[state.bMarks[start_line] + state.tShift[start_line] : state.eMarks[start_line]]
    if not first.startswith("\\["):
        return False
    lines: list[str] = []
    for line in range(start_line, min(end_line, start_line + _MAX_LINES)):
        if state.isEmpty(line) or state.sCount[line] < state.blkIndent:
            return False
        text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()
        lines.append(text)
        if text.endswith("\\]") and (line > start_line or len(text) > 3):
            break
    else:
        return False
    content = "\n".join(lines)[2:-2]
    if not content.strip() or "\\]" in content:
        return False
    if not silent:
        token = state.push("math_block", "math", 0)
        token.block = True
        token.content = content
        token.map = [start_line, start_line + len(lines)]
        token.markup = "\\["
    state.line = start_line + len(lines)
    return True
