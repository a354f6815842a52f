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
_EVENTS = {"Notice", "RequestFailed", "ModelLoadFailed"}
_NAMES = {
    "notice",
    "cause",
    "remedy",
    "count",
    "NO_MODEL",
    "FOLDED",
    "MERGED",
    "SPLIT",
    "OPENED",
    "_OTHERWISE_FINE",
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
    return {
        text
        for path, tree in trees.items()
        for node in ast.walk(tree)
        for text in _said(node, errors, is_errors=path.name == "errors.py")
        if " " in text and re.search("[a-z]", text)  # others only join two
    } | {
        text
        for node in ast.walk(ast.parse((ENGINE / "gguf/content.py").read_text(encoding="utf-8")))
        for text in _kinds_of_files(node)
        if " " in text
    }


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
        is_append = name == "append" and isinstance(node.func, ast.Attribute) and "notices" in ast.dump(node.func)
        if name in errors | _EVENTS or is_append or (is_errors and name == "__init__"):
            for argument in (*node.args, *(each.value for each in node.keywords if each.arg == "message")):
                yield from _templates(argument)
    elif isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id in _NAMES for target in node.targets
    ):
        yield from _templates(node.value)
    elif isinstance(node, ast.FunctionDef) and node.name in {"sentence_of", "_cause"}:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return) and inner.value is not None:
                yield from _templates(inner.value)


def _kinds_of_files(node: ast.AST) -> Iterator[str]:
    """What a file is that is no model: the end of a sentence."""
    if isinstance(node, ast.Return | ast.Assign) and node.value is not None:
        yield from _templates(node.value)
    elif isinstance(node, ast.Tuple):
        for element in node.elts:
            yield from _templates(element)


def _templates(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from _templates(node.body)
        yield from _templates(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _templates(value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
