"""``python measure.py MODEL CONTEXT``: loads a model as the engine does, fills the context, prints its memory.

Prints one line of JSON: resident bytes of this process, and what the advisor said before.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import psutil

from engine.advisor import memory_need, shape_of
from engine.bench.token_ids import random_token_ids
from engine.config import EngineConfig
from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.loader import load_model
from engine.protocol import LoadModel


def main(path: Path, context_length: int) -> None:
    with open_model(path) as file:
        need = memory_need(shape_of(file), context_length)
    model = load_model(LoadModel(path, context_length), EngineConfig(), lambda phase, fraction, message: None)
    token_ids = random_token_ids(model.info.vocab_size, context_length)
    table = np.arange(-(-context_length // 16), dtype=np.int32)
    for start in range(0, context_length, 512):
        stop = min(start + 512, context_length)
        model.backend.run([SequenceSlice(token_ids[start:stop], start, table[: -(-stop // 16)], "last")])
    print(json.dumps({"actual": psutil.Process().memory_info().rss, "estimate": need.total}))
    model.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
