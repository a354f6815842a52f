"""Bytes a token reads, against sums over the file."""

from __future__ import annotations

from pathlib import Path

from engine.bench.traffic import kv_bytes_per_token, peer_kv_bytes, weight_bytes_per_token
from engine.gguf import open_model
from engine.model import load_plan
from tests.tiny_models import write_tiny_model


def test_a_token_reads_every_weight_but_the_embedding(tmp_path: Path) -> None:
    with open_model(write_tiny_model("llama-untied-bias", tmp_path)) as file:
        plan = load_plan(file)[1]
        wanted = sum(
            tensor.num_bytes
            for name, tensor in file.tensors.items()
            if name != "token_embd.weight" and not name.endswith(".bias")
        )
        assert weight_bytes_per_token(plan) == wanted


def test_a_tied_embedding_is_read_as_the_output(tmp_path: Path) -> None:
    with open_model(write_tiny_model("llama", tmp_path)) as file:
        plan = load_plan(file)[1]
        rope = file.tensors["rope_freqs.weight"].num_bytes
        assert weight_bytes_per_token(plan) == sum(tensor.num_bytes for tensor in file.tensors.values()) - rope


def test_a_window_bounds_what_is_read_and_kept(tmp_path: Path) -> None:
    with open_model(write_tiny_model("gemma3", tmp_path)) as file:
        plan = load_plan(file)[1]
        widths = [
            (layer.num_kv_heads * (layer.key_dim + layer.value_dim) * 2, layer.window) for layer in plan.kv_layers
        ]
        assert {window for _, window in widths} == {8, None}
        assert kv_bytes_per_token(plan, 0) == 0
        assert kv_bytes_per_token(plan, 5) == sum(width * 5 for width, _ in widths)
        values = sum(width * 5 for width, _ in widths) / 2
        assert kv_bytes_per_token(plan, 5, "q8_0") == values * (32 + 2) / 32
        assert kv_bytes_per_token(plan, 100) == sum(width * (window or 100) for width, window in widths)
        assert peer_kv_bytes(plan, 100, 32) == sum(
            width * (window + 32 if window else 100) for width, window in widths
        )
        assert peer_kv_bytes(plan, 20, 32) == sum(width * 20 for width, _ in widths)
