"""Finds the sentences of the engine that can reach the window, in its sources: ``{}`` for what differs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ENGINE = Path(__file__).resolve().parents[2] / "engine"

_NOT_IN_THE_WINDOW = (
    "terminal/", "bench/", "kernels/", "scoring.py", "scoring_reference.py", "decision/calibration.py",
)  # fmt: skip
_ABOUT_SCHEMAS = ("schema_check.py", "schema_tree.py", "structured_answer.py")
_EVENTS = {"Notice", "RequestFailed", "ModelLoadFailed"}
_NAMES = {
    *("message", "problem", "reason", "notice", "cause", "remedy", "count"),
    *("NO_MODEL", "FOLDED", "MERGED", "SPLIT", "OPENED", "UNKNOWN_PARTS", "UNFINISHED_COPY", "_OTHERWISE_FINE"),
}
"""What is said by way of a variable."""


def engine_texts() -> set[str]:
    """All of them."""
    paths = [
        path
        for path in ENGINE.rglob("*.py")
        if not path.relative_to(ENGINE).as_posix().startswith(_NOT_IN_THE_WINDOW)
    ]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    errors = _error_names(trees.values())
    return (
        {
            text
            for path, tree in trees.items()
            for node in ast.walk(tree)
            for text in _said(node, errors, is_errors=path.name == "errors.py")
            if " " in text and re.search("[a-z]", text)  # others only join two
        }
        | {
            text
            for node in ast.walk(ast.parse((ENGINE / "gguf/content.py").read_text(encoding="utf-8")))
            for text in _kinds_of_files(node)
            if " " in text
        }
        | {text for name in _ABOUT_SCHEMAS for text in _sentences(ENGINE / "grammar" / name)}
    )


def _error_names(trees: object) -> set[str]:
    """The classes of the engine's errors, with those that modules derive from them."""
    assert not isinstance(trees, str)
    classes = [node for tree in list(trees) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]  # type: ignore[call-overload]
    names, before = {"EngineError"}, 0
    while len(names) != before:
        before = len(names)
        names |= {
            node.name
            for node in classes
            if any(isinstance(base, ast.Name) and base.id in names for base in node.bases)
        }
    return names


def _said(node: ast.AST, errors: set[str], *, is_errors: bool) -> Iterator[str]:
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        is_append = name == "append" and isinstance(node.func, ast.Attribute) and _is_list_of_words(node.func.value)
        is_said = name in errors | _EVENTS | {"_say"} or is_append or (is_errors and name == "__init__")
        for argument in node.args if is_said else ():
            yield from _templates(argument)
        for keyword in node.keywords:
            if keyword.arg in {"message", "problem"}:
                yield from _templates(keyword.value)
    elif isinstance(node, ast.Assign) and _NAMES & {name for target in node.targets for name in _names(target)}:
        yield from _templates(node.value)
    elif isinstance(node, ast.FunctionDef) and node.name in {"sentence_of", "_cause"}:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return) and inner.value is not None:
                yield from _templates(inner.value)


def _names(target: ast.expr) -> Iterator[str]:
    """The names that an assignment gives."""
    if isinstance(target, ast.Tuple):
        for element in target.elts:
            yield from _names(element)
    elif isinstance(target, ast.Name | ast.Attribute):
        yield target.id if isinstance(target, ast.Name) else target.attr


def _kinds_of_files(node: ast.AST) -> Iterator[str]:
    """What a file is that is no model: the end of a sentence."""
    if isinstance(node, ast.Return | ast.Assign) and node.value is not None:
        yield from _templates(node.value)
    elif isinstance(node, ast.Tuple):
        yield from _templates(node)


def _sentences(path: Path) -> Iterator[str]:
    """All texts of three words or more that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    skipped |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in skipped:
            yield from (
                text for text in _templates(node) if len(re.findall("[a-z]{2,}", text)) >= 3 and " " in text
            )


def _templates(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from _templates(node.body)
        yield from _templates(node.orelse)
    elif isinstance(node, ast.Tuple):
        for element in node.elts:
            yield from _templates(element)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _templates(value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield _template(node.value.replace("{", "{{").replace("}", "}}"))
    elif isinstance(node, ast.JoinedStr):
        yield _template(
            "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        )


def _template(text: str) -> str:
    """What begins with a space is put behind another text."""
    return f"{{}}{text}" if text.startswith(" ") else text


def _is_list_of_words(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"notices", "found"}
