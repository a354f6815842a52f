"""``extract``: one JSON answer for each row of a table or file of a folder."""

from __future__ import annotations

import argparse
import csv
import hashlib
from pathlib import Path

from engine.errors import InputError
from engine.extraction.export import FORMATS, write_results
from engine.extraction.journal import Journal, Task
from engine.extraction.run import PARALLEL_ROWS, ExtractionRun
from engine.extraction.sources import Source, read_source
from engine.protocol import AbortRequest
from engine.terminal.answer_form import add_check_afterwards, schema_of
from engine.terminal.arguments import add_engine, config_of
from engine.terminal.models import find_model
from engine.terminal.output import Output
from engine.terminal.session import Session

JOURNAL_SUFFIX = ".progress"
DEFAULT_INSTRUCTION = "Read the text and give the values that the schema asks for."
_MAX_SHOWN_FAILURES = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options beside MODEL and ``--json``."""
    parser.add_argument("--schema", required=True, metavar="FILE", help="JSON Schema of each answer")
    parser.add_argument(
        "--input", required=True, type=Path, metavar="PATH", help="a .csv, .tsv, .jsonl or .xlsx file, or a folder"
    )
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help=f"results: {', '.join(FORMATS)}")
    parser.add_argument("--instruction", default=DEFAULT_INSTRUCTION, metavar="TEXT", help="what to do with a row")
    parser.add_argument("--columns", default="", metavar="A,B", help="show only these columns to the model")
    parser.add_argument(
        "--together", type=int, default=PARALLEL_ROWS, metavar="N", help="rows in work at once (%(default)s)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an output that is there already")
    add_check_afterwards(parser)
    add_engine(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Work off the rows; what an earlier run has finished is not done again."""
    form = schema_of(arguments)
    _check_output(arguments.output, arguments.overwrite)
    if not 1 <= arguments.together <= 64:
        raise InputError(f"--together {arguments.together}: between 1 and 64 rows can be in work at once.")
    source = read_source(arguments.input)
    columns = _columns(arguments.columns, source)
    with Session(find_model(arguments.model), config_of(arguments), output) as session:
        name = _fingerprint(source, session.info.name)
        path = str(arguments.input.absolute())
        task = Task(name, arguments.instruction, form.text, path, "", columns, form.check_afterwards)
        journal = _open_journal(arguments.output.with_name(arguments.output.name + JOURNAL_SUFFIX), task)
        summary = _work_off(source, journal, session, output, arguments.together)
    write_results(arguments.output, source, journal)
    journal.path.unlink()
    output.json({"output": arguments.output, **summary})
    output.text(
        f"{summary['num_done']:,} of {summary['num_rows']:,} rows are in {arguments.output.name} "
        f"({summary['forced_share']:.0%} of tokens forced by the schema)."
    )
    return 0 if summary["num_failed"] == 0 else 1


def _check_output(path: Path, may_overwrite: bool) -> None:
    """Raise InputError where results cannot be written, before anything is computed."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path.name} should end with one of {', '.join(FORMATS)}.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"There is no folder {path.absolute().parent}; make it first.")
    if path.is_dir():
        raise InputError(f"{path.name} is a folder; name a file.")
    if path.exists() and not may_overwrite:
        raise InputError(f"{path.name} is there already; --overwrite replaces it.")


def _columns(text: str, source: Source) -> tuple[str, ...]:
    """The columns that a person names, with quotation marks around a name that holds a comma; raises InputError."""
    if text in source.columns:
        return (text,)
    named = next(csv.reader([text], skipinitialspace=True), [])
    columns = tuple(name.strip() for name in named if name.strip())
    missing = [name for name in columns if name not in source.columns]
    if missing:
        have = ", ".join(map(repr, source.columns))
        raise InputError(f"{source.name} has no column {', '.join(map(repr, missing))}; it has {have}.")
    return columns


def _fingerprint(source: Source, model: str) -> str:
    """Tells the same rows and model from others, so that results of those are never taken for these."""
    return f"{source.name} {hashlib.sha256(f'{model} {source.fingerprint}'.encode()).hexdigest()[:16]}"


def _open_journal(path: Path, task: Task) -> Journal:
    """The journal of an earlier run of the same work, without its failures, or a new one."""
    if not path.exists():
        return Journal.create(path, task)
    journal = Journal.open(path)
    if journal.task != task:
        raise InputError(
            f"{path.name} holds results of other rows, another schema, instruction or model; remove it, or write "
            "elsewhere."
        )
    for row in [row for row, result in journal.results.items() if result.error]:
        journal.forget(row)
    return journal


def _work_off(
    source: Source, journal: Journal, session: Session, output: Output, together: int
) -> dict[str, float | int]:
    """Do the rows that the journal does not hold yet; returns a summary."""
    num_reused = len(journal.results)
    if num_reused:
        output.note(f"{num_reused:,} rows are done already; {len(source.rows) - num_reused:,} are left.")
    work = ExtractionRun(source, journal, together)
    try:
        while True:
            for request in work.next_requests():
                session.submit(request)
            if work.is_finished:
                break
            if work.on_event(session.next_event()) is not None:
                _show(work, output)
    except KeyboardInterrupt:
        for request_id in work.running_ids:
            session.submit(AbortRequest(request_id))
        output.note("Stopped; the same command goes on from here.")
        raise
    finally:
        output.end_progress()
    failed = [(row, result.error) for row, result in sorted(journal.results.items()) if result.error]
    for row, error in failed[:_MAX_SHOWN_FAILURES]:
        output.note(f"Row {source.rows[row].label}: {error}")
    progress = work.progress
    return {
        "num_rows": len(source.rows),
        "num_done": progress.num_done,
        "num_failed": progress.num_failed,
        "num_reused": num_reused,
        "forced_share": progress.forced_share,
    }


def _show(work: ExtractionRun, output: Output) -> None:
    progress = work.progress
    speed = ""
    if progress.rows_per_minute:
        speed = f", {progress.rows_per_minute:,.0f} rows a minute, {progress.seconds_left:,.0f} s left"
    output.progress(f"{progress.num_done + progress.num_failed:,} of {progress.num_rows:,} rows{speed}")
