"""Estimates against what models really take, and the words made of them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.advisor import (
    Fit,
    Machine,
    ModelShape,
    Speeds,
    advise,
    memory_need,
    most_parameters,
    recommend,
    shape_of,
    supported_architectures,
)
from engine.advisor.advice import (
    KV_RATE,
    READ_OVERHEAD,
    best_settings,
    main_type,
    read_seconds,
    tokens_per_second,
    versions_advice,
)
from engine.advisor.kernel_speeds import MEASURED_TYPES
from engine.advisor.machine import releasable_bytes
from engine.bench.synthetic import SHAPES, write_model
from engine.errors import UnsupportedModelError
from engine.gguf import HeaderFile, open_model
from engine.gguf.header import read_header
from engine.gguf.tensor_types import TensorType
from engine.hub.remote_header import _mapped
from engine.loader import active_weight_bytes
from engine.model import load_plan
from tests.golden_models import golden_names, write_golden_model

ROOT = Path(__file__).resolve().parents[3]
GB = 10**9


def _speeds(rate: float = 30e9, multiply: float = 300e9) -> Speeds:
    return Speeds({TensorType.Q4_K: rate}, {TensorType.Q4_K: multiply})


def _machine(total: int = 16 * GB, available: int = 12 * GB) -> Machine:
    return Machine(total, available, 100 * GB, 4, _speeds())


def _shape(path: Path) -> ModelShape:
    with open_model(path) as file:
        return shape_of(file)


def _measured(path: Path, context_length: int, kv_type: str) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.engine.advisor.measure", str(context_length), str(path)]
    done = subprocess.run(
        [*command, "--memory", "--kv-type", kv_type], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    figures: dict[str, int] = json.loads(done.stdout)
    return figures


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="calibrated by Linux's resident size")
@pytest.mark.parametrize(
    ("name", "kv_type"), [("smollm2", "f16"), ("smollm2", "q8_0"), ("gemma3", "f16"), ("tiny", "f16")]
)
def test_the_estimate_is_within_a_tenth_of_what_is_taken(
    name: str, kv_type: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Of larger shapes the command in ``measure`` tells the same."""
    if name == "tiny":
        path = tmp_path / "tiny.gguf"
        write_model(path, SHAPES["tiny"], "q4_k")
    else:
        path = request.getfixturevalue(f"{name}_path")
    _measured(path, 1024, kv_type)  # where kernels are compiled first, the compiler's memory counts too
    figures = _measured(path, 1024, kv_type)
    assert figures["estimate"] == pytest.approx(figures["actual"], rel=0.1)


def test_a_header_alone_gives_the_same_shape(gemma3_path: Path) -> None:
    data = gemma3_path.read_bytes()
    head = _mapped(data[: 16 << 20])
    header = HeaderFile((gemma3_path,), [len(data)], [read_header(gemma3_path, head, file_bytes=len(data))])
    assert shape_of(header) == _shape(gemma3_path)


def test_windows_and_grouped_heads_are_counted(gemma3_path: Path, smollm2_path: Path) -> None:
    gemma = _shape(gemma3_path)
    assert gemma.kv_token_bytes == {512: 15 * 2 * 256 * 2, None: 3 * 2 * 256 * 2}  # one KV head of 256
    assert gemma.kv_block_bytes == {"f16": 18 * 2 * 256 * 2 * 16, "q8_0": 18 * 2 * (256 + 16) * 16}
    smollm = _shape(smollm2_path)
    assert smollm.kv_token_bytes == {None: 30 * 3 * 128 * 2}
    assert smollm.attention_values == {None: 30 * 9 * 128}
    assert sum(smollm.matrix_values.values()) == 134_479_872  # tied: the embedding is the output, too
    assert memory_need(smollm, 10**6).context_length == 8192


def test_memory_decides_what_fits(smollm2_path: Path) -> None:
    shape = dataclasses.replace(_shape(smollm2_path), weights_bytes=8 * GB)
    assert advise(shape, _machine()).fit is Fit.FITS
    assert advise(shape, _machine(available=4 * GB)).fit is Fit.TIGHT
    assert advise(shape, _machine(total=8 * GB)).fit is Fit.TOO_LARGE
    assert "Too large" in advise(shape, _machine(total=8 * GB)).sentence
    fits = advise(shape, _machine(), 4096).sentence
    assert fits.startswith("Fits. About ")
    assert "with 4k context 8." in fits


def test_speed_follows_bytes_and_multiplications(smollm2_path: Path) -> None:
    shape = dataclasses.replace(_shape(smollm2_path), num_ops=0, kv_token_bytes={}, attention_values={})
    num_bytes, values = sum(shape.matrix_bytes.values()), sum(shape.matrix_values.values())
    assert tokens_per_second(shape, _speeds(), 0) == pytest.approx(30e9 / num_bytes)
    assert sum(shape.prompt_values.values()) == values - 49152 * 576  # logits are wanted of the last token alone
    assert read_seconds(shape, _speeds(), 100) == pytest.approx(
        100 * sum(shape.prompt_values.values()) / 300e9 * READ_OVERHEAD
    )
    deep = dataclasses.replace(shape, kv_token_bytes={None: 1000, 512: 1000})
    expected = num_bytes / 30e9 + (4096 + 512) * 1000 / (30e9 * KV_RATE)
    assert 1 / tokens_per_second(deep, _speeds(), 4096) == pytest.approx(expected)


def test_the_best_version_is_good_and_quick(smollm2_path: Path) -> None:
    shape = dataclasses.replace(_shape(smollm2_path), weights_bytes=4 * GB, matrix_bytes={TensorType.Q8_0: 4 * GB})
    rows = [("Q2_K", "Q2_K", GB), ("Q4_K_M", "Q4_K_M", 2 * GB), ("Q8_0", "Q8_0", 4 * GB), ("F16", "F16", 8 * GB)]
    assert recommend(versions_advice(shape, _machine(), rows, 8192)) == "Q8_0"
    slow = dataclasses.replace(_machine(), speeds=_speeds(rate=14e9))
    assert recommend(versions_advice(shape, slow, rows, 8192)) == "Q4_K_M"
    assert recommend(versions_advice(shape, _machine(total=4 * GB, available=2 * GB), rows, 8192)) == "Q2_K"
    assert recommend(versions_advice(shape, _machine(total=GB, available=GB), rows, 8192)) is None


@pytest.mark.parametrize(
    ("available_gb", "expected"), [(12, (32768, "f16")), (7, (16384, "f16")), (5, (8192, "q8_0")), (3, (0, "f16"))]
)
def test_context_and_kv_type_follow_the_memory(
    smollm2_path: Path, available_gb: int, expected: tuple[int, str]
) -> None:
    """Of a model with 4 GB of weights and 1 GB of KV cache for 8k tokens."""
    block = (1 << 30) // 512
    shape = dataclasses.replace(
        _shape(smollm2_path), weights_bytes=4 * GB, trained_context_length=65536, position_bytes=0.0,
        kv_block_bytes={"f16": block, "q8_0": block * 17 // 32},
    )  # fmt: skip
    machine = _machine(available=available_gb * GB)
    assert best_settings(shape, machine) == expected
    assert advise(shape, machine).best_context == expected[0]
    compact = advise(shape, machine, kv_type="q8_0")
    assert compact.need.kv == pytest.approx(advise(shape, machine).need.kv * 17 / 32)
    assert compact.tokens_per_second == advise(shape, machine).tokens_per_second
    assert compact.deep_tokens_per_second > advise(shape, machine).deep_tokens_per_second


@pytest.mark.parametrize(
    ("total_gb", "available_gb", "least", "most"),
    [(16, 12, 15e9, 20e9), (8, 5, 5e9, 7e9), (64, 60, 70e9, 78e9), (2, 1, 3e8, 5e8), (1, 0, 1, 1)],
)
def test_the_largest_model_to_search_for(total_gb: int, available_gb: int, least: float, most: float) -> None:
    """Published sizes of Q4_K_M: 4.9 GB for 8 B, 9.0 GB for 14.8 B, 20 GB for 32.8 B, 42.5 GB for 70.6 B."""
    assert least <= most_parameters(_machine(total_gb * GB, available_gb * GB)) <= most


def test_the_loaded_model_leaves_room_for_another() -> None:
    """With 5 GB of weights mapped and 2 GB of KV cache, two come back; without a model nothing does."""
    assert releasable_bytes(7_300_000_000, 5_050_000_000) == 2 * GB
    assert releasable_bytes(120_000_000, 30_000_000) == 0


def test_supported_architectures_have_their_names() -> None:
    assert {"llama", "gemma3", "qwen3"} <= supported_architectures()
    assert "clip" not in supported_architectures()


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [("Q4_K_M", "Q4_K"), ("UD-Q4_K_XL", "Q4_K"), ("FP16", "F16"), ("MXFP4_MOE", "MXFP4"), ("IQ2_M", "IQ2_S"),
     ("Q8_0", "Q8_0"), (None, "Q4_K"), ("BF16", "BF16"), ("IQ3_M", "IQ3_S")],
)  # fmt: skip
def test_the_type_of_a_quantization(quantization: str | None, expected: str) -> None:
    assert main_type(quantization).name == expected


@pytest.mark.parametrize(
    ("type", "expected"),
    [("Q4_1", "Q4_0"), ("Q5_0", "Q4_0"), ("IQ4_NL", "Q4_0"), ("Q3_K", "Q4_K"), ("Q5_K", "Q4_K"), ("IQ4_XS", "Q4_K"),
     ("BF16", "F16"), ("F32", "F16"), ("Q8_0", "Q8_0"), ("Q6_K", "Q6_K")],
)  # fmt: skip
def test_a_type_that_was_not_measured_is_like_its_kin(type: str, expected: str) -> None:
    measured = {each: float(each) for each in MEASURED_TYPES}
    assert Speeds(measured, measured).read_rate(TensorType[type]) == float(TensorType[expected])


def test_nothing_is_nan_at_the_edges(smollm2_path: Path) -> None:
    shape = _shape(smollm2_path)
    advice = advise(shape, _machine(), 1)
    assert np.isfinite([advice.tokens_per_second, advice.read_seconds]).all()


@pytest.mark.parametrize("name", golden_names("tiny", "tiny2", "hybrid"))
def test_every_architecture_that_runs_has_advice_from_its_header_too(name: str, tmp_path: Path) -> None:
    path = write_golden_model(name, tmp_path)
    with open_model(path) as file:
        try:
            load_plan(file)
        except UnsupportedModelError:
            with pytest.raises(UnsupportedModelError):
                shape_of(file)
            return
        shape = shape_of(file)
        tensors = file.tensors.values()
        matrices = sum(tensor.num_bytes for tensor in tensors if len(tensor.shape) > 1)
        header_bytes = min(tensor.offset for tensor in tensors)
    size = path.stat().st_size
    header = read_header(path, _mapped(path.read_bytes()[:header_bytes]), file_bytes=size)
    # Factors whose values the header does not have may cost an op each.
    remote = shape_of(HeaderFile((path,), [size], [header]))
    assert dataclasses.replace(remote, num_ops=0) == dataclasses.replace(shape, num_ops=0)
    advice = advise(shape, _machine())
    assert advice.fit is Fit.FITS
    assert np.isfinite([advice.tokens_per_second, advice.read_seconds]).all()
    if name != "nanbeige":  # whose layers run twice
        assert 0 < sum(shape.matrix_bytes.values()) <= matrices


def test_of_experts_those_that_are_used_count(tmp_path: Path) -> None:
    with open_model(write_golden_model("qwen3moe", tmp_path)) as file:
        shape = shape_of(file)
        sizes = {name: tensor.num_bytes for name, tensor in file.tensors.items()}
        active = active_weight_bytes(file)
    experts = sum(size for name, size in sizes.items() if "_exps" in name)
    vectors = sum(size for name, size in sizes.items() if "norm" in name)
    assert active == sum(sizes.values()) - experts // 2, "two of four"
    assert sum(shape.matrix_bytes.values()) == active - vectors - sizes["token_embd.weight"]


def test_recurrent_states_count(tmp_path: Path) -> None:
    with open_model(write_golden_model("mamba2", tmp_path)) as file:
        shape = shape_of(file)
    assert shape.state_bytes == 4 * 2 * (128 * 16 + 3 * (128 + 2 * 2 * 16)), "two layers: a state and three taps"
    assert memory_need(shape, 100).kv == 3 * shape.state_bytes, "one that runs, two to come back to"
