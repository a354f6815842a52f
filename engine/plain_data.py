"""Dataclasses whose methods are compiled when the first instance is made.

The standard library writes the methods of a dataclass as text and compiles them while the class is defined, a
millisecond for each class. What crosses between the app and the engine are some eighty classes, of which a start
needs a handful; so the window came 0.1 s later. Here a class is only remembered until it is called; then the
standard library's own decorator makes it what it would have been. Type checkers see that decorator alone.

Until the first instance exists, ``dataclasses.fields`` does not know the class.
"""

from __future__ import annotations

import dataclasses
import inspect
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **parameters: bool) -> Any:
        """What ``dataclasses.dataclass`` does, later; ``slots``, which needs a new class, is refused."""
        if parameters.get("slots") or parameters.get("weakref_slot"):
            raise TypeError("A class with slots is made anew by its decorator: use dataclasses.dataclass.")
        return _postpone(cls, parameters) if cls is not None else lambda each: _postpone(each, parameters)


_lock = threading.RLock()
_waiting: dict[type, dict[str, bool]] = {}
"""The classes that are not complete yet, and their parameters."""


def _postpone(cls: type, parameters: dict[str, bool]) -> type:
    if "__init__" in cls.__dict__:
        raise TypeError(f"{cls.__name__} has an __init__ of its own: use dataclasses.dataclass.")

    def first_init(self: object, *arguments: Any, **named: Any) -> None:
        _complete(cls)
        cls.__init__(self, *arguments, **named)  # type: ignore[misc]

    _waiting[cls] = parameters
    cls.__init__ = first_init  # type: ignore[misc]
    return cls


def _complete(cls: type) -> None:
    """Give ``cls``, and before it what it inherits from, the methods of a dataclass."""
    with _lock:
        for each in reversed(cls.__mro__):
            if (parameters := _waiting.get(each)) is not None:
                _take_methods(each, parameters)
                del _waiting[each]


_MADE: tuple[str, ...] = (
    *("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__repr__", "__eq__", "__hash__"),
    *("__lt__", "__le__", "__gt__", "__ge__", "__replace__", "__init__"),
)
_NOT_THE_TWINS = {"__dict__", "__weakref__", "__init__", "__setattr__", "__delattr__"}


def _take_methods(cls: type, parameters: dict[str, bool]) -> None:
    """Let the decorator complete a class like ``cls``, and take over what it made.

    ``cls`` itself must never be without an ``__init__``, for another thread may be calling it: its own comes last.
    """
    own = {name: value for name, value in vars(cls).items() if name not in _NOT_THE_TWINS}
    annotations = inspect.get_annotations(cls)
    own |= {"__annotations__": annotations, "__qualname__": cls.__qualname__}
    own["__doc__"] = cls.__name__  # without a doc one would be computed
    twin: Any = type(cls.__name__, cls.__bases__, own)
    dataclasses.dataclass(**parameters)(twin)
    if parameters.get("frozen"):
        cls.__setattr__, cls.__delattr__ = _frozen_methods(cls)  # type: ignore[method-assign]
    made = vars(twin)
    for name in (*annotations, *_MADE):
        if name in made:
            if name not in own or made[name] is not own[name]:
                setattr(cls, name, made[name])
        elif name in own:  # a field without a default
            delattr(cls, name)


def _frozen_methods(cls: type) -> tuple[Callable[..., None], Callable[..., None]]:
    """The two methods that the decorator makes for one class alone."""

    def set_attribute(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:  # type: ignore[attr-defined]
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)  # type: ignore[arg-type]

    def delete_attribute(self: object, name: str) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:  # type: ignore[attr-defined]
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)  # type: ignore[arg-type]

    return set_attribute, delete_attribute
