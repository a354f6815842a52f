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
                init = _init_of(each, parameters)
                dataclasses.dataclass(**parameters | {"init": False})(each)
                each.__init__ = init  # type: ignore[misc] # at once: another thread may be calling the class
                del _waiting[each]


def _init_of(cls: type, parameters: dict[str, bool]) -> Callable[..., None]:
    """The ``__init__`` for ``cls``, compiled for a class like it, so that ``cls`` is never without one."""
    annotations = inspect.get_annotations(cls)
    kept = ("__module__", "__qualname__", "__post_init__", *annotations)
    namespace = {name: cls.__dict__[name] for name in kept if name in cls.__dict__}
    namespace |= {"__annotations__": annotations, "__doc__": cls.__name__}  # without a doc one would be computed
    only_init = {"repr": False, "eq": False, "order": False, "unsafe_hash": False}
    twin: Any = type(cls.__name__, cls.__bases__, namespace)
    dataclasses.dataclass(**parameters | only_init)(twin)
    init: Callable[..., None] = twin.__init__
    return init
