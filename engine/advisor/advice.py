"""What a person wants to know before a download: does it fit, how fast is it, which version is best here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from engine.advisor.machine import Machine
from engine.advisor.measured import NOTHING_MEASURED, Expected, MeasuredModel
from engine.advisor.shape import KV_TYPES, MemoryNeed, ModelShape, memory_need
from engine.advisor.speeds import Speeds
from engine.config import KVType
from engine.gguf.quantizations import quality_of
from engine.gguf.tensor_types import TensorType
from engine.model.architectures import ROWS

CONTEXT_LENGTH = 8192
READ_TOKENS = 4096
GOOD_CONTEXT, BEST_CONTEXT = 8192, 32768  # what a chat needs, and more than it hardly ever has
SYSTEM_BYTES = 1 << 30  # what the rest of the system needs at least
MARKEDLY = 0.85  # of the speed at the start, below which it is worth a word
COMFORT = 0.75  # of the memory, up to which a model fits without closing other programs
# Measured on SmolLM2 135M, Gemma 3 270M, and synthetic Qwen3 0.6B and Llama 1B, with one thread.
KV_RATE = 0.65  # of the bandwidth, at which attention reads the KV cache
READ_OVERHEAD = 1.12  # what norms, activations and packing take beside the matrices of a prompt
OP_SECONDS = 3e-6  # each op waits once for all threads
MIN_TOKENS_PER_SECOND = 6.0  # slower than people read
BYTES_PER_PARAMETER = 0.62  # of Q4_K_M
FIXED_BYTES = 13e8  # the KV cache of 8k tokens, as models from 1 B to 14 B take it, and the process
BYTES_PER_TINY_PARAMETER = 2.5  # of models below 1 B, all together
CONTEXTS = (131072, 65536, 32768, 16384, 8192, 4096, 2048)


class Fit(str, Enum):
    """Whether a model fits into the memory; the value is the word for it."""

    FITS = "fits"
    TIGHT = "tight"
    TOO_LARGE = "too large"


@dataclass(frozen=True)
class Advice:
    """What is to be expected of a model with one context.

    Attributes:
        need: memory with the context full.
        tokens_per_second: while answering, at the start of a chat.
        deep_tokens_per_second: with half the context read.
        read_seconds: for a prompt of READ_TOKENS, or of the context where that is shorter.
        longest_context: that fits.
        best_context, best_kv_type: what to load it with here; 0 where no context fits.
        is_measured: the speeds are those of this machine's kernels.
        measured: what the model did when it ran here.
    """

    fit: Fit
    need: MemoryNeed
    tokens_per_second: float
    deep_tokens_per_second: float
    read_seconds: float
    longest_context: int
    best_context: int
    best_kv_type: KVType
    total_bytes: int
    is_measured: bool
    measured: MeasuredModel = NOTHING_MEASURED

    @property
    def memory_bytes(self) -> int:
        """With the context full: as estimated, and put right by what the model took when it ran here."""
        return max(0, self.need.total + self.measured.memory_excess_bytes)

    @property
    def becomes_slower(self) -> bool:
        """Whether a long chat is markedly slower than a new one."""
        return self.deep_tokens_per_second < MARKEDLY * self.tokens_per_second

    @property
    def sentence(self) -> str:
        """All of it for a person."""
        memory = f"{self.need.total / 1e9:.1f} GB of {self.total_bytes / 1e9:.0f}"
        with_context = f"with {_thousands(self.need.context_length)} context {memory}"
        if self.fit is Fit.TOO_LARGE:
            return f"Too large for this machine: {with_context}."
        speed = f"About {_rate(self.tokens_per_second)} tokens/s"
        if self.becomes_slower:
            half = _thousands(self.need.context_length // 2)
            speed += f" at first, {_rate(self.deep_tokens_per_second)} after {half} tokens"
        num_read = min(READ_TOKENS, self.need.context_length)
        speed += f", {self.read_seconds:.0f} s to read {_thousands(num_read)} tokens"
        best = ""
        if self.best_context:
            kind = "compact" if self.best_kv_type == "q8_0" else "exact"
            best = f" Best here: {_thousands(self.best_context)} context, {kind} KV cache."
        verdict = "Fits" if self.fit is Fit.FITS else "Tight: close other programs first"
        return f"{verdict}. {speed}; {with_context}.{best}{self._measured_sentence}"

    @property
    def _measured_sentence(self) -> str:
        measured = []
        if self.measured.tokens_per_second:
            measured.append(f"{_rate(self.measured.tokens_per_second)} tokens/s")
        if self.measured.read_tokens_per_second:
            measured.append(f"{_rate(self.measured.read_tokens_per_second)} tokens/s of a prompt")
        if self.measured.memory_bytes:
            measured.append(f"{self.memory_bytes / 1e9:.1f} GB with {_thousands(self.need.context_length)} context")
        return f" Measured here: {', '.join(measured)}." if measured else ""


def advise(
    shape: ModelShape,
    machine: Machine,
    context_length: int = CONTEXT_LENGTH,
    kv_type: KVType = "f16",
    measured: MeasuredModel = NOTHING_MEASURED,
) -> Advice:
    """Judge a model with a context of so many tokens, or as many as it was trained for."""
    need = memory_need(shape, context_length, kv_type)
    best_context, best_kv_type = best_settings(shape, machine)
    return Advice(
        fit=_fit(need, machine),
        need=need,
        tokens_per_second=tokens_per_second(shape, machine.speeds, 0, kv_type),
        deep_tokens_per_second=tokens_per_second(shape, machine.speeds, need.context_length // 2, kv_type),
        read_seconds=read_seconds(shape, machine.speeds, min(READ_TOKENS, need.context_length)),
        longest_context=_longest(shape, machine, kv_type),
        best_context=best_context,
        best_kv_type=best_kv_type,
        total_bytes=machine.total_bytes,
        is_measured=machine.speeds.is_measured,
        measured=measured,
    )


def expected_of(
    shape: ModelShape, speeds: Speeds, *, num_reused: int, num_read: int, num_answer: int, kv_type: KVType
) -> Expected:
    """What speeds let expect of one answer, by tokens: those of the prompt that were there, read, and answered."""
    depth = num_reused + num_read + num_answer // 2
    seconds = read_seconds(shape, speeds, num_read, num_reused) if num_read else 0.0
    return Expected(
        tokens_per_second(shape, speeds, depth, kv_type), num_read / seconds if seconds else 0.0, speeds
    )


def best_settings(shape: ModelShape, machine: Machine) -> tuple[int, KVType]:
    """Context length and KV type to load a model with: the longest context that people use, exact where it fits.

    A compact KV cache costs a little quality, so it is taken only where the exact one leaves less than
    GOOD_CONTEXT, or than the model was trained for.
    """
    exact, compact = (min(_longest(shape, machine, kv_type), BEST_CONTEXT) for kv_type in KV_TYPES)
    wanted = min(GOOD_CONTEXT, shape.trained_context_length)
    return (compact, "q8_0") if exact < wanted and compact > exact else (exact, "f16")


def _longest(shape: ModelShape, machine: Machine, kv_type: KVType) -> int:
    """The longest of CONTEXTS that fits; 0 where none does."""
    for length in CONTEXTS:
        if _fit(memory_need(shape, length, kv_type), machine) is Fit.FITS:
            return min(length, shape.trained_context_length)
    return 0


def most_parameters(machine: Machine) -> int:
    """Parameters of the largest model that fits here in a version that is still good, with a context of 8k.

    A guess for a search, which knows no more than the number of parameters; the header tells more.
    """
    room = min(machine.available_bytes, machine.total_bytes * COMFORT)
    return max(1, int(max((room - FIXED_BYTES) / BYTES_PER_PARAMETER, room / BYTES_PER_TINY_PARAMETER)))


def supported_architectures() -> frozenset[str]:
    """Names of the architectures that the engine runs."""
    return frozenset(row.name for row in ROWS)


def tokens_per_second(shape: ModelShape, speeds: Speeds, depth: int, kv_type: KVType = "f16") -> float:
    """While answering, with ``depth`` tokens before: weights, KV cache and states are read once a token."""
    seconds = sum(num_bytes / speeds.read_rate(type) for type, num_bytes in shape.matrix_bytes.items())
    kv_bytes: float = sum(
        num_bytes * min(depth, window or depth) for window, num_bytes in shape.kv_token_bytes.items()
    )
    kv_bytes *= shape.kv_block_bytes[kv_type] / max(1, shape.kv_block_bytes["f16"])
    seconds += (kv_bytes / KV_RATE + 2 * shape.state_bytes) / speeds.bandwidth + shape.num_ops * OP_SECONDS
    return 1 / seconds


def read_seconds(shape: ModelShape, speeds: Speeds, num_tokens: int, num_before: int = 0) -> float:
    """To read a prompt: every weight is multiplied with every token, and every token looks at those before it."""
    seconds = sum(values * num_tokens / speeds.multiply_rate(type) for type, values in shape.prompt_values.items())
    seconds *= READ_OVERHEAD
    for window, values in shape.attention_values.items():
        pairs = num_tokens * min(num_before + num_tokens / 2, window or num_before + num_tokens)
        seconds += values * pairs / speeds.multiply_rate(TensorType.F16)
    return seconds


def recommend(versions: Mapping[str, tuple[str | None, Advice]]) -> str | None:
    """The label of the best version here: the best quality that fits and is quick enough; None where none fits.

    Args:
        versions: quantization and advice, by label.
    """
    fitting = {label: pair for label, pair in versions.items() if pair[1].fit is Fit.FITS}
    fitting = fitting or {label: pair for label, pair in versions.items() if pair[1].fit is Fit.TIGHT}
    if not fitting:
        return None
    quick = [
        label for label, (_, advice) in fitting.items() if advice.deep_tokens_per_second >= MIN_TOKENS_PER_SECOND
    ]
    if quick:
        # Beyond "nearly exact" nothing can be told apart, and everything becomes slower.
        return max(quick, key=lambda label: _rank(versions[label]))
    good = [label for label, (quantization, _) in fitting.items() if quality_of(quantization).rank >= 46]
    return max(good or fitting, key=lambda label: fitting[label][1].tokens_per_second)


def _rank(version: tuple[str | None, Advice]) -> tuple[int, float]:
    quantization, advice = version
    rank = quality_of(quantization).rank
    return (rank if rank <= 80 else 45, advice.tokens_per_second)


def main_type(quantization: str | None) -> TensorType:
    """The tensor type that most weights of a quantization have."""
    name = (quantization or "Q4_K").upper().removeprefix("UD-").removesuffix("_MOE")
    name = {"FP16": "F16", "FP32": "F32"}.get(name, name)
    small = f"{name.rsplit('_', 1)[0]}_S"
    for candidate in (name, *(name.rsplit("_", count)[0] for count in (1, 2)), small):
        if candidate in TensorType.__members__:
            return TensorType[candidate]
    return TensorType.Q4_K


def versions_advice(
    shape: ModelShape,
    machine: Machine,
    versions: Sequence[tuple[str, str | None, int]],
    context_length: int,
    kv_type: KVType = "f16",
) -> dict[str, tuple[str | None, Advice]]:
    """Advice for all versions of a model, by the header of one of them.

    Args:
        versions: label, quantization and bytes of each.
    """
    return {
        label: (
            quantization,
            advise(shape.as_version(size, main_type(quantization)), machine, context_length, kv_type),
        )
        for label, quantization, size in versions
    }


def _fit(need: MemoryNeed, machine: Machine) -> Fit:
    if need.total <= min(machine.available_bytes, machine.total_bytes * COMFORT):
        return Fit.FITS
    return Fit.TIGHT if need.total <= machine.total_bytes - SYSTEM_BYTES else Fit.TOO_LARGE


def _rate(rate: float) -> str:
    return f"{rate:.{0 if rate >= 10 else 1}f}"


def _thousands(num_tokens: int) -> str:
    return f"{num_tokens // 1024}k" if num_tokens >= 1024 else str(num_tokens)
