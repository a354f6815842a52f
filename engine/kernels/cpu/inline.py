"""Helper functions of kernels, compiled into the kernel that calls them.

numba would compile each helper to machine code of its own before the caller is even lowered, and its inlining
of source copies the whole function for each call. Both took more than half the time to compile a matmul. Here a
helper is typed and lowered once for its argument types, its LLVM code is linked into the caller's module, and
LLVM inlines it there: optimised and assembled once, with the kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from numba import types
from numba.core.typing.templates import signature
from numba.extending import intrinsic

from engine.kernels.cpu.compiler import lower

Function = TypeVar("Function", bound=Callable[..., Any])


def with_arity(function: Callable[..., Any], arity: int) -> Callable[..., Any]:
    """``function(context, *arguments)`` with a signature of ``arity`` arguments, which numba reads off it."""
    names = ["context", *(f"argument{index}" for index in range(arity))]
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    vars(function)["__signature__"] = inspect.Signature(parameters)
    return function


def inline(function: Function) -> Function:
    """A helper for kernels and other helpers; positional arguments only."""
    compiled: dict[tuple[Any, ...], Any] = {}

    def typing(_context: Any, *given: Any) -> Any:
        arguments = tuple(types.unliteral(argument) for argument in given)
        if arguments not in compiled:
            compiled[arguments] = _lower(function, arguments)
        helper = compiled[arguments]

        def generate(context: Any, builder: Any, _signature: Any, values: Sequence[Any]) -> Any:
            context.active_code_library.add_linking_library(helper.library)
            return context.call_internal(builder, helper.fndesc, helper.signature, values)

        return signature(helper.signature.return_type, *arguments), generate

    arity = function.__code__.co_argcount
    return cast(Function, intrinsic(with_arity(typing, arity)))


def _lower(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """numba's compile result of a helper: LLVM code in a library that is never made executable."""
    library, result = lower(function, arguments, None, is_inlined=True)
    module = library._final_module
    for defined in module.functions:
        if not defined.is_declaration and defined.linkage.name == "external":
            defined.linkage = "linkonce_odr"  # a caller may get the same helper from several others
    library._shared_module, library._finalized = module, True  # what callers link; nothing is made executable
    return result
