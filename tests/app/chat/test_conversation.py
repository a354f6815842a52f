from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.chat.conversation import MAX_TITLE_CHARACTERS, UNTITLED, Conversation, title_from
from app.storage.records import ConversationRecord, MessageRecord, clean_text
from engine.protocol import Message, Role


def _conversation(parents: dict[str, str | None], leaf: str | None = None) -> Conversation:
    record = ConversationRecord("c", "title", 0.0, 0.0, active_leaf_id=leaf)
    return Conversation(
        record, [MessageRecord(id_, "c", parent, Role.USER, id_) for id_, parent in parents.items()]
    )


def _branch(conversation: Conversation) -> list[str]:
    return [view.record.id for view in conversation.branch()]


def test_siblings_are_numbered_in_order() -> None:
    conversation = _conversation({"a": None, "b1": "a", "b2": "a", "c1": "b1", "b3": "a"}, "b3")
    assert _branch(conversation) == ["a", "b3"]
    assert [(view.sibling_index, view.num_siblings) for view in conversation.branch()] == [(0, 1), (2, 3)]
    assert conversation.select_sibling("b3", -1)
    assert _branch(conversation) == ["a", "b2"]
    assert conversation.select_sibling("b2", -1)
    assert _branch(conversation) == ["a", "b1", "c1"]
    assert not conversation.select_sibling("b1", -1)


def test_a_damaged_tree_keeps_every_message_reachable() -> None:
    conversation = _conversation({"a": "gone", "b": "a", "x": "y", "y": "z", "z": "x", "self": "self"}, "missing")
    reached = {view.record.id for id_ in "abxyz" for view in [conversation.view(id_)]}
    assert reached == set("abxyz")
    assert conversation.view("self").num_siblings == 3
    assert _branch(conversation) == ["self"]


@given(st.dictionaries(st.integers(0, 12), st.one_of(st.none(), st.integers(0, 12)), min_size=1))
def test_any_parents_make_a_tree_that_can_be_walked(parents: dict[int, int | None]) -> None:
    conversation = _conversation({str(k): None if v is None else str(v) for k, v in parents.items()})
    for id_ in map(str, parents):
        path = conversation.path_to(id_)
        assert path[-1].id == id_
        assert len({message.id for message in path}) == len(path)
        view = conversation.view(id_)
        assert 0 <= view.sibling_index < view.num_siblings


def test_the_prompt_leaves_empty_answers_out() -> None:
    conversation = _conversation({"a": None})
    conversation.new_message("a", Role.ASSISTANT, " ", created_at=0.0)
    question = conversation.new_message(conversation.record.active_leaf_id, Role.USER, "b", created_at=0.0)
    assert conversation.prompt_for(question.id) == (Message(Role.USER, "a"), Message(Role.USER, "b"))
    assert conversation.prompt_for("a", "be brief")[0] == Message(Role.SYSTEM, "be brief")


def test_titles() -> None:
    assert title_from("  Hello\n\tworld\x00\x1b[31m\u202e! ") == "Hello world [31m !"
    assert title_from("\x00\n") == UNTITLED
    long = title_from("many words " * 40)
    assert len(long) <= MAX_TITLE_CHARACTERS
    assert long.endswith("words…")
    assert len(title_from("日本" * 100)) == MAX_TITLE_CHARACTERS


def test_only_lone_surrogates_are_replaced() -> None:
    odd = "\x00\x1b\u202e\ufeff😀e\u0301"
    assert clean_text(odd + "\ud83d" + odd) == odd + "\ufffd" + odd


def test_the_branch_follows_every_change() -> None:
    tree = Conversation(ConversationRecord("c", "t", 1.0, 1.0))
    first = tree.new_message(None, Role.USER, "one", created_at=1.0)
    second = tree.new_message(first.id, Role.ASSISTANT, "two", created_at=2.0)

    def texts() -> list[str]:
        return [f"{view.record.content} {view.sibling_index + 1}/{view.num_siblings}" for view in tree.branch()]

    assert texts() == ["one 1/1", "two 1/1"]
    tree.update(replace(second, content="two more"))
    assert texts() == ["one 1/1", "two more 1/1"]
    tree.update(replace(first, content="ONE"))
    assert texts() == ["ONE 1/1", "two more 1/1"]
    tree.new_message(first.id, Role.ASSISTANT, "other", created_at=3.0)
    assert texts() == ["ONE 1/1", "other 2/2"]
    tree.update(replace(second, content="hidden"))
    tree.branch().clear()
    assert texts() == ["ONE 1/1", "other 2/2"]
    tree.show(second.id)
    assert texts() == ["ONE 1/1", "hidden 1/2"]
    tree.record = replace(tree.record, active_leaf_id=first.id)
    assert texts() == ["ONE 1/1"]
    assert tree.select_sibling(second.id, 1)
    assert texts() == ["ONE 1/1", "other 2/2"]
