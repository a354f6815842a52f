"""Fixtures every test may use: a patient qtbot; the two real models and the shared data, skipped where absent.

The test command obtains the models and sets ``FIRESIDE_REQUIRE_MODELS``, so there a missing model is a failure.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from tests.patient_qtbot import PatientQtBot

ROOT = Path(__file__).resolve().parent.parent
MODELS = Path(os.environ.get("FIRESIDE_TEST_MODELS", ROOT / ".fireside" / "test-models"))
GOLDENS = ROOT / "tests" / "data" / "goldens"
SHARED_DATA = ROOT.parent / "shared" / "data"

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


@pytest.fixture
def qtbot(qapp: object, request: pytest.FixtureRequest) -> QtBot:
    return PatientQtBot(request)


def _model(name: str) -> Path:
    path = MODELS / name
    if not path.exists():
        if os.environ.get("FIRESIDE_REQUIRE_MODELS"):
            pytest.fail(f"the test model {name} is absent from {MODELS}")
        pytest.skip(f"{name} is absent: run python3 installers/source.py test once")
    return path


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    return _model("SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    return _model("gemma-3-270m-q4_k_m.gguf")


@pytest.fixture(scope="session")
def goldens() -> Path:
    """Folder of the figures made with llama.cpp."""
    return GOLDENS


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Material that may not be committed; tests that need it skip where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the shared test material is not beside this checkout")
    return SHARED_DATA
