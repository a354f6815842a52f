"""Commands and events about loading models; ``protocol`` hands them on."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from engine.config import KVType
from engine.plain_data import dataclass


class LoadPhase(str, Enum):
    """What the engine is doing while a model loads."""

    HEADER = "header"
    TOKENIZER = "tokenizer"
    WEIGHTS = "weights"
    KERNELS = "kernels"
    READY = "ready"


@dataclass(frozen=True)
class LoadModel:
    """Load the model at ``path`` (any shard of a set), ejecting the one that is loaded.

    ``context_length`` 0 means the memory plan's default; ``num_threads`` 0 means the physical cores;
    ``kv_type`` None means the engine's default;
    ``memory_limit_bytes`` is the most memory that the KV cache may take, 0 a part of what is free. With
    ``takes_more`` a model that needs more than is free is loaded all the same. ``ModelInfo`` says what was chosen.
    """

    path: Path
    context_length: int = 0
    num_threads: int = 0
    memory_limit_bytes: int = 0
    kv_type: KVType | None = None
    takes_more: bool = False


@dataclass(frozen=True)
class EjectModel:
    """Free the loaded model; running requests are aborted."""


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a loaded model."""

    path: Path
    name: str
    architecture: str
    tensor_type: str  # the type most weights have, as people name it: "Q4_1", "Q4_K_M"
    num_parameters: int
    file_bytes: int
    context_length: int  # tokens of one conversation at most
    trained_context_length: int
    vocab_size: int
    num_threads: int
    device: str  # "CPU"
    kv_bytes: int  # of the KV cache when it is full
    has_chat_template: bool
    kv_type: KVType = "f16"
    num_kv_blocks: int = 0
    num_kv_tokens: int = 0  # of all conversations together that the KV cache keeps
    memory_before_bytes: int = 0  # that the process took when the load began, without a model


@dataclass(frozen=True)
class ModelLoading:
    """Progress of a load: ``fraction`` from 0 to 1 over the whole load, ``message`` for a person."""

    path: Path
    phase: LoadPhase
    fraction: float
    message: str = ""


@dataclass(frozen=True)
class ModelLoaded:
    """The model is ready for requests."""

    info: ModelInfo
    load_ms: float


@dataclass(frozen=True)
class ModelLoadFailed:
    """The load ended with an error; no model is loaded.

    ``can_load_anyway``: it needs more memory than is free, and ``LoadModel.takes_more`` would load it.
    """

    path: Path
    message: str
    can_load_anyway: bool = False


@dataclass(frozen=True)
class ModelEjected:
    """The model's memory is free again."""

    path: Path
