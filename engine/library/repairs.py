"""The one thing to do about a model that cannot be used as it is."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from engine.hub.names import Version
from engine.library.places import Origin
from engine.library.scan import FileState, FoundModel


class Repair(str, Enum):
    """What to do; the value is the button's word."""

    FETCH_MISSING = "Get the rest"
    COMPLETE = "Complete it"
    FETCH_AGAIN = "Get it again"
    FIND = "Find it"
    FIND_ANOTHER = "Find another"
    SHOW = "Show it"
    REMOVE = "Remove"

    @property
    def is_download(self) -> bool:
        """Whether files come from the hub's repository that the model is from."""
        return self in {Repair.FETCH_MISSING, Repair.COMPLETE, Repair.FETCH_AGAIN}


def repair_of(model: FoundModel) -> Repair | None:
    """The repair of a model; None for one that needs none, or that nothing helps.

    What is damaged is fetched again, what is only unknown to this version never: another download would be no
    better. Without a known repository the hub is searched for the name.
    """
    match model.state:
        case FileState.READY | FileState.COMPANION:
            return None
        case FileState.UNSUPPORTED:
            return Repair.FIND_ANOTHER
        case FileState.UNREADABLE:
            return Repair.SHOW
        case FileState.GONE if model.origin is Origin.OWN:
            return Repair.REMOVE
    if not model.repository:
        return Repair.FIND
    if model.state is FileState.MISSING:
        return Repair.FETCH_MISSING
    return Repair.COMPLETE if model.state is FileState.PARTIAL else Repair.FETCH_AGAIN


def version_with(model: FoundModel, versions: Iterable[Version]) -> Version | None:
    """The version of a repository that a model's files are of; None where the repository has it no more."""
    for version in versions:
        if any(file.path.rpartition("/")[2] == model.path.name for file in version.files):
            return version
    return None
