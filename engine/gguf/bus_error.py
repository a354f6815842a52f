"""The handler of SIGBUS that ``fault_guard`` installs, in machine code without Python.

It is loaded from the cache of object files like a kernel, so that a start holds no pages of a compiler.
"""

from __future__ import annotations

import ctypes
import faulthandler
import signal
import sys
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.object_files import address_of, load_assembly

# What <signal.h> and <sys/mman.h> of the system say.
_IS_MACOS: Final = sys.platform == "darwin"
_CODE_OFFSET: Final = 8  # of siginfo_t's si_code, int32
_ADDRESS_OFFSET: Final = 24 if _IS_MACOS else 16  # of si_addr
_SENT_CODES: Final = 0x10000  # codes from here on, and those below 1, are of signals that a process sent
_SA_SIGINFO: Final = 0x40 if _IS_MACOS else 0x4
_SA_ONSTACK: Final = 0x1 if _IS_MACOS else 0x0800_0000
_SA_RESETHAND: Final = 0x4 if _IS_MACOS else -0x8000_0000
_MAP_ANONYMOUS: Final = 0x1000 if _IS_MACOS else 0x20
_SIGBUS: Final = int(getattr(signal, "SIGBUS", 0))
_MAP_PRIVATE, _MAP_FIXED, _PROT_READ = 0x2, 0x10, 0x1

_SYMBOL: Final = "on_bus_error"
_WORDS: Final = "bus_error_words"  # the addresses that its code works with


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


class Handler:
    """What the last bus error needs, too: the actions that the code hands back to the system."""

    def __init__(self, slots: npt.NDArray[np.int64]) -> None:
        """``slots`` [mappings, 3] holds begin, end and damage of each, and is never freed."""
        self._library = ctypes.CDLL(None)
        self._previous, self._default = _SignalAction(), _SignalAction()  # all zeros is SIG_DFL
        self._there = _SignalAction()
        self._to_there, self._sigaction = ctypes.byref(self._there), self._library.sigaction
        self._keeps_faulthandler = False
        self._has_passed_on = np.zeros(1, np.int64)
        self._address = load_assembly(_SYMBOL, _CODE.format(**_NUMBERS))
        words: list[ctypes.c_int64 | int] = [
            slots.ctypes.data,
            self._has_passed_on.ctypes.data,
            ctypes.addressof(self._previous),
            ctypes.addressof(self._default),
            *(self._function(name) for name in ("mmap", "sigaction", "raise")),
            len(slots),
        ]
        (ctypes.c_int64 * len(words)).from_address(address_of(_WORDS))[:] = words

    def install(self) -> bool:
        """Take the place of the handler there is, which is kept; nothing where that is this one already.

        Whoever enables or disables faulthandler later puts another in its place, and so may a library: to be called
        again before the guard is relied on. Once faulthandler is disabled, its handler does nothing and lets the
        fault come again: it is kept no longer, and until that is noticed gets one try.
        """
        there = self._there
        if self._sigaction(_SIGBUS, None, self._to_there) != 0:
            return False
        if there.handler == self._address:
            if self._keeps_faulthandler and not faulthandler.is_enabled():
                self._keep(_SignalAction())
            return True
        there.flags |= _SA_RESETHAND
        self._keep(there)
        action = _SignalAction(handler=self._address, flags=_SA_SIGINFO | _SA_ONSTACK)
        return bool(self._sigaction(_SIGBUS, ctypes.byref(action), None) == 0)

    def _keep(self, action: _SignalAction) -> None:
        ctypes.memmove(ctypes.byref(self._previous), ctypes.byref(action), ctypes.sizeof(action))
        self._keeps_faulthandler = faulthandler.is_enabled()

    def _function(self, name: str) -> int:
        return ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value or 0


# The handler, in LLVM's language. It calls mmap, sigaction and raise by address, which all may be called here, and
# touches nothing else but the slots and its flag; its words are filled in once it is loaded. Another's fault is
# passed on by putting the previous handler back: the instruction runs again and faults there. A signal that was
# sent is sent again. Should the previous handler lead back here, as faulthandler does when it was enabled later,
# the system's default is next.
_CODE = """
@{words} = global [8 x i64] zeroinitializer, align 8

define void @{symbol}(i32 %signal, ptr %info, ptr %context) {{
entry:
  %slots = load ptr, ptr @{words}
  %has_passed_on = load ptr, ptr getelementptr ([8 x i64], ptr @{words}, i64 0, i64 1)
  %previous = load ptr, ptr getelementptr ([8 x i64], ptr @{words}, i64 0, i64 2)
  %default = load ptr, ptr getelementptr ([8 x i64], ptr @{words}, i64 0, i64 3)
  %mmap = load ptr, ptr getelementptr ([8 x i64], ptr @{words}, i64 0, i64 4)
  %sigaction = load ptr, ptr getelementptr ([8 x i64], ptr @{words}, i64 0, i64 5)
  %raise = load ptr, ptr getelementptr ([8 x i64], ptr @{words}, i64 0, i64 6)
  %num_slots = load i64, ptr getelementptr ([8 x i64], ptr @{words}, i64 0, i64 7)
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
  %slot = getelementptr [3 x i64], ptr %slots, i64 %index
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
  %is_more = icmp ult i64 %next, %num_slots
  br i1 %is_more, label %look, label %pass_on
replace:
  %flag_at = getelementptr i64, ptr %slot, i64 2
  store atomic i64 1, ptr %flag_at release, align 8
  %num_bytes = sub i64 %end, %begin
  %zeros = call ptr %mmap(
    i64 %begin, i64 %num_bytes, i32 {protection}, i32 {flags}, i32 -1, i64 0)
  %is_replaced = icmp ne ptr %zeros, inttoptr (i64 -1 to ptr)
  br i1 %is_replaced, label %done, label %pass_on
pass_on:
  %passed = load i64, ptr %has_passed_on
  store i64 1, ptr %has_passed_on
  %is_first = icmp eq i64 %passed, 0
  %action = select i1 %is_first, ptr %previous, ptr %default
  call i32 %sigaction(i32 %signal, ptr %action, ptr null)
  br i1 %is_fault, label %done, label %send
send:
  call i32 %raise(i32 %signal)
  br label %done
done:
  ret void
}}
"""
_NUMBERS: dict[str, object] = {
    "symbol": _SYMBOL,
    "words": _WORDS,
    "code_offset": _CODE_OFFSET,
    "address_offset": _ADDRESS_OFFSET,
    "sent_codes": _SENT_CODES,
    "protection": _PROT_READ,
    "flags": _MAP_PRIVATE | _MAP_FIXED | _MAP_ANONYMOUS,
}
