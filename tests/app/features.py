"""The pages of the features, over services below a folder and a fake engine: for windows with a fake controller."""

from __future__ import annotations

from pathlib import Path

from app.application import feature_pages
from app.context import AppContext
from app.paths import AppPaths
from app.theme import Theme
from app.window.pages import PageEntry
from tests.app.fake_engine import FakeEngine


def make_features(home: Path, theme: Theme) -> tuple[AppContext, list[PageEntry]]:
    """The services, to be closed, and the pages."""
    context = AppContext(AppPaths.below(home), FakeEngine)
    context.is_complete = True  # nothing is imported beside this window: the pages import what they need
    return context, feature_pages(context, theme)
