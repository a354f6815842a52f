"""Syntax colours without a wait: a language's rules take up to 0.2 s to compile, which is done on a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QCoreApplication, QObject

from app.chat.highlight import Span, highlight
from app.tasks import TaskRunner

MAX_AT_ONCE = 3000
"""Characters that are coloured at once, in a few milliseconds, where the language's rules are there."""

OnSpans = Callable[[list[Span]], None]


class Highlighter(QObject):
    """Finds the coloured spans of code beside the GUI thread."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runner: TaskRunner | None = None
        self._known: set[str] = set()
        self._is_held = False
        self._waiting: list[tuple[str, str, OnSpans]] = []

    def hold(self) -> None:
        """Until ``go_on``: find nothing, for the rules of a language take long to import and compile."""
        self._is_held = True

    def go_on(self) -> None:
        """Find what waits, and all from now on."""
        self._is_held = False
        waiting, self._waiting = self._waiting, []
        for code, language, on_spans in waiting:
            self.colour(code, language, on_spans)

    def colour(self, code: str, language: str, on_spans: OnSpans) -> None:
        """Call ``on_spans`` with the spans of ``code``: now where that is quick, else when they are found."""
        if not language:
            return
        if self._is_held:
            self._waiting.append((code, language, on_spans))
            return
        if language in self._known and len(code) <= MAX_AT_ONCE:
            on_spans(highlight(code, language))
            return
        if self._runner is None:
            self._runner = TaskRunner("colours", self)
        self._runner.run(partial(highlight, code, language), partial(self._on_found, language, on_spans))

    def close(self) -> None:
        """End the thread."""
        if self._runner is not None:
            self._runner.close(0.2)
            self._runner = None

    def _on_found(self, language: str, on_spans: OnSpans, spans: list[Span]) -> None:
        self._known.add(language)
        on_spans(spans)


def shared_highlighter() -> Highlighter:
    """The application's one highlighter."""
    application = QCoreApplication.instance()
    assert application is not None
    found = application.findChild(Highlighter)
    if isinstance(found, Highlighter):
        return found
    highlighter = Highlighter(application)
    application.aboutToQuit.connect(highlighter.close)
    return highlighter
