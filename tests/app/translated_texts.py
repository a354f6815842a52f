"""The texts that the app's code gives to ``tr``, found in its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

APP = Path(__file__).resolve().parents[2] / "app"


def texts_in(source: str) -> Iterator[str]:
    """Every literal that ``source`` gives to ``tr``, both forms of those it gives to ``trn``.

    Raises ValueError for a text that is no literal, which no translator could find.
    """
    for node in ast.walk(ast.parse(source)):
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Name)
            or node.func.id not in {"tr", "trn"}
        ):
            continue
        for argument in node.args[: 2 if node.func.id == "trn" else 1]:
            if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                raise ValueError(f"line {node.lineno}: a text to translate must be a literal")
            yield argument.value


def all_texts() -> set[str]:
    """Those of the whole app."""
    found: set[str] = set()
    for path in APP.rglob("*.py"):
        if path.name == "translation.py":
            continue
        try:
            found.update(texts_in(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    return found
