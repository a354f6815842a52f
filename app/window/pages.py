"""The pages beside the sidebar, by name. Each is made when it is first shown, so that the window opens quickly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QApplication, QStackedWidget, QWidget

from engine.plain_data import dataclass

CHAT = "chat"
MODELS = "models"
TRASH = "trash"
SETTINGS = "settings"


@dataclass(frozen=True)
class PageEntry:
    """One page.

    Attributes:
        name: by which ``show_page`` finds it.
        title: what the sidebar's foot and the menu View call it; empty for a page that has its own way in.
        make: makes the widget. When that has a signal ``closed``, it leads back to the chat; when it has an
            attribute ``first_focus``, that widget gets the keyboard (not a focus proxy, which would take what
            stands before it out of the order of Tab).
        keys: the shortcut, "" for none.
        is_kept: False lets a page that is not shown be made anew after the look has changed, which is quicker than
            dressing it again; for pages without a state of their own.
        prepare: calls what it is given when the page can be made without holding anybody up.
    """

    name: str
    title: str
    make: Callable[[], QWidget]
    keys: str = ""
    is_kept: bool = True
    prepare: Callable[[Callable[[], object]], None] = lambda show: show()  # type: ignore[assignment]


class Pages(QStackedWidget):
    """Shows one page at a time.

    Signals:
        shown(name): another page is shown now.
        left: a page was closed; the person goes back to the chat.
    """

    shown = Signal(str)
    left = Signal()

    def __init__(self, entries: Sequence[PageEntry], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("pages")
        self.entries = tuple(entries)
        self._by_name = {entry.name: entry for entry in entries}
        self._made: dict[str, QWidget] = {}
        self.current_name = ""
        self._wanted = ""

    def page(self, name: str) -> QWidget:
        """The page's widget, made now if need be; raises KeyError for an unknown name."""
        if name not in self._made:
            widget = self._made[name] = self._by_name[name].make()
            if (closed := getattr(widget, "closed", None)) is not None:
                closed.connect(self.left)
            self.addWidget(widget)
        return self._made[name]

    def drop_hidden(self) -> None:
        """The look is about to change: let go of pages that are not shown and keep nothing."""
        for name, widget in list(self._made.items()):
            if widget is not self.currentWidget() and not self._by_name[name].is_kept:
                del self._made[name]
                self.removeWidget(widget)
                widget.deleteLater()
                QApplication.sendPostedEvents(widget, QEvent.Type.DeferredDelete)

    def show_page(self, name: str) -> None:
        """Show a page as soon as it can be made, and give it the keyboard; raises KeyError for an unknown name."""
        self._wanted = name
        self._by_name[name].prepare(lambda: self._show(name))

    def _show(self, name: str) -> None:
        if name != self._wanted:
            return  # the person went elsewhere while this one was waited for
        widget = self.page(name)
        self.setCurrentWidget(widget)
        if name != self.current_name:
            self.current_name = name
            self.shown.emit(name)
        if (first := getattr(widget, "first_focus", None)) is not None:
            first.setFocus(Qt.FocusReason.OtherFocusReason)
