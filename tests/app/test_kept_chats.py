from __future__ import annotations

from app.preferences.kept_chats_row import KeptChatsRow
from app.theme import Theme
from app.window.main_window import MainWindow
from app.window.pages import SETTINGS
from engine.protocol import (
    AskSnapshotStorage,
    ClearSnapshots,
    ForgetConversation,
    GenerateRequest,
    LoadModel,
    SetSnapshotQuota,
    SnapshotStorage,
)
from tests.app.conftest import Bench, BenchMaker


def _quotas(bench: Bench) -> list[int]:
    return [each.quota_bytes for each in bench.engine.commands if isinstance(each, SetSnapshotQuota)]


def test_the_settings_say_how_much_is_kept_before_a_model_is_loaded(make_bench: BenchMaker) -> None:
    bench = make_bench()
    assert isinstance(bench.engine.commands[0], SetSnapshotQuota)
    settings = bench.context.settings
    settings.set("kept_chats_gb", 1.5)
    settings.set("keeps_chats", False)
    settings.set("zoom", 1.25)
    settings.set("keeps_chats", True)
    assert _quotas(bench) == [4_000_000_000, 1_500_000_000, 0, 1_500_000_000]
    make_bench.close(bench)
    settings.set("keeps_chats", False)
    assert _quotas(make_bench()) == [0]


def test_the_engine_hears_whose_request_it_is_and_what_is_gone_for_good(bench: Bench) -> None:
    conversation = bench.controller.current_id
    bench.ask("hello", "hi")
    (request,) = [each for each in bench.engine.commands if isinstance(each, GenerateRequest)]
    assert request.conversation_id == conversation
    bench.controller.delete_conversations([conversation])
    assert not [each for each in bench.engine.commands if isinstance(each, ForgetConversation)], "it may come back"
    bench.controller.trash.purge([conversation])
    assert bench.engine.commands[-1] == ForgetConversation(conversation)


def test_the_memory_for_chats_is_asked_for_with_the_load(make_bench: BenchMaker) -> None:
    bench = make_bench(None)
    bench.context.settings.set("memory_limit_gb", 2.5)
    bench.controller.load_model("a.gguf")
    (load,) = [each for each in bench.engine.commands if isinstance(each, LoadModel)]
    assert load.memory_limit_bytes == 2_500_000_000


def test_the_use_of_the_disk_is_answered_once_to_the_last_who_asked(bench: Bench) -> None:
    answers: list[tuple[str, SnapshotStorage]] = []
    client = bench.context.client
    client.ask_storage(lambda storage: answers.append(("first", storage)))
    client.ask_storage(lambda storage: answers.append(("second", storage)))
    bench.engine.on_event(SnapshotStorage(10, 1, 100))
    bench.engine.on_event(SnapshotStorage(20, 2, 100))
    bench.qtbot.waitUntil(lambda: bool(answers))
    bench.qtbot.wait(40)
    assert answers == [("second", SnapshotStorage(10, 1, 100))]


def test_all_that_is_kept_is_deleted_from_the_settings(bench: Bench, theme: Theme) -> None:
    context = bench.context
    window = MainWindow(bench.controller, context.settings, theme, kept=context.kept_chats)
    bench.qtbot.addWidget(window)
    window.show()
    window.show_page(SETTINGS)
    (row,) = window.findChildren(KeptChatsRow)
    bench.engine.on_event(SnapshotStorage(5_000_000, 3, 10**9))
    bench.qtbot.waitUntil(row.delete.isEnabled)
    row.delete.click()
    assert bench.engine.commands[-2:] == [ClearSnapshots(), AskSnapshotStorage()]
