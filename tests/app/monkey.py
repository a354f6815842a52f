"""A monkey at the window: random clicks, keys, texts and menu entries over a real controller and a fake engine.

``python -m tests.app.monkey [ACTIONS] [--seed N] [--model FILE]...`` runs it for as long as wanted, with models
over the real engine; the suite runs a short one.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QMimeData, QPoint, Qt, QTimer, QUrl
from PySide6.QtGui import QAction, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog, QFileDialog, QMenu, QWidget

from app.application import feature_pages
from app.chat.message_actions import MessageAction
from app.context import AppContext
from app.engine_client import Engine
from app.paths import AppPaths
from app.storage.records import MessageRecord
from app.theme import Theme
from app.widgets.use_dialog import AskDialog
from app.window.main_window import MainWindow
from engine import EngineConfig, EngineThread
from engine.protocol import Channel, ContextOverflow, Event, FinishReason, RequestFailed, Role
from tests.app.fake_engine import FakeEngine

_WORDS = (
    "hello",
    "日本語のテスト",
    "مرحبا بالعالم",
    "```python\nprint(1)\n```",
    "| a | b |\n|--|--|\n| 1 | 2 |",
    "x" * 300,
    "$\\frac{1}{2}$ costs $5 and $6 \\[x^2\\]",
    "![i](http://localhost:1/i.png) <img src='http://localhost:1/'> [j](javascript:x) <b>&amp;",
    "\x00\x1b\u202eodd\ud800\ufeff\u2028" + "e\u0301" * 9 + "👩\u200d👧",
    "> quote\n\n1. one\n   - two\n\n~~~~\n```\n",
)
_SEARCHES = ("", "hello", "te", "日", '"', "a OR NEAR(", "%_", "\ud800", "\x00", "مر")
_KEYS = (
    Qt.Key.Key_Tab, Qt.Key.Key_Return, Qt.Key.Key_Escape, Qt.Key.Key_Space, Qt.Key.Key_Up, Qt.Key.Key_Down,
    Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_Delete, Qt.Key.Key_Backspace,
    Qt.Key.Key_PageUp, Qt.Key.Key_PageDown, Qt.Key.Key_F2, Qt.Key.Key_Menu,
)  # fmt: skip
_NOT = ("Quit", "Close the window", "Full screen")


class Monkey:
    """Acts at random, always the same for the same seed."""

    def __init__(
        self,
        window: MainWindow,
        engine: FakeEngine | None,
        seed: int,
        context: AppContext,
        models: Sequence[str] = ("model.gguf", "broken.gguf"),
    ) -> None:
        """``engine`` None is the real one, which answers by itself; ``models`` are what it loads."""
        self.window, self.engine, self.random, self.context = window, engine, random.Random(seed), context
        self.models = models
        self.counts: Counter[str] = Counter()
        self.slowest_s = 0.0
        self.slowest = ""
        self._what = ""
        self._closer = QTimer(window)
        self._closer.setInterval(20)
        self._closer.timeout.connect(_close_popup)

    def act(self) -> None:
        """One action, and what Qt does about it."""
        actions = (
            self._click, self._click, self._click, self._press, self._press, self._type, self._menu, self._row,
            self._answer, self._answer, self._send, self._page, self._resize, self._ask, self._ask, self._drop,
            self._model, self._trouble, self._look_closer, self._search, self._dress, self._share, self._move,
        )  # fmt: skip
        action = self.random.choice(actions)
        self.counts[action.__name__] += 1
        self._what = ""
        began = time.perf_counter()
        action()
        QApplication.processEvents()
        taken_s = time.perf_counter() - began
        if taken_s > self.slowest_s:
            self.slowest_s, self.slowest = taken_s, f"{action.__name__} {self._what}"
        self._close_popups()

    def _close_popups(self) -> None:
        for widget in QApplication.topLevelWidgets():
            if isinstance(widget, QMenu | QDialog) and widget.isVisible() and self.random.random() < 0.7:
                widget.close()

    def _some(self, kind: type[QWidget]) -> QWidget | None:
        widgets = [one for one in self.window.findChildren(kind) if one.isVisible() and one.isEnabled()]
        return self.random.choice(widgets) if widgets else None

    def _click(self) -> None:
        if (button := self._some(QAbstractButton)) is not None:
            assert isinstance(button, QAbstractButton)
            self._what = button.accessibleName() or button.text()
            self._closer.start()  # a button with a menu comes back when that is closed
            button.click()
            self._closer.stop()

    def _press(self) -> None:
        target = QApplication.focusWidget() or self.window
        keys = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier)
        QTest.keyClick(target, self.random.choice(_KEYS), self.random.choice(keys))

    def _type(self) -> None:
        self.window.chat_page.composer.edit.insertPlainText(self.random.choice(_WORDS))

    def _menu(self) -> None:
        actions = [
            one
            for one in self.window.findChildren(QAction)
            if one.isEnabled() and one.text() and not one.isSeparator() and one.text() not in _NOT
        ]
        chosen = self.random.choice(actions)
        self._what = chosen.text()
        chosen.trigger()

    def _row(self) -> None:
        chats = self.window.sidebar.list
        row = self.random.randrange(max(1, chats.conversations.rowCount()))
        index = chats.conversations.index(row)
        if not index.isValid() or not chats.isVisible():
            return
        keys = self.random.choice((Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier))
        place = chats.visualRect(index).center()
        QTest.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, keys, place)
        if self.random.random() < 0.3:
            chats.make_menu(index).popup(chats.mapToGlobal(QPoint(5, 5)))

    def _answer(self) -> None:
        if self.engine is None:
            QTest.qWait(20)
            return
        for request in self.engine.requests:
            self.engine.say(request.request_id, self.random.choice(_WORDS) + " ")
            if self.random.random() < 0.2:
                self.engine.say(request.request_id, "hm ", Channel.REASONING)
        if self.engine.requests and self.random.random() < 0.4:
            self.engine.finish(self.random.choice(self.engine.requests).request_id)

    def _send(self) -> None:
        self.window.chat_page.composer.edit.setPlainText(self.random.choice(_WORDS))
        QTest.keyClick(self.window.chat_page.composer.edit, Qt.Key.Key_Return)

    def _page(self) -> None:
        self._what = self.random.choice(self.window.pages.entries).name
        self.window.show_page(self._what)

    def _resize(self) -> None:
        self.window.resize(self.random.randrange(420, 1600), self.random.randrange(360, 1000))

    def _message(self) -> MessageRecord | None:
        views = self.context.controller.current_messages
        return self.random.choice(views).record if views else None

    def _ask(self) -> None:
        """What can be asked of a message, of any message, at any time."""
        if (message := self._message()) is None:
            return
        transcript = self.window.chat_page.transcript
        if self.random.random() < 0.2:
            transcript.edit_requested.emit(message.id, self.random.choice(_WORDS))
            return
        action = self.random.choice(list(MessageAction))
        self._what = action.value
        transcript.asked.emit(message.id, action)

    def _drop(self) -> None:
        """Paste or drop text, rich text, files that are and that are not."""
        data = QMimeData()
        match self.random.randrange(4):
            case 0:
                data.setText(self.random.choice(_WORDS) * self.random.choice((1, 300)))
            case 1:
                data.setHtml(f"<p>{self.random.choice(_WORDS)}<img src='http://localhost:1/'></p>")
                data.setText("plain")
            case 2:
                data.setImageData(QImage(20, 20, QImage.Format.Format_RGB32))
            case _:
                data.setUrls([QUrl.fromLocalFile(str(path)) for path in (Path(__file__), Path("/none"), Path("/"))])
        self.window.chat_page.composer.edit.insertFromMimeData(data)

    def _model(self) -> None:
        controller = self.context.controller
        if self.random.random() < 0.5:
            controller.eject_model()
        else:
            if self.engine is not None:
                self.engine.broken_models = {"broken.gguf"}
            controller.load_model(self.random.choice(self.models))

    def _trouble(self) -> None:
        """A request fails, or its answer ends with the context."""
        if self.engine is None or not self.engine.requests:
            return
        request = self.random.choice(self.engine.requests)
        if self.random.random() < 0.5:
            self.engine.requests.remove(request)
            overflow = self.random.choice(
                (None, ContextOverflow(9000, is_least=False, context_length=4096, can_drop_turns=True))
            )
            self.engine.on_event(RequestFailed(request.request_id, "It failed.", overflow))
        else:
            self.engine.finish(request.request_id, FinishReason.CONTEXT)

    def _look_closer(self) -> None:
        if (message := self._message()) is not None and message.role is Role.ASSISTANT:
            self.context.controller.look_closer(message.id, self.random.randrange(len(message.content) + 1))

    def _search(self) -> None:
        self.context.controller.search(self.random.choice(_SEARCHES))

    def _dress(self) -> None:
        settings = self.context.settings
        if self.random.random() < 0.5:
            settings.set("theme", self.random.choice(("light", "dark")))
        else:
            settings.set("zoom", self.random.choice((0.8, 1.0, 2.0)))

    def _share(self) -> None:
        """Write chats to a file and read them in again."""
        controller, path = self.context.controller, self.context.paths.data / "shared.json"
        if path.exists() and len(controller.conversations) < 40:
            controller.exchange.read(path)
        elif ids := [record.id for record in controller.conversations]:
            controller.exchange.write(ids, path)

    def _move(self) -> None:
        """Chats into folders, out, into the trash, and for good."""
        controller = self.context.controller
        ids = [record.id for record in controller.conversations if self.random.random() < 0.3]
        folders: list[str | None] = [None, *(record.id for record in controller.folders.records())]
        match self.random.randrange(5):
            case 0:
                controller.delete_conversations(ids)
            case 1:
                controller.undo_deletion()
            case 2:
                controller.trash.purge([entry.conversation.id for entry in controller.trash.records()[:2]])
            case 3 if len(folders) < 6:
                controller.folders.make("A folder")
            case _:
                controller.move_conversations(ids, self.random.choice(folders))


def _close_popup() -> None:
    if (popup := QApplication.activePopupWidget()) is not None:
        popup.close()


def tame_dialogs() -> None:
    """Let the dialogs that wait for an answer be cancelled."""
    for name in ("getOpenFileName", "getSaveFileName"):
        setattr(QFileDialog, name, lambda *_arguments, **_options: ("", ""))
    QFileDialog.getOpenFileNames = lambda *_arguments, **_options: ([], "")  # type: ignore[method-assign]
    QFileDialog.getExistingDirectory = lambda *_arguments, **_options: ""  # type: ignore[method-assign]
    AskDialog.ask = lambda _dialog: "A name"  # type: ignore[method-assign]


def run(home: Path, num_actions: int, seed: int, models: Sequence[Path] = ()) -> Monkey:
    """Let a monkey act in an app below ``home``, with ``models`` over the real engine; raises what it broke."""
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    engines: list[FakeEngine] = []

    def make_engine(on_event: Callable[[Event], None]) -> Engine:
        if models:
            return EngineThread(on_event, EngineConfig(snapshot_folder=home / "snapshots"))
        engines.append(FakeEngine(on_event))
        return engines[0]

    errors: list[BaseException | str] = []
    old_hook, sys.excepthook = sys.excepthook, lambda _kind, error, _trace: errors.append(error)
    context = AppContext(AppPaths.below(home), make_engine)
    context.store.trouble.connect(errors.append)
    theme = Theme(application, context.settings)
    window = MainWindow(context.controller, context.settings, theme, feature_pages(context, theme))
    try:
        window.show()
        context.start(models[0] if models else Path("model.gguf"))
        names = [*map(str, models), str(home / "missing.gguf")] if models else ("model.gguf", "broken.gguf")
        monkey = Monkey(window, engines[0] if engines else None, seed, context, names)
        for number in range(num_actions):
            monkey.act()
            if errors:
                cause = errors[0] if isinstance(errors[0], BaseException) else None
                raise AssertionError(f"action {number} of seed {seed} broke it: {errors}") from cause
        return monkey
    finally:
        sys.excepthook = old_hook
        context.close()
        window.close()
        window.deleteLater()


def main() -> int:
    """Run as a command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="monkey", description="Random actions at the window.")
    parser.add_argument("actions", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", type=Path, action="append", default=[], help="a .gguf file, for the real engine")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(sys.argv[:1])
    tame_dialogs()
    with tempfile.TemporaryDirectory(prefix="fireside-monkey-") as folder:
        monkey = run(Path(folder), options.actions, options.seed, [model.absolute() for model in options.model])
    application.processEvents()
    print(f"{options.actions} actions: {dict(monkey.counts)}")
    print(f"the slowest took {monkey.slowest_s * 1000:.0f} ms: {monkey.slowest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
