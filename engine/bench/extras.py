"""What the benchmark needs beyond the program, and how it is added."""

from __future__ import annotations

import sys
from typing import Final

from engine.errors import EngineError

PACKAGES: Final = {"xllamacpp": "xllamacpp", "ik_llama_cpp": "ik-llama-cpp-python", "matplotlib": "matplotlib"}


def missing_extra(module: str) -> EngineError:
    """The sentence that ``module`` is not there, with the command that adds it to the Python that runs."""
    python = f'"{sys.executable}"' if " " in sys.executable else sys.executable or "python"
    package = PACKAGES[module]
    return EngineError(f"The package {package} is not installed; this adds it: {python} -m pip install {package}")
