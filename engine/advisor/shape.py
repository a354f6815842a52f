"""What a header says of a model's size: weights by type, KV cache by token, work memory.

Counts the plan that the engine would run, so what the architecture does (grouped heads, windows, tied output) is
in it. Works on headers without weights.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from engine.cache.kv_cache import num_blocks_for
from engine.cache.memory_plan import MIN_CHECKPOINTS
from engine.config import KVType
from engine.gguf import GGUFFile
from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.kv_layout import kv_bytes_per_block
from engine.kernels.cpu.memory import CHUNK_POSITIONS, FINE_POSITIONS
from engine.kernels.cpu.work_memory import work_bytes
from engine.model import load_plan
from engine.model.plan import BLOCK_SIZE, Attention, ExpertMatMul, HeadMatMul, MatMul, Plan, Rope, Tensor

KV_TYPES: tuple[KVType, ...] = get_args(KVType)
MAX_BATCH_TOKENS = 512  # of EngineConfig
# Measured on SmolLM2 135M and Gemma 3 270M: the process before a model (Python, NumPy, the tokenizer library), the
# machine code and its loader, and what a vocabulary takes in its tables and strings.
PROCESS_BYTES = 88_000_000
CODE_BYTES = 26_000_000
VOCABULARY_BYTES = 160  # a token


@dataclass(frozen=True)
class ModelShape:
    """The size of a model in all respects that cost memory or time.

    Attributes:
        weights_bytes: of the files.
        matrix_bytes: bytes of matrices that one token reads, by type; of experts those that take part.
        matrix_values: the same as values: multiplications a token.
        prompt_values: those of them that each token of a prompt takes; logits are wanted of its last one alone.
        kv_block_bytes: of 16 tokens in all layers, by KV type.
        kv_token_bytes: read for each earlier token that a token sees, by window, as float16; None is no window.
        attention_values: multiplications for each earlier token that a token sees, by window.
        activation_bytes: buffers of a step.
        position_bytes: rotary tables, for each position that comes up.
        num_ops: steps of the plan.
        state_bytes: of the recurrent state of one sequence, which each token reads and writes.
    """

    architecture: str
    num_parameters: int
    vocab_size: int
    trained_context_length: int
    weights_bytes: int
    matrix_bytes: Mapping[TensorType, int]
    matrix_values: Mapping[TensorType, int]
    prompt_values: Mapping[TensorType, int]
    kv_block_bytes: Mapping[KVType, int]
    kv_token_bytes: Mapping[int | None, int]
    attention_values: Mapping[int | None, int]
    activation_bytes: int
    position_bytes: float
    num_ops: int
    state_bytes: int = 0

    def as_version(self, size: int, main_type: TensorType) -> ModelShape:
        """The same model in another quantization: files of ``size`` bytes, mostly of ``main_type``."""
        values = sum(self.matrix_values.values())
        share = sum(self.matrix_bytes.values()) / max(1, self.weights_bytes)
        return dataclasses.replace(
            self,
            weights_bytes=size,
            matrix_bytes={main_type: round(size * min(1.0, share))},
            matrix_values={main_type: values},
            prompt_values={main_type: sum(self.prompt_values.values())},
        )


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes that the engine's process takes with a model and a full context.

    Attributes:
        kv_type: how the KV cache stores a value.
        weights: the mapped files.
        kv: keys and values of the context, recurrent states of one chat.
        work: buffers of a step, rotary tables, vocabulary.
        engine: the process without a model.
    """

    context_length: int
    kv_type: KVType
    weights: int
    kv: int
    work: int
    engine: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.kv + self.work + self.engine


def shape_of(file: GGUFFile) -> ModelShape:
    """Count the plan of a model; raises what ``load_plan`` raises for one that the engine cannot run."""
    hyperparameters, plan = load_plan(file)
    matrix_bytes: Counter[TensorType] = Counter()
    matrix_values: Counter[TensorType] = Counter()
    prompt_values: Counter[TensorType] = Counter()
    for tensor, share, is_for_logits in _matrices(plan):
        num_values = round(math.prod(tensor.shape) * share)
        matrix_bytes[tensor.type] += round(tensor.data.nbytes * share)
        matrix_values[tensor.type] += num_values
        prompt_values[tensor.type] += 0 if is_for_logits else num_values
    kv_token_bytes: Counter[int | None] = Counter()
    attention_values: Counter[int | None] = Counter()
    for op in plan.ops:
        if isinstance(op, Attention):
            layer = plan.kv_layers[op.kv_layer]
            width = layer.key_dim + layer.value_dim
            kv_token_bytes[op.window] += layer.num_kv_heads * width * 2
            attention_values[op.window] += op.num_heads * width
    tables = {id(op.table): op.table for op in plan.ops if isinstance(op, Rope)}
    return ModelShape(
        architecture=hyperparameters.architecture,
        num_parameters=sum(math.prod(tensor.shape) for tensor in file.tensors.values()),
        vocab_size=plan.vocab_size,
        trained_context_length=hyperparameters.context_length,
        weights_bytes=file.file_bytes,
        matrix_bytes=dict(matrix_bytes),
        matrix_values=dict(matrix_values),
        prompt_values=dict(prompt_values),
        kv_block_bytes={kv_type: kv_bytes_per_block(plan, kv_type) for kv_type in KV_TYPES},
        kv_token_bytes=dict(kv_token_bytes),
        attention_values=dict(attention_values),
        activation_bytes=work_bytes(plan, MAX_BATCH_TOKENS),
        position_bytes=sum(len(table.inv_freq) * 16 / FINE_POSITIONS for table in tables.values()),
        num_ops=len(plan.ops),
        state_bytes=plan.state_bytes,
    )


def memory_need(shape: ModelShape, context_length: int, kv_type: KVType = "f16") -> MemoryNeed:
    """What the model takes when a context of so many tokens is full."""
    context_length = min(context_length, shape.trained_context_length)
    num_blocks = num_blocks_for(context_length) + 1
    kv = num_blocks * shape.kv_block_bytes[kv_type] + (1 + MIN_CHECKPOINTS) * shape.state_bytes
    vocabulary = shape.vocab_size * VOCABULARY_BYTES
    tables = round(shape.position_bytes * -(-context_length // CHUNK_POSITIONS) * CHUNK_POSITIONS)
    work = shape.activation_bytes + vocabulary + tables
    return MemoryNeed(context_length, kv_type, shape.weights_bytes, kv, work, PROCESS_BYTES + CODE_BYTES)


def memory_so_far(shape: ModelShape, context_length: int, num_tokens: int, kv_type: KVType = "f16") -> int:
    """Bytes that a loaded model takes while only so many tokens of its context have been read."""
    need = memory_need(shape, context_length, kv_type=kv_type)
    return need.total - max(0, need.context_length - num_tokens) // BLOCK_SIZE * shape.kv_block_bytes[kv_type]


def _matrices(plan: Plan) -> Iterator[tuple[Tensor, float, bool]]:
    """The matrices that a token is multiplied with, the part that one token meets, whether for logits alone.

    Of the embedding it reads one row; of experts it goes through some, and of a fused matrix an op reads a part.
    """
    for op in plan.ops:
        if isinstance(op, MatMul | HeadMatMul):
            yield op.weight, 1.0, op.x.rows == "logits"
        elif isinstance(op, ExpertMatMul):
            num_experts, num_rows, _ = op.weight.shape
            share = min(1.0, plan.num_experts_used / num_experts) * op.out.width / num_rows
            yield op.weight, share, False
