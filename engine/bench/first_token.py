"""From nothing to the first token, in the process that this is the only work of: load, one short prompt, one token.

Ours goes through the product's own loader, tokenizer and template included; the peer's server loads its own.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

from engine.collection import paused_collection

PROMPT = "The quick brown fox jumps over the lazy dog, and then"
CONTEXT_LENGTH = 2048


def own_first_token(path: Path, backend: str, num_threads: int, on_loaded: Callable[[], None]) -> None:
    """Load with our loader and compute one token greedily; ``on_loaded`` is called in between."""
    with paused_collection():  # as the program does while it is imported
        import numpy as np

        from engine.config import EngineConfig
        from engine.kernels.backend import SequenceSlice
        from engine.loader import load_model
        from engine.model.plan import BLOCK_SIZE
        from engine.protocol import LoadModel
    gc.freeze()

    config = EngineConfig(backend="reference" if backend == "reference" else "cpu", num_threads=num_threads)
    model = load_model(LoadModel(path, CONTEXT_LENGTH), config, lambda phase, fraction, message: None)
    on_loaded()
    token_ids = np.array(model.tokenizer.encode_prompt([(PROMPT, False)]), np.int32)
    blocks = np.arange(-(-len(token_ids) // BLOCK_SIZE), dtype=np.int32)
    logits = model.backend.run([SequenceSlice(token_ids, 0, blocks, "last")])
    model.tokenizer.token_bytes(int(logits[0].argmax()))


def xllamacpp_first_token(path: Path, num_threads: int, on_loaded: Callable[[], None]) -> None:
    """The same through the peer's server."""
    from engine.bench.xllamacpp_peer import complete, start_server

    server = start_server(path, num_threads, num_threads, CONTEXT_LENGTH)
    on_loaded()
    complete(server, PROMPT, 1, keep=False)


def ik_llama_first_token(path: Path, num_threads: int, on_loaded: Callable[[], None]) -> None:
    """The same in a context of the fork."""
    from engine.bench.ik_llama_peer import compute, open_context, tokenize

    context = open_context(path, num_threads, CONTEXT_LENGTH)
    on_loaded()
    compute(context, tokenize(context, PROMPT), 0)


FIRST_TOKENS: dict[str, Callable[..., None]] = {
    "own": own_first_token,
    "xllamacpp": xllamacpp_first_token,
    "ik-llama": ik_llama_first_token,
}
