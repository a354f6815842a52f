"""Synthetic models: weights of the promised size, in files that both engines read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from engine.bench.synthetic import _SCALES, SHAPES, TYPE_NAMES, cached_model, parse_spec, random_blocks, write_model
from engine.errors import EngineError
from engine.gguf import TensorType, open_model
from engine.kernels.backend import SequenceSlice
from engine.kernels.reference import ReferenceBackend
from engine.loader import tensor_type_name
from engine.model import load_plan
from engine.tokenizer import load_tokenizer


@pytest.mark.parametrize("type", _SCALES, ids=lambda type: type.name)
def test_blocks_have_the_deviation_asked_for(type: TensorType) -> None:
    blocks = random_blocks(type, 4000, 0.02, np.random.default_rng(3))
    assert blocks.shape == (4000, type.block_bytes)
    values = dequantize(blocks, GGMLQuantizationType(int(type)))
    assert values.std() == pytest.approx(0.02, rel=0.05)
    assert abs(values.mean()) < 0.02 * 0.12  # Q4_0 has one more value below zero than above


@pytest.mark.parametrize("type_name", TYPE_NAMES)
def test_models_of_each_type_compute(type_name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(path, SHAPES["tiny"], type_name)
    with open_model(path) as file:
        assert tensor_type_name(file).startswith(type_name.upper())
        hyperparameters, plan = load_plan(file)
        assert hyperparameters.vocab_size == SHAPES["tiny"].vocab_size
        backend = ReferenceBackend(plan, num_blocks=1)
        logits = backend.run([SequenceSlice(np.arange(8, dtype=np.int32), 0, np.zeros(1, np.int32), "last")])
        assert np.isfinite(logits).all()
        assert 0.1 < logits.std() < 10


def test_a_mix_has_two_types(tmp_path: Path) -> None:
    write_model(tmp_path / "model.gguf", SHAPES["tiny"], "q4_k_m")
    with open_model(tmp_path / "model.gguf") as file:
        types = {tensor.type for tensor in file.tensors.values()}
    assert types == {TensorType.F32, TensorType.Q4_K, TensorType.Q6_K}


def test_the_real_shapes_have_their_sizes() -> None:
    shape = SHAPES["1b"]
    per_layer = shape.embedding_dim * (
        2 * shape.num_heads * shape.head_dim + 2 * shape.num_kv_heads * shape.head_dim + 3 * shape.feed_forward_dim
    )
    num_parameters = shape.vocab_size * shape.embedding_dim + shape.num_layers * per_layer
    assert num_parameters == pytest.approx(1.236e9, rel=0.001)  # Llama 3.2 1B


def test_a_file_is_the_same_each_time_and_written_once(tmp_path: Path) -> None:
    first = cached_model("tiny-q4_0", tmp_path / "a")
    second = cached_model("Tiny-Q4_0", tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()
    written = first.stat().st_mtime_ns
    assert cached_model("tiny-q4_0", tmp_path / "a") == first
    assert first.stat().st_mtime_ns == written


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, *rest: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engine.bench.synthetic.write_model", fail)
    with pytest.raises(EngineError, match="No space left"):
        cached_model("tiny-q4_0", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_vocabulary_takes_any_text(tmp_path: Path) -> None:
    with open_model(cached_model("tiny-q8_0", tmp_path)) as file:
        tokenizer = load_tokenizer(file.metadata)
        assert tokenizer.decode(tokenizer.encode("token ünd 漢")) == "token ünd 漢"


@pytest.mark.parametrize("spec", ["", "1b", "2b-q4_0", "1b-q9_0", "qwen3-q4_0"])
def test_an_unknown_spec_gets_a_list(spec: str) -> None:
    with pytest.raises(EngineError, match=r"SHAPE-TYPE with a shape of 1b, .* q4_k_m"):
        parse_spec(spec)


def test_a_shape_may_hold_a_dash() -> None:
    assert parse_spec("qwen3-0.6b-q4_k_m") == (SHAPES["qwen3-0.6b"], "q4_k_m")
