"""``python -m engine``: the terminal."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from engine.collection import paused_collection
from engine.errors import EngineError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Ctrl+C ends quietly while the program is still being loaded, too,
    and what the environment asks for in vain is one sentence.
    """
    try:
        with paused_collection():
            from engine.terminal.cli import main as run
        gc.freeze()  # what was imported stays
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return 130
    except EngineError as error:  # of the environment: a FIRESIDE_ISA that this processor lacks
        sys.stderr.write(f"{error}\n")
        return 1
    return run(argv)


__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
