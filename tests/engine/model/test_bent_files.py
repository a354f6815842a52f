"""A few hundred bent files of many architectures: each loads and computes, or is refused in one sentence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests import tiny_models, tiny_models_second
from tests.engine.model_fuzz import LIMIT_BYTES, attempt, bent_files, peak_bytes
from tests.golden_models import TOOLS, write_golden_model

OWN = ["llama", "qwen3_q8", "gemma3", "phi3-longrope", "granite_swa", "deci", "openelm", "ministral3", "plamo3"]
# A mixture, latent attention, harmony's, several streams, and hybrids of all three recurrences.
WRITTEN = [
    "llama-moe",
    "deepseek2",
    "gpt-oss",
    "gemma3n",
    "gemma4-moe",
    "grovemoe",
    "qwen35moe",
    "lfm2",
    "falcon-h1",
]


def _bend(sources: list[Path], folder: Path, num_mutations: int, seed: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    before = peak_bytes()
    for told, path, _ in bent_files(sources, folder, num_mutations, seed):
        try:
            outcomes[attempt(path)] += 1
        except Exception as error:
            raise AssertionError(f"{told}: {error!r}") from error
        assert peak_bytes() - before < LIMIT_BYTES, told
    return outcomes


def test_bent_files_load_or_are_refused_in_one_sentence(tmp_path: Path) -> None:
    modules = [tiny_models if name in tiny_models.RECIPES else tiny_models_second for name in OWN]
    sources = [module.write_tiny_model(name, tmp_path) for module, name in zip(modules, OWN, strict=True)]
    outcomes = _bend(sources, tmp_path, 150, seed=1)
    assert min(outcomes["loaded"], outcomes["MetadataError"], outcomes["UnsupportedModelError"]) > 10


@pytest.mark.skipif(
    not TOOLS.is_dir(), reason="the tools that write the golden models are not beside this checkout"
)
def test_so_do_those_of_mixtures_and_hybrids(tmp_path: Path) -> None:
    outcomes = _bend([write_golden_model(name, tmp_path) for name in WRITTEN], tmp_path, 150, seed=2)
    assert min(outcomes["loaded"], outcomes["MetadataError"], outcomes["UnsupportedModelError"]) > 10
