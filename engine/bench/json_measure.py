"""Measurements of structured answers: masks, the first grammar, answers against free text, rows of a table."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from engine.bench.json_cases import DRAWN, INVOICE, NOTE, NOTE_INSTRUCTION, QUESTION, notes
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.extraction.journal import Journal, Task
from engine.extraction.run import ExtractionRun
from engine.extraction.sources import source_of_lines
from engine.grammar.compiler import compile_format, violations
from engine.grammar.constraint import GrammarConstraint
from engine.grammar.library import TokenTable
from engine.grammar.model_grammars import ModelGrammars, token_table
from engine.protocol import (
    FormatKind,
    GenerateRequest,
    Message,
    RequestFailed,
    RequestFinished,
    ResponseFormat,
    Role,
    SamplingParams,
)
from engine.terminal.output import Output
from engine.terminal.session import Session, failure_of
from engine.tokenizer import Tokenizer

CONTEXT_LENGTH = 2048
MAX_ANSWER_TOKENS = 300
_DRAWN_TOKENS = 400
_DRAWS = 5


def measure_grammar(tokenizer: Tokenizer) -> dict[str, Any]:
    """Seconds to the first grammar, how long other threads stood still meanwhile, and masks in microseconds."""
    gaps, is_done = [0.0], threading.Event()
    watcher = threading.Thread(target=_watch, args=(gaps, is_done))
    watcher.start()
    started = time.perf_counter()
    grammars = ModelGrammars(tokenizer)
    grammars.constraint(compile_format(_form(INVOICE)), None, None)
    first_s = time.perf_counter() - started
    table = token_table(tokenizer)
    is_done.set()
    watcher.join()
    mask_s, num_finished, num_valid = _draw(tokenizer, table)
    return {
        "vocab_size": tokenizer.vocab_size,
        "first_grammar_s": first_s,
        "longest_stall_ms": 1e3 * max(gaps),
        "mask_median_us": 1e6 * median(mask_s),
        "mask_p95_us": 1e6 * float(np.percentile(mask_s, 95)),
        "num_drawn": _DRAWS * len(DRAWN),
        "num_finished": num_finished,
        "num_valid": num_valid,
    }


def _watch(gaps: list[float], is_done: threading.Event) -> None:
    last = time.perf_counter()
    while not is_done.is_set():
        time.sleep(0.001)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now


def _draw(tokenizer: Tokenizer, table: TokenTable) -> tuple[list[float], int, int]:
    """Answers drawn from random logits: seconds of each mask, how many ended, how many of those are valid."""
    random = np.random.default_rng(1)
    seconds: list[float] = []
    num_finished = num_valid = 0
    for schema in DRAWN * _DRAWS:
        grammar = compile_format(_form(schema))
        matcher = table.matcher(grammar.kind, grammar.text)
        constraint = GrammarConstraint(matcher, table.vocab_size, tokenizer.end_token_ids)
        tokens: list[int] = []
        while len(tokens) < _DRAWN_TOKENS and not constraint.is_complete:
            forced = constraint.forced_tokens()
            if not forced:
                started = time.perf_counter()
                mask = matcher.mask()
                seconds.append(time.perf_counter() - started)
                allowed = np.flatnonzero(
                    np.unpackbits(mask.view(np.uint8), bitorder="little", count=table.vocab_size)
                )
                forced = [int(random.choice(allowed))]
            if forced[0] in tokenizer.end_token_ids:
                break
            for token_id in forced:
                constraint.advance(token_id)
            tokens += forced
        if constraint.is_accepting and len(tokens) < _DRAWN_TOKENS:
            num_finished += 1
            text = b"".join(map(tokenizer.token_bytes, tokens))
            num_valid += not violations(schema, json.loads(text))
    return seconds, num_finished, num_valid


def measure_answers(path: Path, config: EngineConfig, output: Output, repetitions: int) -> dict[str, Any]:
    """Seconds of an answer by the schema, and of as many tokens of free text; the prompt is in the cache."""
    with Session(path, config, output) as session:
        _answer(session, "warm", 1, None)
        constrained, free = [], []
        finished = _answer(session, "first", MAX_ANSWER_TOKENS, _form(INVOICE))[1]
        num_tokens = finished.stats.num_completion_tokens
        for number in range(repetitions):
            constrained.append(_answer(session, f"form-{number}", MAX_ANSWER_TOKENS, _form(INVOICE))[0])
            seconds, stats = _free(session, f"free-{number}", num_tokens)
            free.append(seconds * num_tokens / stats.stats.num_completion_tokens)
    assert finished.structured is not None, "a form was asked for"
    return {
        "num_tokens": num_tokens,
        "num_forced_tokens": finished.structured.num_forced_tokens,
        "is_valid": finished.structured.is_valid,
        "constrained_s": median(constrained),
        "free_s": median(free),
        "ratio_to_free": median(constrained) / median(free),
    }


def measure_rows(
    path: Path, config: EngineConfig, output: Output, num_rows: int, folder: Path, on_row: Callable[[int], None]
) -> dict[str, Any]:
    """Rows a minute of an extraction, certainty included, as the product does it."""
    source = source_of_lines("\n".join(notes(num_rows)))
    task = Task("bench", NOTE_INSTRUCTION, json.dumps(NOTE), "")
    with Session(path, config, output) as session:
        _answer(session, "warm", 1, None)
        started = time.perf_counter()
        work = ExtractionRun(source, Journal.create(folder / "rows", task))
        num_done = 0
        while not work.is_finished:
            for request in work.next_requests():
                session.submit(request)
            if work.on_event(session.next_event()) is not None:
                num_done += 1
                on_row(num_done)
        seconds = time.perf_counter() - started
    progress = work.progress
    return {
        "num_rows": num_rows,
        "num_failed": progress.num_failed,
        "forced_share": progress.forced_share,
        "rows_per_minute": 60 * num_rows / seconds,
    }


def _form(schema: Any) -> ResponseFormat:
    return ResponseFormat(FormatKind.JSON_SCHEMA, json.dumps(schema))


def _answer(
    session: Session, request_id: str, max_tokens: int, form: ResponseFormat | None
) -> tuple[float, RequestFinished]:
    request = GenerateRequest(
        request_id,
        messages=(Message(Role.USER, QUESTION),),
        sampling=SamplingParams(temperature=0),
        max_tokens=max_tokens,
        response_format=form,
    )
    return _run(session, request)


def _free(session: Session, request_id: str, num_tokens: int) -> tuple[float, RequestFinished]:
    """Free text that does not end early: a list that goes on."""
    prompt = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,"
    sampling = SamplingParams(temperature=0)
    return _run(session, GenerateRequest(request_id, prompt=prompt, sampling=sampling, max_tokens=num_tokens))


def _run(session: Session, request: GenerateRequest) -> tuple[float, RequestFinished]:
    started = time.perf_counter()
    for event in session.generate(request):
        if isinstance(event, RequestFailed):
            raise EngineError(failure_of(event, "The benchmark needs", "choose a model that holds more"))
        if isinstance(event, RequestFinished):
            return time.perf_counter() - started, event
    raise AssertionError("a request ends with an event")
