"""``models advise``: what a model needs and how fast it is here."""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import EngineError, HubUnreachableError
from engine.library.app_settings import all_places, measured_file, read_app_settings
from engine.library.places import models_folder
from engine.terminal.hub_models import (
    Advices,
    advise_versions,
    advised_context,
    hub_client,
    measure_once,
    named_at_hub,
)
from engine.terminal.models import find_model
from engine.terminal.output import Output

if TYPE_CHECKING:
    from engine.advisor import Advice
    from engine.config import KVType


def advise_on(arguments: argparse.Namespace, output: Output) -> int:
    """Print what a model on disk, or the versions of one at the hub, would need here."""
    from engine.advisor import recommend
    from engine.advisor.advice import CONTEXT_LENGTH
    from engine.hub.names import is_repository

    if arguments.context < 0:
        raise EngineError(
            f"--context {arguments.context}: a context has at least one token; 0 is {CONTEXT_LENGTH}."
        )
    name, version = named_at_hub(arguments, arguments.model)
    measure_once(output)
    context_length = advised_context(arguments.context)
    kv_type = arguments.kv_type or read_app_settings().kv_type
    if not is_repository(name) or os.path.exists(name):
        advice = _advise_file(find_model(name), context_length, kv_type)
        _note_cut(arguments, advice, output)
        output.json(_plain(advice))
        output.text(advice.sentence)
        return 0
    try:
        with hub_client(arguments) as client:
            repository = client.repository(name)
            advices = advise_versions(client, repository, context_length, kv_type, version)
    except HubUnreachableError as error:
        advices = _advise_kept(name, context_length, kv_type)
        if not advices:
            raise
        output.note(f"{error} This is what is on this machine of it:")
    _note_cut(arguments, next(iter(advices.values()))[1], output)
    best = recommend(advices)
    output.json(
        {"recommended": best, "versions": {label: _plain(advice) for label, (_, advice) in advices.items()}}
    )
    for label, (_, advice) in advices.items():
        output.text(f"{'*' if label == best else ' '} {label:16} {advice.sentence}")
    return 0


def _note_cut(arguments: argparse.Namespace, advice: Advice, output: Output) -> None:
    """Say that nobody can have the context that was asked for."""
    if arguments.context > (trained := advice.need.context_length):
        output.note(
            f"--context {arguments.context}: the model was made for {trained:,} tokens; this is about so many."
        )


def _plain(advice: Advice) -> dict[str, object]:
    return {**dataclasses.asdict(advice), "total_need": advice.need.total, "sentence": advice.sentence}


def _advise_file(path: Path, context_length: int, kv_type: KVType) -> Advice:
    from engine.advisor import MeasuredFigures, advise, look_at_machine, shape_of
    from engine.gguf import open_model

    figures = MeasuredFigures(measured_file())
    with open_model(path) as file:
        shape = shape_of(file)
    machine = look_at_machine(models_folder(), figures)
    return advise(shape, machine, context_length, kv_type, figures.of(path))


def _advise_kept(repository: str, context_length: int, kv_type: KVType) -> Advices:
    """Advice on the versions of a repository that are on this machine."""
    from engine.library import FileState, Scanner

    found = [model for model in Scanner().scan(all_places()) if model.repository == repository]
    return {
        model.quantization or model.name: (
            model.quantization or None,
            _advise_file(model.path, context_length, kv_type),
        )
        for model in found
        if model.state is FileState.READY
    }
