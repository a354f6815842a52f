"""A qtbot for machines that do something else, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

WAIT_MS = 60_000


class PatientQtBot(QtBot):
    """Waits a minute for what must come: no test fails because its machine is busy.

    How long something takes is a matter of the benchmarks, so tests state no other time.
    """

    def waitUntil(self, callback: Callable[[], bool | None], *, timeout: int = WAIT_MS) -> None:
        super().waitUntil(callback, timeout=timeout)

    def waitSignal(self, signal: Any, *, timeout: int = WAIT_MS, **options: Any) -> Any:
        return super().waitSignal(signal, timeout=timeout, **options)

    def waitSignals(self, signals: list[Any], *, timeout: int = WAIT_MS, **options: Any) -> Any:
        return super().waitSignals(signals, timeout=timeout, **options)

    def waitExposed(self, widget: QWidget, *, timeout: int = WAIT_MS) -> Any:
        return super().waitExposed(widget, timeout=timeout)
