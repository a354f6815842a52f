"""Helper functions of kernels, compiled into the kernel that calls them.

numba would compile each helper to machine code of its own before the caller is even lowered, and its inlining
of source copies the whole function for each call. Both took more than half the time to compile a matmul. Here a
helper is typed and lowered once for its argument types, its LLVM code is linked into the caller's module, and
LLVM inlines it there: optimised and assembled once, with the kernel. This leans on numba's internals; the
tested versions are pinned.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from numba import types
from numba.core import compiler
from numba.core.cpu_options import FastMathOptions
from numba.core.registry import cpu_target
from numba.core.typing.templates import signature
from numba.extending import intrinsic

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
    flags: Any = compiler.Flags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.forceinline = True
    flags.fastmath = FastMathOptions(True)
    flags.error_model = "numpy"
    flags.boundscheck = False
    library = cpu_target.target_context.codegen().create_library(function.__qualname__)
    result = compiler.compile_extra(
        cpu_target.typing_context, cpu_target.target_context, function, arguments, None, flags, {}, library
    )
    module = library._final_module
    for helper in dict.fromkeys(library._linking_libraries):
        module.link_in(helper._get_module_for_linking(), preserve=True)
    for defined in module.functions:
        if not defined.is_declaration and defined.linkage.name == "external":
            defined.linkage = "linkonce_odr"  # a caller may get the same helper from several others
    library._shared_module, library._finalized = module, True  # what callers link; nothing is made executable
    return result
