"""``python -m engine``: the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Ctrl+C ends quietly while the program is still being loaded, too."""
    try:
        from engine.terminal.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return 130
    return run(argv)


__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
