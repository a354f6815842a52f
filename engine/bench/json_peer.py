"""``python -m engine.bench.json_peer ARGUMENTS``: the same answers from llama.cpp's server, one at a time.

From its PyPI wheel, in a process of its own; one JSON document on standard output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from engine.bench.json_cases import INVOICE, NOTE, NOTE_INSTRUCTION, QUESTION, notes
from engine.bench.xllamacpp_peer import start_server
from engine.errors import EngineError

CONTEXT_LENGTH = 2048
MAX_TOKENS = 300


def measure(path: Path, num_threads: int, repetitions: int, num_rows: int) -> dict[str, Any]:
    """Seconds of an answer by the schema, and rows a minute of as many requests one after the other."""
    server = start_server(path, num_threads, num_threads, CONTEXT_LENGTH)
    _ask(server, QUESTION, INVOICE)
    answers = [_ask(server, QUESTION, INVOICE) for _ in range(repetitions)]
    prefix = f"{NOTE_INSTRUCTION}\n\nAnswer with JSON of this form: {json.dumps(NOTE)}\n\nText:\n"
    _ask(server, prefix, NOTE)
    started = time.perf_counter()
    for note in notes(num_rows):
        _ask(server, prefix + note, NOTE)
    seconds = time.perf_counter() - started
    return {
        "constrained_s": median(answer[0] for answer in answers),
        "num_tokens": answers[0][1],
        "rows_per_minute": 60 * num_rows / seconds,
    }


def _ask(server: Any, text: str, schema: dict[str, Any]) -> tuple[float, int]:
    """Seconds and tokens of an answer. Raises EngineError where the server refuses."""
    started = time.perf_counter()
    answer = server.handle_chat_completions(
        {
            "messages": [{"role": "user", "content": text}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
            "temperature": 0,
            "top_k": 1,
            "max_tokens": MAX_TOKENS,
            "cache_prompt": True,
        }
    )
    seconds = time.perf_counter() - started
    if "usage" not in answer:
        raise EngineError(f"llama.cpp refused a schema: {str(answer)[:300]}.")
    return seconds, int(answer["usage"]["completion_tokens"])


def main() -> int:
    """Measure what the arguments say; errors as a document, too."""
    arguments = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever the library prints
    with answers:
        try:
            result = measure(Path(arguments.pop("path")), **arguments)
        except EngineError as error:
            result = {"error": str(error)}
        answers.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
