"""Which file the person means by MODEL."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.gguf import is_model_file
from engine.library.app_settings import all_places
from engine.library.places import Origin, models_folder

if TYPE_CHECKING:
    from engine.library import FoundModel

MAX_SHOWN_NAME = 200
STARTER_PIN = Path(__file__).resolve().parents[2] / "resources" / "starter_model.json"


class ModelChoiceError(EngineError):
    """No file is meant by what was given."""


def find_model(given: str | None) -> Path:
    """The file for MODEL: a path, a file in the models folder, the name of a model on this machine, or nothing.

    Nothing is the starter model, or the only one in the models folder.

    Raises ModelChoiceError, saying what there is instead.
    """
    folder = models_folder()
    if given is not None:
        in_folder = [path for path in (folder / given, folder / f"{given}.gguf") if not os.path.isdir(path)]
        for path in (_expanded(given), *in_folder):
            if os.path.exists(path):  # unlike Path.exists, no error for a name that is too long or out of reach
                return path
        if (named := _named(given)) is not None:
            return named
        shown = repr(given) if len(given) <= MAX_SHOWN_NAME else f"{given[:MAX_SHOWN_NAME]!r} ..."
        raise ModelChoiceError(
            f"There is no file {shown}, neither here, in the models folder {folder} nor in another program's; "
            "`models list` names those that are there."
        )
    files = sorted(path for path in folder.rglob("*.gguf") if is_model_file(path.name)) if folder.is_dir() else []
    starter = starter_file_name()
    chosen = next((file for file in files if file.name == starter), files[0] if len(files) == 1 else None)
    if chosen is None:
        found = f"; it holds {len(files)} models, so name one" if files else ""
        raise ModelChoiceError(f"The starter model is not in the models folder {folder}{found}: give a GGUF file.")
    return chosen


def _named(given: str) -> Path | None:
    """The model on this machine that ``models list`` calls so, whoever keeps it; its file's own name counts first.

    Raises ModelChoiceError where that is more than one, naming them, or none that can be loaded.
    """
    from engine.library import FileState, Scanner

    wanted = given.casefold()
    models = Scanner().scan(all_places())
    of_files = [model for model in models if wanted in {model.path.name.casefold(), model.path.stem.casefold()}]
    found = of_files or [model for model in models if wanted in {name.casefold() for name in _names(model)}]
    ready = [model for model in found if model.state is FileState.READY]
    if len({(model.path.name, model.size) for model in ready}) > 1:
        raise ModelChoiceError(f"{given} is more than one model; name one of these: {', '.join(_choices(ready))}.")
    if ready:  # copies of one file: that in our own folder before those of other programs
        return min(ready, key=lambda model: model.origin is not Origin.OWN).path
    if found:  # opening it would tell less than the look at it did
        raise ModelChoiceError(found[0].problem or f"{given}: {found[0].state.value}.")
    return None


def _names(model: FoundModel) -> list[str]:
    """What a person may call a model beside its file's name; the last one tells most."""
    names = [model.repository, model.name] if model.repository else [model.name]
    return [*names, *(f"{name} {model.quantization}" for name in names if model.quantization)]


def _choices(models: list[FoundModel]) -> list[str]:
    """A name for each that no other of them has."""
    labels = [_names(model)[-1] for model in models]
    return [
        label if labels.count(label) == 1 else str(model.path) for model, label in zip(models, labels, strict=True)
    ]


def _expanded(path: str) -> Path:
    """``path`` with a home folder for its ``~``, or as it is where there is no such person."""
    return Path(os.path.expanduser(path))


def starter_file_name() -> str | None:
    """File name of the model that the set-up obtains; None outside a full installation."""
    try:
        pin = json.loads(STARTER_PIN.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return str(pin["file_name"])
