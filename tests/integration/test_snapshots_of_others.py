"""One folder of snapshots for several models and settings: none takes what another has written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from engine import EngineConfig
from engine.cache import snapshot_store
from engine.protocol import GenerateRequest, LoadModel, ModelLoaded, RequestFinished, RequestStats
from engine.sampling.params import SamplingParams
from tests.engine.bent_models import take_apart
from tests.integration.engine_events import engine_thread
from tests.tiny_models import write_tiny_model

TALE = "There was a castle by the sea and nobody had ever seen its owner. "
PROMPTS = (TALE, TALE[:40] + "beach, and a boat.", TALE + "Who was it?")


@dataclass(frozen=True)
class Setting:
    """A model and how it is loaded.

    Attributes:
        recipe: of the tiny model.
        changed: values of its header, by the end of the key.
        options: of the engine.
    """

    recipe: str = "llama"
    changed: dict[str, object] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        folder.mkdir()
        path = write_tiny_model(self.recipe, folder)
        if self.changed:
            bent = take_apart(path)
            ends = {str(key).rpartition(".")[2]: key for key, _ in bent.metadata}
            values = {ends[end]: value for end, value in self.changed.items()}
            bent.metadata = [(key, values.get(key, value)) for key, value in bent.metadata]
            bent.write(path)
        return path

    def ask(self, path: Path, snapshots: Path | None) -> list[tuple[str, RequestStats]]:
        """Its answers to all prompts."""
        config = EngineConfig(context_length=256, num_threads=1, kv_bytes=4 << 20, snapshot_folder=snapshots)
        with engine_thread(replace(config, **self.options)) as log:
            log.submit(LoadModel(path))
            log.wait(ModelLoaded)
            answers = []
            for number, prompt in enumerate(PROMPTS):
                name, sampling = f"r{number}", SamplingParams(temperature=0)
                log.submit(
                    GenerateRequest(name, prompt=prompt, sampling=sampling, max_tokens=16, conversation_id="chat")
                )
                end = log.wait_end(name)
                assert isinstance(end, RequestFinished), end
                answers.append((log.text(name), end.stats))
            return answers


BASE = Setting()
YARN = Setting("qwen2-yarn")
OTHERS = {
    "another model": (BASE, Setting("llama-untied-bias")),
    "another quantisation": (BASE, Setting("llama_q8")),
    "another KV type": (BASE, Setting(options={"kv_type": "q8_0"})),
    "another base of the rotary angles": (
        Setting("llama-untied-bias"),
        Setting("llama-untied-bias", {"freq_base": 1234.0}),
    ),
    "another scale of the rotary angles": (
        Setting("llama-linear-rope"),
        Setting("llama-linear-rope", {"factor": 2.0}),
    ),
    "angles scaled from another length": (YARN, Setting("qwen2-yarn", {"original_context_length": 32})),
    "a context for which other angles hold": (
        Setting("phi3-longrope", {"original_context_length": 150}, {"context_length": 128}),
        Setting("phi3-longrope", {"original_context_length": 150}, {"context_length": 192}),
    ),
    "another window": (Setting("gemma3"), Setting("gemma3", {"sliding_window": 4})),
    "another backend": (BASE, Setting(options={"backend": "reference"})),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_read_again_and_answer_as_if_the_folder_were_empty(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 0)
    one, other = OTHERS[name]
    paths = [setting.write(tmp_path / str(index)) for index, setting in enumerate((one, other))]
    written = one.ask(paths[0], tmp_path / "shared")
    cold = other.ask(paths[1], None)
    seen = other.ask(paths[1], tmp_path / "shared")
    assert [text for text, _ in seen] == [text for text, _ in cold]
    assert all(stats.num_snapshot_tokens == 0 for _, stats in seen)
    again = one.ask(paths[0], tmp_path / "shared")
    assert [text for text, _ in again] == [text for text, _ in written]
    assert all(stats.num_read_tokens == 0 for _, stats in again), "its own are still there"


def test_a_longer_context_with_the_same_angles_takes_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 0)
    path = BASE.write(tmp_path / "model")
    written = BASE.ask(path, tmp_path / "shared")
    longer = Setting(options={"context_length": 192}).ask(path, tmp_path / "shared")
    assert [text for text, _ in longer] == [text for text, _ in written]
    assert all(stats.num_read_tokens == 0 for _, stats in longer)
