"""Models on this machine, whoever put them there: where to look, what is found, and what can be done with it.

    places   where this program and others keep models
    scan     one entry a model, whatever state its file is in
    files    import, verify, delete, move: everything that writes
    hashes   the checksums of finished downloads, for ``verify``

Other programs' files are read in place and never changed.
"""

from engine.library.places import Origin, Place, models_folder, other_places
from engine.library.scan import FileState, FoundModel, Scanner, describe

__all__ = [
    "FileState",
    "FoundModel",
    "Origin",
    "Place",
    "Scanner",
    "describe",
    "models_folder",
    "other_places",
]
