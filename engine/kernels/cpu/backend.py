"""The CPU backend: a plan's program, its memory and threads, and the step state of each batch.

Satisfies ``engine.kernels.backend.Backend``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from engine.config import KVType
from engine.kernels.backend import RunAhead, SequenceSlice, StepInterruptedError, check_ahead
from engine.kernels.cpu import step_state as state
from engine.kernels.cpu.jit import load_kernels, source_hash
from engine.kernels.cpu.kv_layout import kv_bytes_per_block
from engine.kernels.cpu.kv_store import KVStore
from engine.kernels.cpu.layouts import attention_scratch_bytes
from engine.kernels.cpu.lowering import LoweredOp, assemble, lower
from engine.kernels.cpu.memory import Memory
from engine.kernels.cpu.run_ahead import MAX_AHEAD_TOKENS, RunAheadInputs
from engine.kernels.cpu.step_inputs import StepInputs
from engine.kernels.cpu.threads import EXECUTOR_KERNELS, ThreadTeam
from engine.model.plan import Plan

DEFAULT_STATES = 16  # sequences with recurrent states
_FIRST_LOGIT_ROWS = 16  # room at first; a step that wants more makes more


class CpuBackend:
    """Executes one plan with compiled kernels. One step at a time, from any thread.

    Attributes:
        max_batch_tokens: most tokens of one step.
        max_ahead_tokens: most tokens that follow one.
        num_blocks: blocks of the KV cache.
        num_threads: threads of a step, the caller's included.
        kv_bytes: bytes of the KV cache when all its blocks are written.
        block_bytes: of one block in all layers.
        kv_format: changes with the layout of keys and values and with any kernel.
        num_states, state_bytes: recurrent states of sequences, and bytes of one.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        num_blocks: int,
        max_batch_tokens: int = 512,
        num_threads: int = 0,
        kv_type: KVType = "f16",
        num_states: int = DEFAULT_STATES,
        on_progress: Callable[[str, float], None] | None = None,
        guard_weights: Callable[[], None] = lambda: None,
        check_weights: Callable[[], None] = lambda: None,
    ) -> None:
        """``num_threads`` 0 means one a physical core; ``kv_type`` is how the KV cache stores a value.

        ``on_progress(text, fraction)`` hears of compilation.
        """
        self.max_batch_tokens = max_batch_tokens
        self.max_ahead_tokens = MAX_AHEAD_TOKENS
        self.num_blocks = num_blocks
        self._plan = plan
        self._guard_weights, self._check_weights = guard_weights, check_weights
        self._kv_store = KVStore(plan, num_blocks, kv_type)
        self.vocab_size = plan.vocab_size
        self.num_states = num_states if plan.state_sizes else 0
        self.state_bytes = plan.state_bytes
        self.kv_bytes = self._kv_store.num_bytes
        self.block_bytes = kv_bytes_per_block(plan, kv_type)
        self.kv_format = f"cpu {kv_type} {source_hash(__name__)} {plan.kv_layers}"
        self._memory = Memory(
            max_batch_tokens=max_batch_tokens,
            max_logit_rows=min(_FIRST_LOGIT_ROWS, max_batch_tokens),
            num_blocks=num_blocks,
            num_counters=len(plan.ops),
            num_experts_used=plan.num_experts_used,
            num_states=self.num_states,
        )
        ops = lower(plan, self._memory, self._kv_store)
        self._kernels = load_kernels([*(op.source for op in ops), *EXECUTOR_KERNELS], on_progress)
        self._logits: npt.NDArray[np.float32]  # all rows that there is room for
        self._team = ThreadTeam(num_threads)
        self.num_threads = self._team.num_threads
        self._inputs = StepInputs(plan, max_batch_tokens, num_blocks, self.num_states)
        self._ahead = RunAheadInputs(self._memory.counters, self._memory.num_counters)
        self._num_ahead_steps = 0
        self._set_scratch()
        self._set_program(ops)

    def run(self, slices: Sequence[SequenceSlice], ahead: RunAhead | None = None) -> npt.NDArray[np.float32]:
        """See ``Backend.run``. Raises ValueError for slices that do not fit the backend or its cache, too."""
        num_logit_rows = self._inputs.place(slices)
        if num_logit_rows > self._memory.max_logit_rows:
            self._make_room(num_logit_rows)
        num_positions = self._inputs.num_positions
        if ahead is not None:
            check_ahead(slices, ahead, self._plan)
            self._ahead.begin(ahead, self._logits_address)
            num_positions += len(ahead.randoms)
        self._memory.prepare_positions(num_positions)
        self._memory.clear_counters()
        self._guard_weights()
        if not self._team.run(self._ahead.address if ahead is not None else 0):
            raise StepInterruptedError
        if ahead is not None:
            self._ahead.end(ahead)
            self._num_ahead_steps += len(ahead.token_ids)
        self._check_weights()
        return self._logits[:num_logit_rows]

    def interrupt(self) -> None:
        """See ``Backend.interrupt``."""
        self._team.interrupt()

    def lend_core(self, is_lent: bool) -> None:
        """See ``Backend.lend_core``."""
        self._team.lend_core(is_lent)

    def copy_block(self, source: int, target: int) -> None:
        """Copy a block's keys and values in all layers."""
        self._kv_store.copy_block(source, target)

    def read_blocks(self, block_ids: npt.NDArray[np.int32], out: npt.NDArray[np.uint8]) -> None:
        """Copy blocks to ``out``, (blocks, block_bytes) uint8."""
        self._kv_store.read_blocks(block_ids, out)

    def write_blocks(self, block_ids: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> None:
        """Copy what ``read_blocks`` gave to blocks."""
        self._kv_store.write_blocks(block_ids, data)

    def read_state(self, slot: int) -> npt.NDArray[np.uint8]:
        """See ``Backend.read_state``."""
        copied: npt.NDArray[np.uint8] = self._memory.states(self.state_bytes // 4)[slot].copy().view(np.uint8)
        return copied

    def write_state(self, slot: int, state: npt.NDArray[np.uint8] | None) -> None:
        """See ``Backend.write_state``."""
        row = self._memory.states(self.state_bytes // 4)[slot]
        row[:] = 0.0 if state is None else state.view(np.float32)

    def cpu_seconds(self) -> float:
        """Processor time that the threads of a step have had so far, the calling one's included."""
        return self._team.cpu_seconds()

    @property
    def steps(self) -> tuple[int, float]:
        """How many steps were computed so far, those of tokens ahead included, and in how many seconds."""
        return self._team.num_steps + self._num_ahead_steps, self._team.step_seconds

    def close(self) -> None:
        """End the threads and free the memory."""
        self._team.close()
        self._kv_store.clear()
        self._memory.clear()
        self._logits = np.empty((0, 0), np.float32)

    def _set_scratch(self) -> None:
        """Give each thread memory of its own."""
        sizes = [attention_scratch_bytes(layer.key_dim, layer.value_dim) for layer in self._plan.kv_layers]
        scratch_bytes = -(-max(state.MIN_SCRATCH_BYTES, *sizes, 0) // 64) * 64
        scratch = self._memory.bytes_for("scratch", scratch_bytes * self.num_threads)
        self._inputs.state[state.SCRATCH] = scratch.ctypes.data
        self._inputs.state[state.SCRATCH_BYTES] = scratch_bytes

    def _make_room(self, num_logit_rows: int) -> None:
        """Make the logit buffers larger, at least twice, and point the program to them."""
        self._memory.set_logit_rows(
            min(max(num_logit_rows, 2 * self._memory.max_logit_rows), self.max_batch_tokens)
        )
        self._set_program(lower(self._plan, self._memory, self._kv_store))

    def _set_program(self, ops: Sequence[LoweredOp]) -> None:
        self._program = assemble(ops, self._kernels)
        self._team.set_program(self._program, self._inputs.state)
        self._logits = self._memory.rows(self._plan.logits, self._memory.max_logit_rows)
        self._logits_address = int(self._logits.ctypes.data)
