"""Tells a screen reader something that nothing with the keyboard shows, when it has finished what it says now."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget


def announce(widget: QWidget, text: str) -> None:
    """Say ``text`` politely, on behalf of ``widget``."""
    from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent  # not before the window is there

    event = QAccessibleAnnouncementEvent(widget, text)
    event.setPoliteness(QAccessible.AnnouncementPoliteness.Polite)
    QAccessible.updateAccessibility(event)
