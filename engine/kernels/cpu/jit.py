"""Kernels as machine code at an address: compiled by numba once, then loaded from a cache of object files.

A kernel is a function of four int64 (op, step, thread, num_threads) that returns nothing and raises nothing. Its
object file is loaded with llvmlite alone, so a start from a warm cache never waits for numba. The code at
``Kernel.address`` has numba's native signature: ``int32 f(void **result, void **error, int64, int64, int64,
int64)``; ``executor.call_kernel`` and ``Kernel.__call__`` know it.

The file's name holds a hash of everything the code depends on: the sources of the kernel's module and of those it
imports from this package, the instruction set, the processor, and the versions of numba and llvmlite. A stale
file is thus never found, whatever folder or install it came from. A folder that cannot be written costs only the
next start.

This module knows nothing of ops or plans.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import importlib.util
import marshal
import os
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import psutil

from engine.kernels.cpu.compile_process import CompilerPool
from engine.object_files import ObjectCode, load_object, machine_text, objects_folder, read_object, write_object

KernelFunction = Callable[[int, int, int, int], None]
Progress = Callable[[str, float], None]

PROGRESS_TEXT = "preparing the engine, once"
PACKAGE = "engine.kernels.cpu"
_LARGE = {"matmul", "matmul_many", "attention", "engine.sampling.kernels"}  # modules whose kernels take longest
_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)
_RESULT = ctypes.c_void_p()  # that every kernel writes, nothing, and nobody reads
_UNUSED = ctypes.addressof(_RESULT)


@dataclass(frozen=True)
class KernelSource:
    """Where a kernel's Python function is found, without importing it.

    Attributes:
        module: module of this package, e.g. ``norm``, or the full name of another.
        attribute: the function there, or with ``arguments`` a function that makes it from them.
        arguments: plain hashable values whose ``str`` tells them apart.
    """

    module: str
    attribute: str
    arguments: tuple[object, ...] = ()

    @property
    def name(self) -> str:
        """Unique in the process; part of the file's name in the cache."""
        parts = [self.module, self.attribute, *(str(getattr(a, "name", a)) for a in self.arguments)]
        return re.sub(r"[^\w.-]", "_", "-".join(parts))

    @property
    def module_name(self) -> str:
        """Full name of the module."""
        return self.module if "." in self.module else f"{PACKAGE}.{self.module}"

    def resolve(self) -> KernelFunction:
        """Import the module and return the function."""
        found = getattr(importlib.import_module(self.module_name), self.attribute)
        function: KernelFunction = found(*self.arguments) if self.arguments else found
        return function


class Kernel:
    """Loaded machine code, valid as long as the process.

    Attributes:
        name: of its source.
        address: of the code, in numba's native signature.
    """

    def __init__(self, name: str, address: int) -> None:
        self.name = name
        self.address = address
        self._function = _PROTOTYPE(address)

    def __call__(self, op: int, step: int, thread: int = 0, num_threads: int = 1) -> None:
        """Run it on this thread without the GIL."""
        self._function(_UNUSED, _UNUSED, op, step, thread, num_threads)


def compile_kernel(function: KernelFunction) -> Kernel:
    """Kernel of a plain function; its ``__name__`` must be unique in its module, for it names the cached file."""
    source = KernelSource(function.__module__.removeprefix(f"{PACKAGE}."), function.__name__)
    with _LOADER.lock:
        return _LOADER.load(source, lambda: function)


def begin_kernels(sources: Sequence[KernelSource]) -> None:
    """Begin to compile those that the cache lacks, for a ``load_kernels`` to come; returns at once."""
    with _LOADER.lock:
        for source in sources:
            if _LOADER.find(source) is None:
                _LOADER.compile(source)


def load_kernels(
    sources: Sequence[KernelSource], on_progress: Progress | None = None
) -> dict[KernelSource, Kernel]:
    """Load kernels, compiling those that the cache lacks, several at a time.

    ``on_progress(text, fraction)`` is called, before the wait for each and once at the end, only when something has
    to be compiled. Safe to call from several threads, which compile together.
    """
    kernels: dict[KernelSource, Kernel] = {}
    with _LOADER.lock:
        missing = []
        for source in dict.fromkeys(sources):
            kernel = _LOADER.find(source)
            if kernel is None:
                missing.append(source)
            else:
                kernels[source] = kernel
        missing.sort(key=lambda source: source.module not in _LARGE)  # none of which is to be left at the end
        compiled = [(source, _LOADER.compile(source)) for source in missing]
    for index, (source, code) in enumerate(compiled):
        if on_progress is not None:
            on_progress(PROGRESS_TEXT, index / len(missing))
        kernels[source] = _LOADER.take(source, code)
    if missing and on_progress is not None:
        on_progress(PROGRESS_TEXT, 1.0)
    return kernels


def source_hash(module: str) -> str:
    """Hash of all that the code of a module's kernels depends on; ``module`` is the full dotted name."""
    return _hash(_platform_text(), module)


@cache
def _hash(platform_text: str, module: str) -> str:
    digest = hashlib.sha256(platform_text.encode())
    for name, text in sorted(_module_sources(module).items()):
        digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:32]


def _platform_text() -> str:
    return machine_text() + os.environ.get("FIRESIDE_ISA", "")


def _module_sources(module: str) -> dict[str, bytes]:
    """Sources of a module and of those it imports from this package, by full name."""
    sources: dict[str, bytes] = {}
    pending = [module, __name__]  # this module too: it chooses the options of the compiler
    while pending:
        name = pending.pop()
        if name not in sources and (text := _read_source(name)) is not None:
            sources[name] = text
            pending += _imported(name)
    return sources


_IMPORT = re.compile(
    rb"^(?:from|import) engine\.kernels\.cpu(?:\.(\w+)| import\s*(\([^)]*\)|[^\n]*))", re.MULTILINE
)
_KERNELS_IMPORT = re.compile(rb"^from (engine\.\w+\.\w*kernels) import", re.MULTILINE)  # kernels of other packages
_WORD = re.compile(rb"\w+")
_FOLDER = Path(__file__).parent


@cache
def _imported(name: str) -> tuple[str, ...]:
    """Modules with kernels or their words that a module imports."""
    text = _read_source(name) or b""
    found = [each.decode() for each in _KERNELS_IMPORT.findall(text)]
    for submodule, names in _IMPORT.findall(text):
        found += [f"{PACKAGE}.{each.decode()}" for each in ([submodule] if submodule else _WORD.findall(names))]
    return tuple(found)


@cache
def _read_source(name: str) -> bytes | None:
    """Source of a module, or its code where an app ships no sources; None when there is no such module."""
    package, _, module = name.rpartition(".")
    path = _FOLDER / f"{module}.py"
    if package == PACKAGE and path.is_file():
        return path.read_bytes()  # the import system takes as long for each as all the rest
    found = importlib.util.find_spec(name)
    if found is None or found.loader is None:
        return None
    if found.origin is not None and (path := Path(found.origin)).suffix == ".py" and path.is_file():
        return path.read_bytes()
    return marshal.dumps(found.loader.get_code(name))  # type: ignore[attr-defined]


class _Loader:
    """Owner of the process's kernels. Callers hold ``lock``."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._kernels: dict[str, Kernel] = {}
        self._compiling: dict[str, Future[ObjectCode]] = {}

    @cached_property
    def _compilers(self) -> CompilerPool:
        return CompilerPool(psutil.cpu_count(logical=False) or 1)

    def find(self, source: KernelSource) -> Kernel | None:
        """The kernel, if it is loaded or in the cache."""
        kernel = self._kernels.get(source.name)
        if kernel is None and (entry := read_object(_object_path(source))) is not None:
            kernel = self._add(source, *entry)
        return kernel

    def compile(self, source: KernelSource) -> Future[ObjectCode]:
        """Begin to compile, unless that was begun before."""
        if source.name not in self._compiling:
            self._compiling[source.name] = self._compilers.submit(source)
        return self._compiling[source.name]

    def take(self, source: KernelSource, code: Future[ObjectCode]) -> Kernel:
        """Wait for the code of a kernel and load it. Does not want the lock."""
        try:
            symbol, content = code.result()
        finally:
            with self.lock:
                self._compiling.pop(source.name, None)
        with self.lock:
            kernel = self._kernels.get(source.name)
            if kernel is None:
                write_object(_object_path(source), symbol, content)
                kernel = self._add(source, symbol, content)
            return kernel

    def load(self, source: KernelSource, resolve: Callable[[], KernelFunction]) -> Kernel:
        kernel = self.find(source)
        if kernel is None:
            symbol, code = _compile(resolve())
            write_object(_object_path(source), symbol, code)
            kernel = self._add(source, symbol, code)
        return kernel

    def _add(self, source: KernelSource, symbol: str, code: bytes) -> Kernel:
        kernel = Kernel(source.name, load_object(symbol, code))
        self._kernels[source.name] = kernel
        return kernel


_LOADER = _Loader()


def _compile(function: KernelFunction) -> tuple[str, bytes]:
    """Symbol and object file of a kernel."""
    from engine.kernels.cpu.compiler import compile_function  # only a cold start pays for numba

    return compile_function(function)


def _object_path(source: KernelSource) -> Path:
    return objects_folder() / f"{source.name}-{source_hash(source.module_name)}.o"
