"""Tiny random models whose logits the goldens hold, written by the tools that lie beside the goldens' source.

    golden = golden_of("qwen3moe")
    path = write_golden_model("qwen3moe", folder)     # skips where the tools are absent

``tiny_models`` and ``tiny_models_second`` write a part of them without any tool.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import QuantError

from engine.model import Hyperparameters
from engine.model.plan import Activation
from tests.conftest import GOLDENS, ROOT

TOOLS = ROOT.parent / "shared" / "tools"
SETS = {"tiny": "make_tiny_models", "tiny2": "make_tiny_models2", "hybrid": "make_tiny_models2"}
SPECS = {"tiny": "SPECS", "tiny2": "TINY2", "hybrid": "HYBRID"}  # where each set's descriptions are in its tool


@dataclass(frozen=True)
class Golden:
    """Figures of one model.

    Attributes:
        token_ids: the sequence.
        logits: by position; argmax: at all positions.
        context_length: it ran with.
        sha256: of the file.
        quantized_difference: how far llama.cpp with quantised activations is from exact weights.
        half_kv_difference: how far it is with 16-bit keys and values.
        long_token_ids, long_last, long_argmax: a longer sequence, of hybrids alone.
    """

    token_ids: npt.NDArray[np.int32]
    logits: dict[int, npt.NDArray[np.float32]]
    argmax: list[int]
    context_length: int
    sha256: str
    quantized_difference: float
    half_kv_difference: float
    long_token_ids: npt.NDArray[np.int32] | None = None
    long_last: npt.NDArray[np.float32] | None = None
    long_argmax: list[int] | None = None


@cache
def _goldens(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDENS / f"{name}_logits.json").read_text(encoding="utf-8"))
    return content


def golden_names(*sets: str) -> list[str]:
    """Names of all models of some sets."""
    return [name for which in sets for name in _goldens(which)["models"]]


def _set_of(name: str) -> str:
    return next(which for which in SETS if name in _goldens(which)["models"])


def golden_of(name: str) -> Golden:
    """The figures for exact weights, where weights are quantised."""
    content = _goldens(_set_of(name))
    entry = content["models"][name]
    last = entry.get("last_exact", entry["last"])
    middle = entry.get("pos11_exact", None if "last_exact" in entry else entry["pos11"])
    return Golden(
        token_ids=np.array(content["tokens"], np.int32),
        logits={at: np.array(row, np.float32) for at, row in ((23, last), (11, middle)) if row},
        argmax=entry.get("argmax_exact", entry["argmax"]),
        context_length=entry["n_ctx"],
        sha256=entry["sha256"],
        quantized_difference=entry.get("diff_quant_vs_exact", 0.0),
        half_kv_difference=entry.get("diff_f16_kv", 0.0),
        long_token_ids=np.array(content["tokens_long"], np.int32) if "long_last" in entry else None,
        long_last=np.array(entry["long_last"], np.float32) if "long_last" in entry else None,
        long_argmax=entry.get("long_argmax"),
    )


def gelu_tolerance(model: Hyperparameters) -> float:
    """The goldens of GELU carry the rounding of a table with 16-bit floats."""
    return 5e-3 if model.row.activation is Activation.GELU else 1e-4


@cache
def _tool(which: str) -> ModuleType:
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module(SETS[which])
    finally:
        sys.path.remove(str(TOOLS))


def write_golden_model(name: str, folder: Path) -> Path:
    """Write the model byte for byte; skips where the tools are not beside this checkout."""
    if not TOOLS.is_dir():
        pytest.skip("the tools that write the golden models are not beside this checkout")
    which = _set_of(name)
    tool = _tool(which)
    path = folder / f"{name}.gguf"
    tool.write(path, getattr(tool, SPECS[which])[name])
    assert hashlib.sha256(path.read_bytes()).hexdigest() == golden_of(name).sha256
    return path


def write_seeded_model(name: str, seed: int, folder: Path) -> Path:
    """Write a golden's twin with other random weights, which no golden knows: the tools seed by the file's name.

    ``name`` may end in ``_q8`` where the tool has no such model. Skips as ``write_golden_model``; ValueError where
    the format does not suit the model's sizes.
    """
    if not TOOLS.is_dir():
        pytest.skip("the tools that write the golden models are not beside this checkout")
    base = name if name in golden_names(*SETS) else name.removesuffix("_q8")
    which = _set_of(base)
    tool = _tool(which)
    spec = getattr(tool, SPECS[which])[base]
    if base != name:
        spec = {**spec, "wtype": GGMLQuantizationType.Q8_0}
    path = folder / f"{name}-{seed}.gguf"
    try:
        tool.write(path, spec)
    except QuantError as error:
        raise ValueError(str(error)) from error
    return path
