"""The environment in which chat templates run: Jinja's immutable sandbox, bounded in text, memory and time.

A template is part of a file that somebody put on the internet. Jinja's sandbox keeps it from Python's insides, but
not from asking for a string of a gigabyte. Here every operator, call, filter, loop and literal that can make a
value large or a render long reports to a ``Budget``; filters and methods are those on a list. What Jinja compiles
is changed in its syntax tree, before the code is made; nothing is evaluated at compile time.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import ExprStmtExtension, Extension, LoopControlExtension
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, TemplateReference, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Cycler, Joiner, Namespace
from jinja2.visitor import NodeTransformer

from engine.chat.filters import make_filters
from engine.chat.limits import Budget, RenderLimitError
from engine.errors import TemplateError

# fmt: off
_STRING_METHODS: Final = frozenset((
    "capitalize", "casefold", "center", "count", "endswith", "find", "format", "format_map", "index", "isalnum",
    "isalpha", "isdecimal", "isdigit", "islower", "isnumeric", "isspace", "istitle", "isupper", "join", "ljust",
    "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rjust",
    "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase", "title", "upper",
    "zfill",
))
# fmt: on
_METHODS: Final[tuple[tuple[type, frozenset[str]], ...]] = (
    (str, _STRING_METHODS),
    (dict, frozenset(("get", "items", "keys", "values"))),
    (list, frozenset(("append", "count", "index", "pop"))),
    (tuple, frozenset(("count", "index", "grouper", "list"))),
)
# Objects of Jinja's own, whose public attributes are meant for templates.
_JINJA_TYPES: Final = (Namespace, LoopContext, Macro, TemplateReference, BlockReference, Cycler, Joiner, Undefined)
_MAX_WIDTH: Final = 1_000  # to which a string is padded
_SEARCHED_BACKWARDS: Final = frozenset(("rfind", "rindex", "rsplit", "rpartition"))
_MAX_SEARCHED: Final = 256  # characters to search for backwards, which takes time with both lengths
_WIDE_FORMAT: Final = re.compile(r"\d{4,}|\*")
_WIDE_TIME_FORMAT: Final = re.compile(r"%[^A-Za-z%]*\d")


class TemplateRefusedError(TemplateError):
    """The template itself refuses the conversation (``raise_exception``)."""


class GenerationTag(Extension):
    """``{% generation %}``, which marks the assistant's part for training and means nothing here."""

    tags = {"generation"}  # noqa: RUF012 - declared so by Jinja

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Reporting(NodeTransformer):
    """Wraps what can grow: loops, literals, joined strings and comparisons, each in a filter that reports it."""

    def _wrap(self, node: nodes.Node, name: str) -> nodes.Filter:
        assert isinstance(node, nodes.Expr), "only expressions have values"
        return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = self._wrap(node.iter, "_loop")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._wrap(nodes.List(node.nodes, lineno=node.lineno), "_concatenate")

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return self._wrap(node, "_admit")

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return self._wrap(node, "_admit")

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return node if node.ctx == "store" else self._wrap(node, "_admit")

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = self._wrap(node.expr, "_measure")
        for operand in node.ops:
            operand.expr = self._wrap(operand.expr, "_measure")
        return node


class _BoundedFormatter(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        if _WIDE_FORMAT.search(format_spec):
            raise RenderLimitError("the chat template pads a text enormously")
        return super().format_field(value, format_spec)


class _LoopItems:
    """What a loop goes over, reporting each item."""

    def __init__(self, items: Any, budget: Budget) -> None:
        self._items = items
        self._budget = budget

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            self._budget.tick()
            yield item

    def __len__(self) -> int:
        return len(self._items)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Compiles and runs templates within a budget.

    Attributes:
        budget: what the render in progress may still use; set one before each.
    """

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            cache_size=0,
            extensions=[LoopControlExtension, ExprStmtExtension, GenerationTag],
        )
        self.budget = Budget()
        self.finalize = self._finalize
        self.concat = self._join_parts  # type: ignore[method-assign]
        self.globals = {
            "range": self.globals["range"],
            "dict": dict,
            "namespace": Namespace,
            "cycler": Cycler,
            "joiner": Joiner,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }
        self.tests = {name: self._guard_test(test) for name, test in self.tests.items()}
        self.filters = {name: self._guard_filter(filter_) for name, filter_ in make_filters(self, FILTERS).items()}
        self.filters |= {
            "_loop": self._loop_items,
            "_concatenate": self._concatenate,
            "_admit": lambda value: self.budget.admit(value),
            "_measure": self._measure,
        }

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Reporting().visit(super()._parse(source, name, filename))
        return tree.set_environment(self)  # type: ignore[return-value]

    # ------------------------------------------------------------------------------- what compiled code calls

    @pass_context  # which also tells Jinja not to evaluate output at compile time
    def _finalize(self, context: Context, value: Any) -> str:
        self.budget.tick()
        if isinstance(value, str):
            return value
        self.budget.measure(value)
        return self.budget.admit(str(value))  # type: ignore[no-any-return]

    def _join_parts(self, parts: Any) -> str:
        """The output of a macro, a block or a captured ``set``."""
        return self._concatenate(list(parts))

    def _concatenate(self, parts: Sequence[Any]) -> str:
        for part in parts:
            self.budget.measure(part)
        texts = [part if isinstance(part, str) else str(part) for part in parts]
        self.budget.reserve_text(sum(map(len, texts)))
        return self.budget.admit("".join(texts))  # type: ignore[no-any-return]

    def _measure(self, value: Any) -> Any:
        self.budget.measure(value)
        return value

    def _loop_items(self, items: Any) -> _LoopItems:
        return _LoopItems(items, self.budget)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = self.budget
        if operator == "+" and isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
            self._reserve(left, len(left) + len(right))
        elif operator == "*":
            for sequence, factor in ((left, right), (right, left)):
                if isinstance(sequence, (str, list, tuple)) and isinstance(factor, int):
                    self._reserve(sequence, len(sequence) * max(factor, 0))
            if isinstance(left, int) and isinstance(right, int):
                budget.reserve_integer(left.bit_length() + right.bit_length())
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            budget.reserve_integer(left.bit_length() * max(right, 0))
        elif operator == "%" and isinstance(left, str):
            if _WIDE_FORMAT.search(left):
                raise RenderLimitError("the chat template pads a text enormously")
            budget.measure(right)
        return budget.admit(super().call_binop(context, operator, left, right))

    def _reserve(self, kind: Any, length: int) -> None:
        if isinstance(kind, str):
            self.budget.reserve_text(length)
        else:
            self.budget.reserve_items(length)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.budget.tick()
        if isinstance(obj, LoopContext):  # a recursive loop goes over its argument
            args = (self._loop_items(args[0]), *args[1:])
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            self.check_string_call(owner, obj.__name__, args, kwargs)
        elif isinstance(owner, list):
            self.budget.reserve_items(len(owner) + 1)
        return self.budget.admit(super().call(context, obj, *args, **kwargs))

    def check_string_call(self, owner: str, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before a method of a string runs: how long can its result be?"""
        if method in ("center", "ljust", "rjust", "zfill") and args and isinstance(args[0], int):
            if args[0] > _MAX_WIDTH:
                raise RenderLimitError(f"the chat template pads a text to {args[0]:,} characters")
        elif method == "replace" and len(args) > 1 and isinstance(args[0], str) and isinstance(args[1], str):
            times = owner.count(args[0]) if args[0] else len(owner) + 1
            self.budget.reserve_text(len(owner) + times * len(args[1]))
        elif method == "join" and args and isinstance(args[0], (str, list, tuple, dict)):
            lengths = [len(item) for item in args[0] if isinstance(item, str)]
            self.budget.reserve_text(sum(lengths) + len(owner) * len(args[0]))
        elif method in _SEARCHED_BACKWARDS and any(isinstance(a, str) and len(a) > _MAX_SEARCHED for a in args):
            raise RenderLimitError("the chat template searches for an enormous text")
        elif method == "join":
            raise SecurityError("join takes a list in a chat template")

    # ------------------------------------------------------------------------------------ what may be reached

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        # Lists may grow and shrink, which the immutable sandbox forbids: each render has its own.
        if not super().is_safe_attribute(obj, attr, value) and not (
            isinstance(obj, list) and attr in ("append", "pop")
        ):
            return False
        for known, names in _METHODS:
            if isinstance(obj, known):
                return attr in names
        return isinstance(obj, _JINJA_TYPES)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        text = str.__str__(value.__self__)
        by_mapping = value.__name__ == "format_map"

        def bounded_format(*args: Any, **kwargs: Any) -> str:
            for argument in (*args, *kwargs.values()):
                self.budget.measure(argument)
            formatter = _BoundedFormatter(self)
            given = formatter.vformat(text, (), args[0]) if by_mapping else formatter.vformat(text, args, kwargs)
            return self.budget.admit(given)  # type: ignore[no-any-return]

        return bounded_format

    def _guard_test(self, test: Any) -> Callable[..., Any]:
        @functools.wraps(test)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self.budget.tick()
            for argument in args:
                self.budget.measure(argument)
            return test(*args, **kwargs)

        return guarded

    def _guard_filter(self, filter_: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(filter_)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self.budget.tick()
            for argument in (*args, *kwargs.values()):
                self.budget.measure(argument)
            result = filter_(*args, **kwargs)
            return iter(self._loop_items(result)) if isinstance(result, Iterator) else self.budget.admit(result)

        return guarded


def _raise_exception(message: object = "") -> None:
    """What templates call to refuse a conversation."""
    raise TemplateRefusedError(str(message)[:300])


def _strftime_now(format_: str) -> str:
    """The date of today in words of the template's choosing."""
    if len(format_) > 200 or _WIDE_TIME_FORMAT.search(format_):
        raise RenderLimitError("the chat template asks for an enormous date")
    return datetime.now().strftime(format_)
