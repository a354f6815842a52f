"""A call that the model wrote, as a card: the function's name and its arguments. Nothing is run by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from PySide6.QtWidgets import QWidget

from app.chat.blocks import Block, BlockKind, displayable
from app.chat.code_card import CodeCard
from app.theme import Theme
from app.translation import tr


class ToolCard(CodeCard):
    """One call."""

    def __init__(self, call: Mapping[str, Any], theme: Theme, parent: QWidget | None = None) -> None:
        """``call`` has the fields of ``engine.protocol.ToolCall``."""
        super().__init__(theme, parent)
        arguments = str(call.get("arguments") or "")
        try:
            shown = json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            shown = arguments
        self.set_block(Block(BlockKind.CODE, text=shown, language="json"))
        name = displayable(str(call.get("name") or "?"))[:80]
        self.set_title(tr("Calls {name}", name=name))
        self.setAccessibleName(tr("The model calls {name}", name=name))
