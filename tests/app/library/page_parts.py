"""What the tests of the models page press and read."""

from __future__ import annotations

from PySide6.QtWidgets import QAbstractButton, QWidget

from app.library.models_page import ModelsPage
from engine.hub.download_item import DownloadRow
from engine.hub.download_record import DownloadState
from engine.protocol import RequestStats


def button_of(page: ModelsPage, name: str) -> QAbstractButton:
    found = [each for each in page.findChildren(QAbstractButton) if name in (each.accessibleName(), each.text())]
    assert found, f"{name!r} is none of {[b.accessibleName() for b in page.findChildren(QAbstractButton)]}"
    return found[-1]


def stats_of(num_tokens: int, generation_ms: float) -> RequestStats:
    return RequestStats(
        num_prompt_tokens=50, num_reused_tokens=0, num_completion_tokens=num_tokens, prompt_ms=100.0,
        first_token_ms=1.0, generation_ms=generation_ms, tokens_per_second=50.0, seed=1,
    )  # fmt: skip


def download_row(state: DownloadState, num_received: int = 0, message: str = "") -> DownloadRow:
    return DownloadRow("d1", "acme/Other-GGUF", "Q4_0", state, num_received, 20_000_000_000, 0.0, None, message, ())


def texts_of(page: QWidget) -> str:
    from PySide6.QtWidgets import QLabel

    return "\n".join(label.text() for label in page.findChildren(QLabel) if label.isVisibleTo(page))
