"""Fireside's inference engine: GGUF models on this machine, in this process. It knows neither Qt nor the app.

The public face is ``EngineThread`` with ``EngineConfig``, the commands and events of ``protocol``, the errors of
``errors``, and ``gguf`` for looking into model files without loading them.

    protocol, errors    what crosses the border: commands, events, and one tree of errors
    thread              commands in, events out, one loop; a failure becomes an event
    load_thread, loader a model loads beside that loop: file, tokenizer, template, plan, memory, backend
    request             the text side of a request: prompt to tokens, tokens to deltas
    request_desk        the requests in work, each to its end
    engine              token ids in, token ids out: schedule, run, sample, commit
    scheduler           who computes what in a step, within one token budget
    cache               KV blocks: reference counts, the radix tree of prefixes, copy-on-write, snapshots
    conversations       what stays of a conversation: why it was read again, and its snapshot on the disk
    decision            how likely each of some given answers is, without generating any
    extraction          values from many texts: rows in, one JSON answer a row, a table out
    sampling            logits to a token; stop strings
    grammar             answers in a given form: schemas checked, what may follow, how sure the model was
    model               hyperparameters, weights, and the plan: a model as a flat list of ops
    kernels             backends that execute a plan: ``reference`` (NumPy), ``cpu``
    tokenizer, chat     text to tokens and back; templates and channels
    gguf                model files
    hub                 search, headers and downloads over the network
    advisor             what a model needs and how fast it is on this machine
    cache_folder        where what can be made again lies on the disk
    library             models on this machine, and what can be done with their files
    scoring             how well a model predicts a given text
    terminal            ``python -m engine``
    bench               the benchmark behind ``python -m engine bench``

The life of a request: ``EngineThread.submit(GenerateRequest)`` puts it on a queue. The engine thread takes it up
between two steps; ``request`` renders the template and tokenizes, so that only the template's own text can yield
control tokens. The engine queues the sequence; the scheduler lets it in when there are blocks, with the longest
prefix that the radix tree knows, and gives it a share of each step: the prompt in chunks, then one token a step, or
some where nobody else waits and they come fast.
The backend computes the batch, each sequence's sampler chooses, full blocks enter the tree. Tokens become text in
``request`` and leave as ``Delta`` events until an end token, a stop string, a limit or an abort; what was computed
stays in the tree for the next turn.
"""

import os
from typing import TYPE_CHECKING, Any

# Before NumPy is imported: nothing of the product multiplies matrices with it, and the threads that its library
# starts all the same spin for 0.1 s each, while a start waits for the core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if TYPE_CHECKING:
    from engine.config import EngineConfig
    from engine.errors import EngineError
    from engine.thread import EngineThread

__all__ = ["EngineConfig", "EngineError", "EngineThread"]


def __getattr__(name: str) -> Any:
    """Import the public face when it is asked for: ``python -m engine`` loads this before it can take a Ctrl+C."""
    from importlib import import_module

    homes = {"EngineConfig": "config", "EngineError": "errors", "EngineThread": "thread"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{homes[name]}"), name)
