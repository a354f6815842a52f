"""Loading a model: file, tokenizer, template, plan, memory plan and backend, in this order, with progress.

Whatever can be refused is refused before anything large is allocated. It knows neither threads nor events; the
progress callback may raise to break a load off, and then everything opened so far is closed.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from engine.cache.memory_plan import MemoryPlan, plan_memory
from engine.cache.snapshot_key import snapshot_key
from engine.collection import paused_collection
from engine.config import EngineConfig, KVType
from engine.errors import InvalidParameterError
from engine.kernels.backend import Backend
from engine.model.plan import BLOCK_SIZE
from engine.protocol import LoadModel, LoadPhase, ModelInfo

if TYPE_CHECKING:
    from engine.chat import ChatTemplate
    from engine.gguf import GGUFFile
    from engine.grammar.model_grammars import ModelGrammars
    from engine.model import Hyperparameters
    from engine.model.plan import Plan
    from engine.tokenizer import StreamingDetokenizer, Tokenizer

OnProgress = Callable[[LoadPhase, float, str], None]

READ_CHUNK_BYTES = 64 << 20
PAGE_BYTES = 4096
MAX_THREADS = 512  # of a step, whose control words have room for a few more
MIN_BLOCK_BYTES = 4096  # what a block costs in any case; of models without attention it is the whole
EXPERT_TENSOR = re.compile(r"_(ch)?exps\.weight$")  # the matrices of all experts of a layer in one tensor

# ``general.file_type`` of the GGUF specification, as people name it.
FILE_TYPES = (
    {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S"}
    | {12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K"}
    | {19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL"}
    | {26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16"}
    | {36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4", 39: "NVFP4", 40: "Q1_0"}
)


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """Everything a loaded model consists of.

    Attributes:
        info: facts for the person.
        tokenizer, template: the text side.
        backend: the weights ready to run; the engine that uses it closes it.
        num_blocks: blocks of the backend's KV cache.
        snapshot_key: of what the KV cache's contents depend on; empty where they are not to be kept.
        notices: what the person should know.
        checkpoint_bytes: most for the recurrent states that are kept of what was read.
    """

    info: ModelInfo
    tokenizer: Tokenizer
    template: ChatTemplate
    backend: Backend
    num_blocks: int
    notices: tuple[str, ...] = ()
    snapshot_key: bytes = b""
    checkpoint_bytes: int = 0
    _resources: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def new_text_stream(self, continues_text: bool) -> StreamingDetokenizer:
        """Turns the tokens of one answer, or of what continues a text, into text."""
        from engine.tokenizer import StreamingDetokenizer

        return StreamingDetokenizer(self.tokenizer, self.template.shown_control_ids, continues_text)

    @cached_property
    def grammars(self) -> ModelGrammars:
        """Makes constraints for answers in a given form."""
        from engine.grammar.model_grammars import ModelGrammars

        return ModelGrammars(self.tokenizer)

    def close(self) -> None:
        """Free the backend and let go of the file; idempotent."""
        self._resources.close()


def load_model(command: LoadModel, config: EngineConfig, on_progress: OnProgress) -> LoadedModel:
    """Load the model that ``command`` names.

    ``on_progress`` gets the phase, the fraction of the whole load and a message; what it raises ends the load.
    Raises EngineError in many kinds, each with one sentence for the person.
    """
    with paused_collection():
        return _load_model(command, config, on_progress)


def _load_model(command: LoadModel, config: EngineConfig, on_progress: OnProgress) -> LoadedModel:
    # The heavy imports wait until a model is wanted: opening the app's window does not pay for them.
    from engine.gguf import open_model
    from engine.model import bind_weights, build_plan, read_hyperparameters
    from engine.sampling import choice

    num_threads = choose_num_threads(command.num_threads or config.num_threads)
    memory_before_bytes = psutil.Process().memory_info().rss
    with contextlib.ExitStack() as resources:
        on_progress(LoadPhase.HEADER, 0.0, "Opening the file")
        file = resources.enter_context(open_model(command.path))
        hyperparameters = read_hyperparameters(file)
        labels = _model_name(file), tensor_type_name(file)
        on_progress(LoadPhase.TOKENIZER, 0.03, "Reading the vocabulary")
        choice.begin()
        with ThreadPoolExecutor(1, "vocabulary") as beside:  # its loops run without the GIL
            text_side = beside.submit(_load_text_side, file)
            on_progress(LoadPhase.WEIGHTS, 0.15, "Reading the weights")
            weights = bind_weights(file, hyperparameters)
            plan = build_plan(hyperparameters, weights)
            kv_type = command.kv_type or config.kv_type
            memory = _plan_memory(command, config, file, hyperparameters, plan, kv_type)
            if memory.context_length != hyperparameters.context_length:
                plan = build_plan(hyperparameters, weights, memory.context_length)
            _read_weights(file, on_progress, text_side)
            on_progress(LoadPhase.KERNELS, 0.5, "Preparing the engine")
            options = _backend_options(config, memory, kv_type, file)
            backend = _make_backend(plan, options, config, num_threads, on_progress)
            resources.callback(backend.close)
            tokenizer, template = text_side.result()
        choice.prepare(lambda message, fraction: on_progress(LoadPhase.KERNELS, 0.95 + 0.05 * fraction, message))
        info = _model_info(file, labels, hyperparameters, template, memory, num_threads, kv_type, backend.kv_bytes)
        info = replace(info, memory_before_bytes=memory_before_bytes)
        notices = tuple(_notices(command, hyperparameters, tokenizer, template))
        key = snapshot_key(file.identity(), plan, backend.kv_format)
        file.check_unchanged()  # all above is of what it was
        on_progress(LoadPhase.READY, 1.0, "Ready")
        rest = (memory.num_blocks, notices, key, memory.checkpoint_bytes, resources.pop_all())
        return LoadedModel(info, tokenizer, template, backend, *rest)


def _load_text_side(file: GGUFFile) -> tuple[Tokenizer, ChatTemplate]:
    from engine.chat import load_template
    from engine.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(file.metadata)
    return tokenizer, load_template(file.metadata, tokenizer)


def choose_num_threads(wanted: int) -> int:
    """Threads to compute with: ``wanted``, but no more than the machine can run at once; 0 is one a physical core.

    Raises InvalidParameterError for a negative wish.
    """
    if wanted < 0:
        raise InvalidParameterError("The number of threads cannot be negative; 0 is one a physical core.")
    return min(min(wanted, psutil.cpu_count() or 1) or num_physical_cores(), MAX_THREADS)


def num_physical_cores() -> int:
    """Physical cores this process may use."""
    usable = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else 0
    physical = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    return min(physical, usable) if usable else physical


def _plan_memory(
    command: LoadModel,
    config: EngineConfig,
    file: GGUFFile,
    hyperparameters: Hyperparameters,
    plan: Plan,
    kv_type: KVType,
) -> MemoryPlan:
    backend = _backend_module(config)
    block_bytes = backend.kv_bytes_per_block(plan, **_kv_option(config, kv_type))
    return plan_memory(
        available_bytes=psutil.virtual_memory().available,
        weights_bytes=file.file_bytes,
        block_bytes=max(MIN_BLOCK_BYTES, block_bytes),
        trained_context_length=hyperparameters.context_length,
        context_length=command.context_length or config.context_length,
        kv_bytes=command.memory_limit_bytes or config.kv_bytes,
        state_bytes=plan.state_bytes,
        work_bytes=backend.work_bytes(plan, config.max_batch_tokens),
        takes_more=command.takes_more,
    )


def _read_weights(
    file: GGUFFile, on_progress: OnProgress, text_side: Future[tuple[Tokenizer, ChatTemplate]]
) -> None:
    """Touch every page of the weights, so that the first answer does not wait for the disk.

    Experts are left out: most tokens use few of them, and all may be more than the memory holds. A vocabulary that
    cannot be used ends the reading, with what ``text_side`` raises.
    """
    num_read = 0
    for name, tensor in file.tensors.items():
        if EXPERT_TENSOR.search(name):
            continue
        data = file.tensor_data(name)
        for start in range(0, data.size, READ_CHUNK_BYTES):
            file.check_readable()
            if text_side.done():
                text_side.result()
            np.max(data[start : start + READ_CHUNK_BYTES : PAGE_BYTES])
            share = (num_read + start) / file.file_bytes
            on_progress(LoadPhase.WEIGHTS, 0.15 + 0.35 * share, "Reading the weights")
        num_read += tensor.num_bytes


def _backend_module(config: EngineConfig) -> Any:
    return importlib.import_module(f"engine.kernels.{config.backend}")


def _kv_option(config: EngineConfig, kv_type: KVType) -> dict[str, str]:
    """The argument of a backend and its memory estimate; the reference backend does not round to float16."""
    return {} if config.backend == "reference" and kv_type == "f16" else {"kv_type": kv_type}


def _backend_options(config: EngineConfig, memory: MemoryPlan, kv_type: KVType, file: GGUFFile) -> dict[str, Any]:
    return {
        "num_blocks": memory.num_blocks,
        "num_states": memory.num_states,
        "max_batch_tokens": config.max_batch_tokens,
        "guard_weights": file.renew_guard,
        "check_weights": file.check_unchanged,
        **_kv_option(config, kv_type),
    }


def _make_backend(
    plan: Plan, options: dict[str, Any], config: EngineConfig, num_threads: int, on_progress: OnProgress
) -> Backend:
    module = _backend_module(config)
    if config.backend == "reference":
        reference: Backend = module.ReferenceBackend(plan, **options)
        return reference

    def on_kernel_progress(message: str, fraction: float) -> None:
        on_progress(LoadPhase.KERNELS, 0.5 + 0.45 * fraction, message)

    cpu: Backend = module.CpuBackend(plan, **options, num_threads=num_threads, on_progress=on_kernel_progress)
    return cpu


def _model_name(file: GGUFFile) -> str:
    return file.metadata.string("general.name", file.path.stem).strip() or file.path.stem


def _model_info(
    file: GGUFFile,
    labels: tuple[str, str],
    hyperparameters: Hyperparameters,
    template: ChatTemplate,
    memory: MemoryPlan,
    num_threads: int,
    kv_type: KVType,
    kv_bytes: int,
) -> ModelInfo:
    return ModelInfo(
        path=file.path,
        name=labels[0],
        architecture=hyperparameters.architecture,
        tensor_type=labels[1],
        num_parameters=sum(math.prod(tensor.shape) for tensor in file.tensors.values()),
        file_bytes=file.file_bytes,
        context_length=memory.context_length,
        trained_context_length=hyperparameters.context_length,
        vocab_size=hyperparameters.vocab_size,
        num_threads=num_threads,
        device="CPU",
        kv_bytes=kv_bytes,
        kv_type=kv_type,
        num_kv_blocks=memory.num_blocks,
        num_kv_tokens=memory.num_blocks * BLOCK_SIZE,
        has_chat_template=not template.is_builtin,
    )


def tensor_type_name(file: GGUFFile) -> str:
    """The type most weights have, as people name it: what the file says, else the type with most bytes."""
    named = FILE_TYPES.get(file.metadata.integer("general.file_type", -1))
    if named is not None:
        return named
    num_bytes: Counter[str] = Counter()
    for tensor in file.tensors.values():
        num_bytes[tensor.type.name] += tensor.num_bytes
    return num_bytes.most_common(1)[0][0] if num_bytes else "?"


def active_weight_bytes(file: GGUFFile) -> int:
    """Bytes of weights that one token meets: of the experts only those it uses, of the rest all."""
    prefix = file.architecture
    num_experts = max(1, file.metadata.integer(f"{prefix}.expert_count", 1))
    num_used = min(num_experts, file.metadata.integer(f"{prefix}.expert_used_count", num_experts))
    return sum(
        tensor.num_bytes * num_used // num_experts if EXPERT_TENSOR.search(name) else tensor.num_bytes
        for name, tensor in file.tensors.items()
    )


def _notices(
    command: LoadModel, hyperparameters: Hyperparameters, tokenizer: Tokenizer, template: ChatTemplate
) -> list[str]:
    notices = [notice for notice in (tokenizer.notice, template.notice) if notice]
    if command.context_length > hyperparameters.context_length:
        notices.append(
            f"The model was trained for {hyperparameters.context_length:,} tokens; "
            f"its context is that long instead of {command.context_length:,}."
        )
    return notices
