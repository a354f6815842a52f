"""``decide``: how likely each of some answers is."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from engine.decision.calibration import fit_temperature
from engine.decision.decision import PLACEHOLDER, Calibration, Decision
from engine.errors import EngineError, InvalidParameterError
from engine.json_text import RepeatedKeyError, parse_json
from engine.protocol import Decide, Decided, Message, RequestFailed, Role
from engine.terminal.arguments import add_engine, config_of, read_file, read_text
from engine.terminal.models import find_model
from engine.terminal.output import Output
from engine.terminal.session import GIVE_CONTEXT, Session, failure_of

TEXT = "{text}"
NOTHING = "N/A"  # what a question without content holds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options beside MODEL and ``--json``."""
    parser.add_argument(
        "prompt", metavar="PROMPT", help=f"the question; {PLACEHOLDER} lists the choices in it, {TEXT} is --text"
    )
    parser.add_argument("--choices", required=True, metavar="A,B", help="the answers, separated by commas")
    parser.add_argument("--text", default="", metavar="TEXT", help='what is decided about; "-" reads stdin')
    parser.add_argument("--system", default="", metavar="TEXT", help="a system prompt")
    parser.add_argument("--shuffle", action="store_true", help="the mean over several orders of the choices")
    parser.add_argument(
        "--content-free", action="store_true", help=f"divide out what the model prefers when {TEXT} is {NOTHING}"
    )
    parser.add_argument(
        "--calibration", type=Path, metavar="FILE", help="a temperature: written with --examples, else applied"
    )
    parser.add_argument(
        "--examples", metavar="FILE", help='JSON lines {"text": ..., "answer": ...} to fit the temperature on'
    )
    add_engine(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Decide once, or for each example."""
    if TEXT not in arguments.prompt and (arguments.examples or arguments.content_free):
        raise InvalidParameterError(f"Say with {TEXT} in the prompt where the text belongs.")
    if arguments.examples:
        return _calibrate(arguments, output)
    calibration = _read_calibration(arguments.calibration) if arguments.calibration else None
    text = read_text(arguments.text)
    with Session(find_model(arguments.model), config_of(arguments), output) as session:
        decision = _decide(session, _command(arguments, "decide", text, calibration))
    output.json(decision)
    for choice in sorted(decision.choices, key=lambda choice: -choice.probability):
        output.text(f"{choice.probability:7.1%}  {choice.text}")
    kind = "calibrated" if decision.is_calibrated else "not calibrated"
    expected = "" if decision.expected_value is None else f", mean {decision.expected_value:.2f}"
    output.note(f"[{decision.coverage:.1%} of the model's own answers are among the choices; {kind}{expected}]")
    return 0


def _command(
    arguments: argparse.Namespace, request_id: str, text: str, calibration: Calibration | None = None
) -> Decide:
    choices = tuple(choice.strip() for choice in arguments.choices.split(",") if choice.strip())
    prompt = arguments.prompt
    if PLACEHOLDER not in prompt:
        prompt += f"\n\nAnswer with exactly one of: {PLACEHOLDER}"

    def messages(content: str) -> tuple[Message, ...]:
        system = (Message(Role.SYSTEM, arguments.system),) if arguments.system else ()
        return (*system, Message(Role.USER, prompt.replace(TEXT, content)))

    return Decide(
        request_id,
        messages(text),
        choices,
        shuffles=arguments.shuffle,
        content_free=messages(NOTHING) if arguments.content_free else (),
        calibration=calibration,
    )


def _decide(session: Session, command: Decide) -> Decision:
    session.submit(command)
    while True:
        event = session.next_event()
        if isinstance(event, Decided) and event.request_id == command.request_id:
            return event.decision
        if isinstance(event, RequestFailed) and event.request_id == command.request_id:
            raise EngineError(failure_of(event, "The prompt with its choices needs", GIVE_CONTEXT))


def _calibrate(arguments: argparse.Namespace, output: Output) -> int:
    """Fit the temperature on the examples, and write it."""
    texts, answers = _read_examples(arguments.examples)
    with Session(find_model(arguments.model), config_of(arguments), output) as session:
        decisions = []
        for number, text in enumerate(texts, 1):
            output.progress(f"Example {number:,} of {len(texts):,}")
            decisions.append(_decide(session, _command(arguments, f"example-{number}", text)))
    output.end_progress()
    calibration = fit_temperature(decisions, answers)
    if arguments.calibration:
        _write_calibration(arguments.calibration, calibration)
    output.json(calibration)
    output.text(
        f"temperature {calibration.temperature:.3f} from {calibration.num_examples} examples: mean negative "
        f"log-likelihood {calibration.nll_before:.3f} before, {calibration.nll_after:.3f} after"
    )
    return 0


def _read_examples(given: str) -> tuple[list[str], list[str]]:
    texts, answers = [], []
    for number, line in enumerate(read_file(given).splitlines(), 1):
        if not line.strip():
            continue
        try:
            example = parse_json(line)
            texts.append(str(example["text"]))
            answers.append(str(example["answer"]))
        except RepeatedKeyError as error:
            raise InvalidParameterError(
                f"Line {number} of {given} has the key “{error.key}” twice; remove one of them."
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            reason = 'is no JSON object with "text" and "answer"'
            raise InvalidParameterError(f"Line {number} of {given} {reason}.") from error
    return texts, answers


def _read_calibration(path: Path) -> Calibration:
    try:
        found = parse_json(read_file(str(path)))
        return Calibration(**{**found, "choices": tuple(found["choices"])})
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidParameterError(f"{path.name} holds no calibration; fit one with --examples.") from error


def _write_calibration(path: Path, calibration: Calibration) -> None:
    try:
        path.write_text(json.dumps(dataclasses.asdict(calibration)) + "\n", encoding="utf-8")
    except OSError as error:
        raise EngineError(f"{path.name} cannot be written: {error.strerror or error}.") from error
