"""Models on this machine, whoever put them there: where to look, what is found, and what can be done with it.

    places   where this program and others keep models
    app_settings  what the person set in the window, for the terminal
    scan     one entry a model, whatever state its file is in
    repairs  what to do about a model that cannot be used
    files    import, verify, delete
    import_names, import_stage  what an imported file is called; all files of a model get their places, or none
    folder_move, move_note  all of the models folder to another place; a move that was killed is ended
    hashes, damage  the checksums of finished downloads, for ``verify``; what it found

Other programs' files are read in place and never changed.
"""

from typing import TYPE_CHECKING, Any

from engine.library.places import Origin, Place, models_folder, other_places

if TYPE_CHECKING:
    from engine.library.repairs import Repair, repair_of
    from engine.library.scan import FileState, FoundModel, Scanner, describe

__all__ = [
    "FileState",
    "FoundModel",
    "Origin",
    "Place",
    "Repair",
    "Scanner",
    "describe",
    "models_folder",
    "other_places",
    "repair_of",
]


def __getattr__(name: str) -> Any:
    """Import what looks into files when it is asked for: the places are known before that."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = "repairs" if name in {"Repair", "repair_of"} else "scan"
    return getattr(import_module(f"{__name__}.{module}"), name)
