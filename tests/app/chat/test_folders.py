from __future__ import annotations

from tests.app.conftest import Bench, BenchMaker


def _make_chats(bench: Bench, *titles: str) -> list[str]:
    ids = []
    for title in titles:
        bench.controller.new_conversation()
        bench.ask(title, "yes")
        ids.append(bench.controller.current_id)
    return ids


def _folder_of(bench: Bench, conversation_id: str) -> str | None:
    records = {record.id: record for record in bench.controller.conversations}
    return records[conversation_id].folder_id


def test_chats_lie_in_folders_also_after_the_next_start(bench: Bench, make_bench: BenchMaker) -> None:
    first, second, third = _make_chats(bench, "one", "two", "three")
    folders = bench.controller.folders
    work, home = folders.make("Work"), folders.make("  home\n office ")
    assert [record.name for record in folders.records()] == ["home office", "Work"]
    bench.controller.move_conversations([first, second], work.id)
    bench.controller.move_conversations([second], home.id)
    bench.controller.move_conversations([third], "no such folder")
    folders.set_folded(work.id, True)
    folders.rename(work.id, "Arbeit")
    folders.rename(home.id, "  ")
    make_bench.close(bench)
    again = make_bench()
    assert [record.name for record in again.controller.folders.records()] == ["Arbeit", "home office"]
    assert [_folder_of(again, id_) for id_ in (first, second, third)] == [work.id, home.id, None]
    assert again.controller.folders.is_folded(work.id)
    assert not again.controller.folders.is_folded(home.id)


def test_a_deleted_folder_leaves_its_chats_also_those_in_the_trash(bench: Bench, make_bench: BenchMaker) -> None:
    first, second = _make_chats(bench, "one", "two")
    folder = bench.controller.folders.make("Work")
    bench.controller.move_conversations([first, second], folder.id)
    bench.controller.delete_conversations([second])
    bench.controller.folders.delete(folder.id)
    assert _folder_of(bench, first) is None
    bench.controller.restore_conversations([second])
    bench.ask("more", "ok")  # writes the whole record, which must not point at the folder
    make_bench.close(bench)
    again = make_bench()
    assert [_folder_of(again, id_) for id_ in (first, second)] == [None, None]
    assert again.notices == []


def test_a_new_chat_begins_in_its_folder(bench: Bench) -> None:
    folder = bench.controller.folders.make("Work")
    bench.controller.new_conversation(folder.id)
    bench.ask("in the folder", "yes")
    assert _folder_of(bench, bench.controller.current_id) == folder.id
    bench.controller.new_conversation(folder.id)
    bench.controller.new_conversation()
    bench.ask("outside", "yes")
    assert _folder_of(bench, bench.controller.current_id) is None


def test_two_folders_of_one_name_can_be_told_apart(bench: Bench) -> None:
    names = [bench.controller.folders.make("New folder").name for _ in range(3)]
    assert names == ["New folder", "New folder 2", "New folder 3"]


def test_search_finds_all_words_in_titles_and_messages(bench: Bench) -> None:
    apples, _ = _make_chats(bench, "about apples and Straße", "about pears")
    bench.settle()
    for text, expected in (
        ("apples yes", [apples]),
        ("APPLES", [apples]),
        ("yes pears apples", []),
        ("ße", [apples]),
    ):
        bench.controller.search(text)
        bench.settle()
        assert [record.id for record in bench.controller.conversations] == expected, text


def test_a_new_chat_in_a_folder_that_is_gone_lies_outside(bench: Bench) -> None:
    folder = bench.controller.folders.make("Work")
    bench.controller.folders.delete(folder.id)
    bench.controller.new_conversation(folder.id)
    assert bench.controller.current_conversation.folder_id is None
    bench.ask("hello", "hi")
    bench.settle()
    assert bench.notices == [], "it could be saved"
    assert [record.title for record in bench.context.store.read_conversations()] == ["hello"]
