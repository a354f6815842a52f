"""Keeps the process alive when a mapped file cannot be read: shortened by another program, or its disk pulled out.

The system then sends SIGBUS to the thread that touched the page, inside a kernel as well as inside NumPy, and a
process without a handler ends. The handler here is machine code without Python: where the address lies in a guarded
mapping, it puts a mapping of zeros over the whole of it and sets the mapping's flag, and the reader goes on, with
values that nobody may use. Whoever reads looks at ``Guard.is_damaged`` afterwards. Every other bus error takes the
way it had before.

Windows needs no handler against shortened files, for it lets nobody shorten a mapped one; that a page cannot be
read from its disk is an exception there that machine code without unwind tables cannot take, and ends the process.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import signal
import sys
import threading
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MAX_MAPPINGS: Final = 1024  # guarded at a time; those beyond are not

# What <signal.h> and <sys/mman.h> of the system say.
_IS_MACOS: Final = sys.platform == "darwin"
_CODE_OFFSET: Final = 8  # of siginfo_t's si_code, int32
_ADDRESS_OFFSET: Final = 24 if _IS_MACOS else 16  # of si_addr
_SENT_CODES: Final = 0x10000  # codes from here on, and those below 1, are of signals that a process sent
_SA_SIGINFO: Final = 0x40 if _IS_MACOS else 0x4
_SA_ONSTACK: Final = 0x1 if _IS_MACOS else 0x0800_0000
_MAP_ANONYMOUS: Final = 0x1000 if _IS_MACOS else 0x20
_SIGBUS: Final = int(getattr(signal, "SIGBUS", 0))
_MAP_PRIVATE, _MAP_FIXED, _PROT_READ = 0x2, 0x10, 0x1

_log = logging.getLogger(__name__)


class _SignalAction(ctypes.Structure):
    """``struct sigaction`` of a 64-bit system."""

    _fields_ = (
        [("handler", ctypes.c_void_p), ("mask", ctypes.c_uint32), ("flags", ctypes.c_int)]
        if _IS_MACOS
        else [
            ("handler", ctypes.c_void_p),
            ("mask", ctypes.c_uint64 * 16),
            ("flags", ctypes.c_int),
            ("restorer", ctypes.c_void_p),
        ]
    )


class Guard:
    """Guards one mapping from its making until ``release``, which comes after the mapping is gone."""

    def __init__(self, begin: int, num_bytes: int) -> None:
        self._index = _TABLE.take(begin, begin + -(-num_bytes // mmap.PAGESIZE) * mmap.PAGESIZE)

    @property
    def is_damaged(self) -> bool:
        """Whether a part could not be read, so that all of the mapping is zeros now."""
        return self._index is not None and _TABLE.is_damaged(self._index)

    def release(self) -> None:
        """Guard it no longer; a second call does nothing."""
        index, self._index = self._index, None
        if index is not None:
            _TABLE.give_back(index)


class _Table:
    """The guarded mappings as the handler reads them, in memory that is never freed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots = np.zeros((MAX_MAPPINGS, 3), np.int64)  # begin, end, is_damaged
        self._free = list(range(MAX_MAPPINGS - 1, -1, -1))
        self._handler: _Handler | None = None
        self._has_tried = False

    def take(self, begin: int, end: int) -> int | None:
        """Index of a slot for the mapping; None where it cannot be guarded."""
        with self._lock:
            if not self._has_tried:
                self._has_tried = True
                self._handler = _install(self._slots)
            if self._handler is None or not self._free:
                return None
            index = self._free.pop()
            self._slots[index] = 0, end, 0
            self._slots[index, 0] = begin  # last, for it makes the slot count
            return index

    def is_damaged(self, index: int) -> bool:
        return bool(self._slots[index, 2])

    def give_back(self, index: int) -> None:
        with self._lock:
            self._slots[index, 0] = 0
            self._free.append(index)


_TABLE = _Table()


class _Handler:
    """What the last bus error needs, too: the code, and the actions that it hands back to the system."""

    def __init__(self, slots: npt.NDArray[np.int64]) -> None:
        self._library = ctypes.CDLL(None)
        self._previous, self._default = _SignalAction(), _SignalAction()  # all zeros is SIG_DFL
        self._has_passed_on = np.zeros(1, np.int64)
        addresses = {
            "slots": slots.ctypes.data,
            "has_passed_on": self._has_passed_on.ctypes.data,
            "previous": ctypes.addressof(self._previous),
            "default": ctypes.addressof(self._default),
        }
        calls = {name: self._function(name) for name in ("mmap", "sigaction", "raise")}
        self._engine, self._address = _compile(_CODE.format(**_NUMBERS, **addresses, **calls))

    def install(self) -> bool:
        """Take the place of the handler there is, which is kept."""
        action = _SignalAction(handler=self._address, flags=_SA_SIGINFO | _SA_ONSTACK)
        before = ctypes.byref(self._previous)
        return bool(self._library.sigaction(_SIGBUS, ctypes.byref(action), before) == 0)

    def _function(self, name: str) -> int:
        return ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value or 0


def _install(slots: npt.NDArray[np.int64]) -> _Handler | None:
    if sys.platform not in {"linux", "darwin"} or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        handler = _Handler(slots)
        return handler if handler.install() else None
    except Exception:  # where no machine code may be made, no model runs, but files can be looked at
        _log.warning("mapped files are not guarded", exc_info=True)
        return None


# The handler, in LLVM's language. It calls mmap, sigaction and raise by address, which all may be called here, and
# touches nothing else but the slots and its flag. Another's fault is passed on by putting the previous handler
# back: the instruction runs again and faults there. A signal that was sent is sent again. Should the previous
# handler lead back here, as faulthandler does when it was enabled later, the system's default is next.
_CODE = """
define void @on_bus_error(i32 %signal, ptr %info, ptr %context) {{
entry:
  %code_at = getelementptr i8, ptr %info, i64 {code_offset}
  %code = load i32, ptr %code_at
  %address_at = getelementptr i8, ptr %info, i64 {address_offset}
  %address = load i64, ptr %address_at
  %above = icmp sgt i32 %code, 0
  %below = icmp slt i32 %code, {sent_codes}
  %is_fault = and i1 %above, %below
  br i1 %is_fault, label %look, label %pass_on
look:
  %index = phi i64 [ 0, %entry ], [ %next, %step ]
  %slot = getelementptr [3 x i64], ptr inttoptr (i64 {slots} to ptr), i64 %index
  %begin = load atomic i64, ptr %slot acquire, align 8
  %end_at = getelementptr i64, ptr %slot, i64 1
  %end = load i64, ptr %end_at
  %is_used = icmp ne i64 %begin, 0
  %is_after = icmp uge i64 %address, %begin
  %is_before = icmp ult i64 %address, %end
  %is_between = and i1 %is_after, %is_before
  %is_here = and i1 %is_used, %is_between
  br i1 %is_here, label %replace, label %step
step:
  %next = add i64 %index, 1
  %is_more = icmp ult i64 %next, {num_slots}
  br i1 %is_more, label %look, label %pass_on
replace:
  %flag_at = getelementptr i64, ptr %slot, i64 2
  store atomic i64 1, ptr %flag_at release, align 8
  %num_bytes = sub i64 %end, %begin
  %zeros = call ptr inttoptr (i64 {mmap} to ptr)(
    i64 %begin, i64 %num_bytes, i32 {protection}, i32 {flags}, i32 -1, i64 0)
  %is_replaced = icmp ne ptr %zeros, inttoptr (i64 -1 to ptr)
  br i1 %is_replaced, label %done, label %pass_on
pass_on:
  %passed = load i64, ptr inttoptr (i64 {has_passed_on} to ptr)
  store i64 1, ptr inttoptr (i64 {has_passed_on} to ptr)
  %is_first = icmp eq i64 %passed, 0
  %action = select i1 %is_first, ptr inttoptr (i64 {previous} to ptr), ptr inttoptr (i64 {default} to ptr)
  call i32 inttoptr (i64 {sigaction} to ptr)(i32 %signal, ptr %action, ptr null)
  br i1 %is_fault, label %done, label %send
send:
  call i32 inttoptr (i64 {raise} to ptr)(i32 %signal)
  br label %done
done:
  ret void
}}
"""
_NUMBERS = {
    "code_offset": _CODE_OFFSET,
    "address_offset": _ADDRESS_OFFSET,
    "sent_codes": _SENT_CODES,
    "num_slots": MAX_MAPPINGS,
    "protection": _PROT_READ,
    "flags": _MAP_PRIVATE | _MAP_FIXED | _MAP_ANONYMOUS,
}


def _compile(text: str) -> tuple[Any, int]:
    """Machine code of the handler: its owner, and its address."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    return engine, engine.get_function_address("on_bus_error")
