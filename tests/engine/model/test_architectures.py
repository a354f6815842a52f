"""Each row of data against llama.cpp's logits of a tiny random model of that architecture."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import UnsupportedModelError
from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.kernels.reference import ReferenceBackend
from engine.model import load_plan
from engine.model.architectures import ARCHITECTURES
from engine.model.plan import Activation
from tests import tiny_models, tiny_models_second

REFUSED = {"ministral3": "grows with the position"}


def _golden(goldens: Path, name: str) -> tuple[list[int], dict[str, Any]]:
    for file in ("tiny_logits.json", "tiny2_logits.json"):
        content = json.loads((goldens / file).read_text(encoding="utf-8"))
        if name in content["models"]:
            return content["tokens"], content["models"][name]
    raise KeyError(name)


def _write(name: str, folder: Path) -> Path:
    module = tiny_models if name in tiny_models.RECIPES else tiny_models_second
    return module.write_tiny_model(name, folder)


@pytest.mark.parametrize(
    "name", sorted({*tiny_models.RECIPES, *tiny_models_second.RECIPES} - set(REFUSED)), ids=str
)
def test_logits_are_llama_cpps(name: str, tmp_path: Path, goldens: Path) -> None:
    tokens, golden = _golden(goldens, name)
    path = _write(name, tmp_path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == golden["sha256"]
    with open_model(path) as file:
        hyperparameters, plan = load_plan(file, golden["n_ctx"])
        backend = ReferenceBackend(plan, num_blocks=2, max_batch_tokens=24)
        logits = backend.run(
            [SequenceSlice(np.array(tokens, np.int32), 0, np.array([1, 0], np.int32), logits="all")]
        )
        backend.close()
        del plan, backend
    # The goldens of GELU carry the rounding of a table with 16-bit floats.
    is_gelu = ARCHITECTURES[hyperparameters.architecture].activation is Activation.GELU
    tolerance = 5e-3 if is_gelu else 1e-4
    np.testing.assert_allclose(logits[23], golden.get("last_exact", golden["last"]), atol=tolerance)
    if "pos11_exact" in golden or "last_exact" not in golden:
        np.testing.assert_allclose(logits[11], golden.get("pos11_exact", golden["pos11"]), atol=tolerance)
    assert logits.argmax(axis=-1).tolist() == golden.get("argmax_exact", golden["argmax"])


def test_every_row_has_a_golden() -> None:
    recipes = [*tiny_models.RECIPES.values(), *tiny_models_second.RECIPES.values()]
    assert {recipe.architecture for recipe in recipes} == set(ARCHITECTURES)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_mechanism_without_an_op_is_refused_by_name(name: str, tmp_path: Path) -> None:
    with open_model(_write(name, tmp_path)) as file, pytest.raises(UnsupportedModelError, match=REFUSED[name]):
        load_plan(file)
