from __future__ import annotations

import pytest

from app.chat.draft_reader import MAX_COUNTED_AT_ONCE
from app.chat.generation import SAVE_INTERVAL_MS
from app.storage.records import MessageStatus
from engine.protocol import (
    AbortRequest,
    Channel,
    Command,
    CountTokens,
    GenerateRequest,
    RequestFailed,
    Role,
    ToolCall,
    ToolCalled,
)
from tests.app.conftest import Bench, BenchMaker


def _texts(bench: Bench) -> list[str]:
    return [view.record.content for view in bench.controller.current_messages]


def test_a_turn_streams_into_its_message_and_is_kept(bench: Bench, make_bench: BenchMaker) -> None:
    deltas: list[tuple[str, str]] = []
    bench.controller.delta.connect(lambda _c, _m, channel, text: deltas.append((channel, text)))
    assert bench.controller.send("Hello  there")
    request_id = bench.request()
    bench.engine.say(request_id, "thinking", Channel.REASONING)
    bench.engine.say(request_id, "Hi")
    bench.engine.say(request_id, "!")
    bench.engine.finish(request_id)
    bench.wait_idle()
    question, answer = (view.record for view in bench.controller.current_messages)
    assert (question.role, question.content) == (Role.USER, "Hello  there")
    assert (answer.content, answer.reasoning, answer.status) == ("Hi!", "thinking", MessageStatus.COMPLETE)
    assert answer.stats is not None
    assert (answer.stats["tokens_per_second"], answer.stats["finish_reason"]) == (99.0, "stop")
    assert answer.stats["reasoning_ms"] >= 0
    assert answer.model_name == "model"
    assert "".join(text for channel, text in deltas if channel == "answer") == "Hi!"
    assert bench.controller.conversations[0].title == "Hello there"
    make_bench.close(bench)
    again = make_bench()
    assert [view.record for view in again.controller.current_messages] == [question, answer]


def test_the_message_is_on_disk_before_the_engine_begins(bench: Bench) -> None:
    bench.controller.send("durable?")
    bench.request()
    stored = bench.context.store.read_messages(bench.controller.current_id)
    assert [(record.role, record.content) for record in stored] == [(Role.USER, "durable?"), (Role.ASSISTANT, "")]


def test_a_partial_answer_is_saved_within_a_second(bench: Bench) -> None:
    assert SAVE_INTERVAL_MS < 1000
    bench.controller.send("Count")
    request_id = bench.request()
    text = stored = ""
    for number in range(3000):  # without a pause in which to save
        text += f"{number} "
        bench.engine.say(request_id, f"{number} ")
        bench.qtbot.wait(20)
        stored = bench.context.store.read_messages(bench.controller.current_id)[1].content
        if len(stored) > len("0 "):  # which is saved at once
            break
    assert len(stored) > len("0 ")
    assert text.startswith(stored)


def test_what_cannot_be_sent(bench: Bench) -> None:
    assert not bench.controller.send("")
    assert not bench.controller.send(" \n\t")
    assert bench.controller.send("once")
    assert not bench.controller.send("once"), "a double click sends one message"
    bench.engine.finish(bench.request())
    bench.wait_idle()
    assert _texts(bench) == ["once", ""]


def test_a_very_long_and_an_odd_text(bench: Bench, make_bench: BenchMaker) -> None:
    odd = "\x00 \x1b[31m \u202e" + "a" + "\u0301" * 10_000 + " \ud800 end"
    long = "wörter " * 200_000
    bench.ask(odd, "ok\x00\u202e")
    bench.ask(long, "ok")
    expected = [odd.replace("\ud800", "\ufffd"), "ok\x00\u202e", long, "ok"]
    assert _texts(bench) == expected
    assert "\u202e" not in bench.controller.conversations[0].title
    make_bench.close(bench)
    assert _texts(make_bench()) == expected


def test_stop_keeps_the_text(bench: Bench) -> None:
    bench.controller.send("go on")
    request_id = bench.request()
    bench.engine.say(request_id, "half an ans")
    bench.controller.stop()
    bench.wait_idle()
    answer = bench.controller.current_messages[-1].record
    assert (answer.content, answer.status) == ("half an ans", MessageStatus.STOPPED)
    bench.engine.say(request_id, "late")
    bench.qtbot.wait(40)
    assert bench.controller.current_messages[-1].record.content == "half an ans"
    assert bench.controller.send("next")


def test_stop_before_the_engine_has_the_request(bench: Bench) -> None:
    bench.controller.send("no")
    bench.controller.stop()
    bench.settle()
    assert not any(isinstance(command, GenerateRequest | AbortRequest) for command in bench.engine.commands)
    assert bench.controller.current_messages[-1].record.status is MessageStatus.STOPPED


def test_a_failed_answer_says_why_and_the_next_one_works(bench: Bench) -> None:
    bench.controller.send("fail")
    request_id = bench.request()
    bench.engine.say(request_id, "some")
    bench.engine.on_event(RequestFailed(request_id, "The model produced invalid numbers."))
    bench.engine.requests.clear()
    bench.wait_idle()
    answer = bench.controller.current_messages[-1].record
    assert (answer.status, answer.error, answer.content) == (
        MessageStatus.FAILED, "The model produced invalid numbers.", "some",
    )  # fmt: skip
    bench.ask("again", "fine")
    assert _texts(bench) == ["fail", "some", "again", "fine"]


def test_two_chats_stream_side_by_side(bench: Bench) -> None:
    bench.controller.send("in A")
    first_id = bench.controller.current_id
    first_request = bench.request()
    bench.controller.new_conversation()
    second_id = bench.controller.current_id
    assert second_id != first_id
    assert bench.controller.send("in B")
    bench.qtbot.waitUntil(lambda: len(bench.engine.requests) == 2)
    second_request = bench.request(-1)
    assert bench.controller.generating_ids == {first_id, second_id}
    for number in range(5):
        bench.engine.say(first_request, f"a{number}")
        bench.engine.say(second_request, f"b{number}")
    bench.qtbot.waitUntil(lambda: _texts(bench) == ["in B", "b0b1b2b3b4"])
    bench.controller.open_conversation(first_id)
    assert _texts(bench) == ["in A", "a0a1a2a3a4"], "a chat that is opened again shows what came meanwhile"
    bench.engine.finish(second_request)
    bench.engine.finish(first_request)
    bench.wait_idle()
    assert _texts(bench) == ["in A", "a0a1a2a3a4"]
    bench.controller.open_conversation(second_id)
    assert _texts(bench) == ["in B", "b0b1b2b3b4"]


def test_regenerate_and_edit_give_siblings_and_destroy_nothing(bench: Bench) -> None:
    bench.ask("first", "one")
    bench.ask("second", "two")
    answer = bench.controller.current_messages[-1].record
    bench.controller.regenerate(answer.id)
    request = bench.request()
    bench.engine.say(request, "other two")
    bench.engine.finish(request)
    bench.wait_idle()
    view = bench.controller.current_messages[-1]
    assert (_texts(bench), view.sibling_index, view.num_siblings) == (["first", "one", "second", "other two"], 1, 2)
    bench.controller.edit_and_resend(bench.controller.current_messages[0].record.id, "first, edited")
    request = bench.request()
    assert [message.content for message in bench.engine.requests[-1].messages] == ["first, edited"]
    bench.engine.say(request, "new one")
    bench.engine.finish(request)
    bench.wait_idle()
    assert _texts(bench) == ["first, edited", "new one"]
    bench.controller.select_sibling(bench.controller.current_messages[0].record.id, -1)
    assert _texts(bench) == ["first", "one", "second", "other two"]
    bench.controller.select_sibling(bench.controller.current_messages[-1].record.id, -1)
    assert _texts(bench) == ["first", "one", "second", "two"]
    bench.controller.select_sibling(bench.controller.current_messages[-1].record.id, -1)
    assert _texts(bench) == ["first", "one", "second", "two"], "there is nothing before the first"
    bench.settle()
    assert len(bench.context.store.read_messages(bench.controller.current_id)) == 7


def test_an_edited_answer_stands_as_it_was_written(bench: Bench) -> None:
    bench.ask("first", "one")
    bench.controller.edit_and_resend(bench.controller.current_messages[1].record.id, "uno")
    assert _texts(bench) == ["first", "uno"]
    assert not bench.controller.is_generating
    bench.controller.send("second")
    bench.request()
    assert [message.content for message in bench.engine.requests[-1].messages] == ["first", "uno", "second"]


def test_editing_while_the_answer_streams_stops_the_old_one(bench: Bench) -> None:
    bench.controller.send("old")
    old_request = bench.request()
    bench.engine.say(old_request, "old answer")
    bench.qtbot.waitUntil(lambda: _texts(bench) == ["old", "old answer"])
    bench.controller.edit_and_resend(bench.controller.current_messages[0].record.id, "new")
    bench.qtbot.waitUntil(lambda: [r.request_id for r in bench.engine.requests] not in ([], [old_request]))
    request = bench.request()
    bench.engine.say(request, "new answer")
    bench.engine.finish(request)
    bench.wait_idle()
    assert _texts(bench) == ["new", "new answer"]
    bench.controller.select_sibling(bench.controller.current_messages[0].record.id, -1)
    assert _texts(bench) == ["old", "old answer"]


def test_without_a_model_the_message_is_kept_and_answered_later(make_bench: BenchMaker) -> None:
    bench = make_bench(None)
    assert bench.controller.send("anyone there?")
    assert "no model yet" in bench.notices[-1]
    assert str(bench.context.paths.models) in bench.notices[-1]
    assert bench.controller.is_generating
    bench.settle()
    assert not bench.engine.requests
    bench.controller.load_model("other.gguf")
    request = bench.request()
    bench.engine.say(request, "yes")
    bench.engine.finish(request)
    bench.wait_idle()
    assert _texts(bench) == ["anyone there?", "yes"]


def test_a_model_that_fails_to_load_fails_the_waiting_answer(make_bench: BenchMaker) -> None:
    bench = make_bench(None)
    bench.engine.broken_models.add("broken.gguf")
    bench.controller.send("hello")
    bench.controller.load_model("broken.gguf")
    bench.wait_idle()
    answer = bench.controller.current_messages[-1].record
    assert answer.status is MessageStatus.FAILED
    assert "broken.gguf: broken" in answer.error
    bench.controller.load_model("good.gguf")
    bench.qtbot.waitUntil(lambda: bench.controller.model_info is not None)
    bench.controller.regenerate(answer.id)
    bench.engine.finish(bench.request())
    bench.wait_idle()
    assert bench.controller.current_messages[-1].record.status is MessageStatus.COMPLETE


def test_delete_is_undone(bench: Bench, make_bench: BenchMaker) -> None:
    bench.ask("keep me", "yes")
    kept_id = bench.controller.current_id
    bench.controller.delete_conversations([kept_id])
    assert not bench.controller.conversations
    assert bench.controller.current_id != kept_id
    bench.controller.restore_conversations([kept_id])
    assert _texts(bench) == ["keep me", "yes"]
    bench.controller.delete_conversations([kept_id])
    make_bench.close(bench)
    assert not make_bench().controller.conversations


def test_rename_pin_and_search(bench: Bench) -> None:
    for text, answer in (
        ("about apples", "Äpfel schmecken"),
        ("about 日本語の文章", "東京です"),
        ("third", "nothing"),
    ):
        bench.controller.new_conversation()
        bench.ask(text, answer)
    third, second, first = (record.id for record in bench.controller.conversations)
    bench.controller.rename_conversation(third, "  Renamed \n title ")
    bench.controller.rename_conversation(second, "  ")
    bench.controller.pin_conversations([first], True)
    assert [record.id for record in bench.controller.conversations] == [first, third, second]
    assert bench.controller.conversations[1].title == "Renamed title"

    def found(text: str) -> list[str]:
        bench.settle()
        bench.controller.search(text)
        bench.settle()
        return [record.id for record in bench.controller.conversations]

    assert found("本語の") == [second]
    assert found("東京") == [second], "two characters are a word in Chinese and Japanese"
    assert found("schmeck") == [first]
    assert found("renamed") == [third]
    assert found('"') == []
    assert found("") == [first, third, second]


def test_drafts_outlast_the_app(bench: Bench, make_bench: BenchMaker) -> None:
    bench.controller.save_draft("h")
    bench.controller.save_draft("half a thought")
    assert bench.controller.current_conversation.draft == "half a thought"
    assert not bench.controller.conversations
    make_bench.close(bench)
    again = make_bench()
    assert again.controller.current_conversation.draft == "half a thought"
    again.ask("sent", "ok")
    assert again.controller.current_conversation.draft == ""


def test_closing_in_mid_answer_waits_for_no_end_and_keeps_it(bench: Bench, make_bench: BenchMaker) -> None:
    bench.controller.send("a long story")
    bench.engine.say(bench.request(), "Once upon")
    make_bench.close(bench)
    answer = make_bench().controller.current_messages[-1].record
    assert (answer.content, answer.status) == ("Once upon", MessageStatus.INTERRUPTED)


def test_tokens_are_counted_when_typing_pauses(bench: Bench) -> None:
    counts: list[tuple[int, float]] = []
    bench.controller.cost_known.connect(lambda number, share, _seconds: counts.append((number, share)))
    for text in ("one", "one two", "one two three"):
        bench.controller.count_tokens(text)
    bench.qtbot.waitUntil(lambda: bool(counts))
    bench.qtbot.wait(200)
    assert counts == [(3, 3 / 2048)]


def test_the_tokens_of_a_very_long_draft_are_estimated_first(bench: Bench) -> None:
    counts: list[tuple[int, bool]] = []
    asked: list[int] = []
    bench.controller.cost_known.connect(
        lambda number, _share, _seconds, is_estimate: counts.append((number, is_estimate))
    )
    submit = bench.engine.submit

    def submitted(command: Command) -> None:
        if isinstance(command, CountTokens):
            asked.append(len(command.text))
        submit(command)

    bench.engine.submit = submitted
    bench.controller.count_tokens("word " * 40_000)
    bench.qtbot.waitUntil(lambda: len(counts) == 2)
    (estimate, is_estimate), second = counts
    assert is_estimate
    assert abs(estimate - 40_000) < 400
    assert second == (40_000, False)
    assert asked == [10_000, 200_000], "the sample comes first"
    bench.controller.count_tokens("é" * MAX_COUNTED_AT_ONCE)
    bench.qtbot.waitUntil(lambda: len(counts) == 3)
    assert counts[2] == (1, False)


def test_the_context_is_reported_for_the_open_chat(bench: Bench) -> None:
    used: list[tuple[int, int, int]] = []
    bench.controller.context_used.connect(lambda *numbers: used.append(numbers))
    bench.ask("one", "two")
    assert used[-1] == (13, 4, 2048)
    bench.controller.new_conversation()
    assert used[-1] == (0, 0, 2048)


def test_the_context_fills_while_an_answer_is_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.chat.context_use._EVERY_S", 0.0)
    reports: list[int] = []
    bench.controller.context_used.connect(lambda used, _reused, _total: reports.append(used))
    bench.controller.send("Hello")
    request_id = bench.request()
    bench.engine.say(request_id, "one")
    bench.qtbot.waitUntil(lambda: bool(reports) and reports[-1] > 0)
    first = reports[-1]
    bench.engine.say(request_id, "two")
    bench.qtbot.waitUntil(lambda: reports[-1] > first)
    bench.engine.finish(request_id)
    bench.wait_idle()


def test_the_settings_reach_the_engine(bench: Bench) -> None:
    settings = bench.context.settings
    settings.set("presence_penalty", 0.5)
    settings.set("frequency_penalty", 0.25)
    assert bench.controller.send("one")
    request_id = bench.request()
    sampling = bench.engine.requests[-1].sampling
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.seed) == (0.5, 0.25, None)
    bench.engine.finish(request_id)
    bench.wait_idle()
    settings.set("seed", 7)
    assert bench.controller.send("two")
    bench.request()
    assert bench.engine.requests[-1].sampling.seed == 7


def test_who_hears_of_a_deletion_finds_another_conversation_open(bench: Bench) -> None:
    bench.ask("keep me", "yes")
    kept_id = bench.controller.current_id
    bench.controller.new_conversation()
    bench.ask("delete me", "gone")
    seen: list[list[str]] = []
    bench.controller.conversations_changed.connect(lambda: seen.append(_texts(bench)))
    bench.controller.delete_conversations([bench.controller.current_id])
    assert bench.controller.current_id == kept_id
    assert seen
    assert all(texts == ["keep me", "yes"] for texts in seen)


def test_a_call_is_kept_beside_the_answer(bench: Bench) -> None:
    bench.controller.send("Weather?")
    request_id = bench.request()
    bench.engine.say(request_id, "One moment.")
    bench.engine.say(request_id, '<tool_call>{"name"', Channel.TOOL_CALL)
    bench.engine.on_event(ToolCalled(request_id, ToolCall("weather", '{"city": "Lisboa"}', "1")))
    bench.engine.finish(request_id)
    bench.wait_idle()
    record = bench.controller.current_messages[-1].record
    assert record.content == "One moment."
    assert record.stats is not None
    assert record.stats["tool_calls"] == [
        {"name": "weather", "arguments": '{"city": "Lisboa"}', "call_id": "1"},
    ]


def test_what_was_found_comes_with_a_line_of_the_message(bench: Bench) -> None:
    bench.ask("Tea or coffee?", "Put the kettle on, then decide.")
    chat_id = bench.controller.current_id
    bench.settle()
    bench.controller.search("kettle de")
    bench.settle()
    assert bench.controller.search_words == ("kettle", "de")
    assert bench.controller.excerpt(chat_id) == "Put the kettle on, then decide."
    bench.controller.search("coffee")
    bench.settle()
    assert bench.controller.excerpt(chat_id) == "Tea or coffee?"
    bench.controller.search("")
    assert bench.controller.excerpt(chat_id) == ""


def test_another_model_changes_no_message(bench: Bench) -> None:
    bench.ask("one", "first answer")
    bench.ask("two", "second answer")
    before = [view.record for view in bench.controller.current_messages]
    chats = bench.controller.conversations
    bench.controller.load_model("other.gguf")
    bench.qtbot.waitUntil(lambda: bench.controller.model_info is not None)
    bench.controller.eject_model()
    bench.qtbot.waitUntil(lambda: bench.controller.model_info is None)
    bench.controller.load_model("model.gguf")
    bench.qtbot.waitUntil(lambda: bench.controller.model_info is not None)
    assert [view.record for view in bench.controller.current_messages] == before
    assert bench.controller.conversations == chats
    bench.settle()
    assert bench.context.store.read_messages(bench.controller.current_id) == before


def test_a_name_turns_nothing_around_and_is_one_line(bench: Bench) -> None:
    bench.ask("hello", "hi")
    controller = bench.controller
    controller.rename_conversation(controller.current_id, " T\u202eit\nle\u2067\x07 1 ")
    assert controller.current_conversation.title == "T it le 1"
    controller.rename_conversation(controller.current_id, "\u202e\n")
    assert controller.current_conversation.title == "T it le 1", "nothing is no title"
    folder = controller.folders.make("\u202eA\nfolder\ud800")
    assert folder.name == "A folder\ufffd"
    assert controller.presets.add("\u202ePre\nset", {}).name == "Pre set"
