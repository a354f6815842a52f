"""numba as far as kernels need it: from Python functions of numbers and vectors to LLVM code and object files.

A kernel has no arrays, closures, exceptions or objects, so the passes that look for those are left out, and LLVM
optimises once, when all helpers are in the kernel's module: numba's own pipeline takes half as long again. This
leans on numba's internals; the tested versions are pinned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from numba import types
from numba.core import typed_passes, untyped_passes
from numba.core.compiler import CompilerBase, Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.cpu_options import FastMathOptions
from numba.core.registry import cpu_target

# Of floats in kernels: no order of sums, no sign of zeros; but NaN and infinity keep their meaning.
FAST = ("reassoc", "nsz", "arcp", "contract", "afn")

_PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class _Pipeline(CompilerBase):
    """Types and lowers a function."""

    def define_pipelines(self) -> list[Any]:
        passes = PassManager("kernels")
        for each in _PASSES:
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]


def lower(
    function: Callable[..., Any], arguments: tuple[Any, ...], result: Any, is_inlined: bool
) -> tuple[Any, Any]:
    """The library with a function's unoptimised LLVM code, and numba's compile result.

    ``arguments`` and ``result`` are numba types; a ``result`` of None is inferred.
    """
    flags: Any = Flags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.forceinline = is_inlined
    flags.fastmath = FastMathOptions(set(FAST))
    flags.error_model = "numpy"
    flags.boundscheck = False
    typing, target = cpu_target.typing_context, cpu_target.target_context
    library: Any = target.codegen().create_library(function.__qualname__)
    library._optimize_functions = _set_layout
    compiled = compile_extra(typing, target, function, arguments, result, flags, {}, library, _Pipeline)
    for linked in dict.fromkeys(library._linking_libraries):
        library._final_module.link_in(linked._get_module_for_linking(), preserve=True)
    return library, compiled


def compile_function(function: Callable[[int, int, int, int], None]) -> tuple[str, bytes]:
    """Symbol and object file of a kernel.

    numba's own execution engine never sees the code: it would compile it a second time, and code that calls what
    does not exist would end the process there. RuntimeError where the kernel does.
    """
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    with global_compiler_lock:
        library, compiled = lower(function, (types.int64,) * 4, types.void, is_inlined=False)
        codegen, module = cpu_target.target_context.codegen(), library._final_module
        passes, builder = codegen._module_pass_manager()
        passes.run(module, builder)
        _check_symbols(module)
        return str(compiled.fndesc.llvm_func_name), bytes(codegen._tm.emit_object(module))


def _set_layout(module: Any) -> None:
    """In place of the passes that numba runs over each helper before it is inlined."""
    module.data_layout = cpu_target.target_context.codegen()._data_layout


def _check_symbols(module: Any) -> None:
    """Refuse code that calls what a process would not find: loading it would end the process."""
    for function in module.functions:
        is_known = function.name.startswith("llvm.") or llvm.address_of_symbol(function.name) is not None
        if function.is_declaration and not is_known:
            raise RuntimeError(f"the kernel needs {function.name}, which is not in its own code")
