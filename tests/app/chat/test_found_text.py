from __future__ import annotations

import re

import pytest
from PySide6.QtGui import QTextDocument
from pytestqt.qtbot import QtBot

from app.chat.answer import Answer
from app.chat.conversation import MessageView
from app.chat.found_text import any_of, content_paragraphs, places_in, wanted
from app.chat.own_message import OwnMessage
from app.storage.records import MessageRecord
from app.theme import Theme
from engine.protocol import Role

_MARKDOWN = """# The **Kettle** and `kettle`

A ket**tle** on the [stove](https://example.org/kettle), KETTLE &amp; pot.
The kettle
whistles 😀 kettle; see https://example.org/kettle.

- one kettle
  ```
  nested kettle
  ```
- ![a kettle](kettle.png)

| Kettle | price |
|---|---|
| blue kettle | 3 |

```python
kettle = "😀 kettle"  # kettle
```

> quoted kettle, $kettle^2$ and

$$kettle$$
"""


def _record(content: str, role: Role = Role.ASSISTANT) -> MessageRecord:
    return MessageRecord("m", "c", None, role, content)


@pytest.mark.parametrize(
    "typed", ["kettle", "the kettle", "kettle whistles", "KETTLE & pot", "😀", "nothing at all"]
)
@pytest.mark.parametrize("role", [Role.ASSISTANT, Role.USER])
def test_what_is_counted_is_what_is_shown(qtbot: QtBot, theme: Theme, typed: str, role: Role) -> None:
    record = _record(_MARKDOWN, role)
    kind = Answer if role is Role.ASSISTANT else OwnMessage
    widget = kind(theme, MessageView(record, 0, 1))
    qtbot.addWidget(widget)
    widget.reveal()
    widget.complete()
    looked_for = wanted(typed)
    assert looked_for is not None
    counted = sum(len(looked_for.pattern.findall(text)) for text in content_paragraphs(record))
    found = [
        view.document().toPlainText() and _text_at(view.document(), *place)
        for view in widget.texts
        for place in places_in(view.document(), looked_for.pattern)
    ]
    assert len(found) == counted
    assert all(looked_for.pattern.fullmatch(text) for text in found)
    if typed == "kettle" and role is Role.ASSISTANT:
        assert counted == 17
        assert looked_for.may_be_in(record.content)
    if typed == "nothing at all":
        assert not counted


def _text_at(document: QTextDocument, start: int, end: int) -> str:
    from PySide6.QtGui import QTextCursor

    cursor = QTextCursor(document)
    cursor.setPosition(start)
    cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
    return cursor.selectedText()


def test_markdown_without_the_words_need_not_be_read() -> None:
    looked_for = wanted("blue kettle")
    assert looked_for is not None
    assert not looked_for.may_be_in("a pot")
    assert looked_for.may_be_in("the BLUE ket**tle**")
    assert wanted("  \n") is None
    assert re.fullmatch(any_of(["b", "a.b"]), "A.B")
