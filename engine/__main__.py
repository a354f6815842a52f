"""``python -m engine``: the terminal."""

from __future__ import annotations

import sys

from engine.terminal.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
