"""The banner after a run that did not end by itself, kept true while the person goes on."""

from __future__ import annotations

from pathlib import Path

from app.context import AppContext
from app.widgets.notice_bar import NoticeBar


def show_recovery(banner: NoticeBar, context: AppContext, model: Path | None = None) -> None:
    """Say what was found and offered, and say it anew once a model is there; ``model`` is one that was named."""
    offer = context.recovery(model)
    if offer is None:
        return
    banner.show_text(offer.text, action_name=offer.action_name, action=offer.action)

    def on_loaded(_info: object) -> None:
        later = context.recovery(model)
        if later is not None and later.text != banner.text == offer.text and not banner.isHidden():
            banner.show_text(later.text, action_name=later.action_name, action=later.action)

    context.controller.model_loaded.connect(on_loaded)
