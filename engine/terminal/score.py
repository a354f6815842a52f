"""``score``: mean negative log-likelihood of a text."""

from __future__ import annotations

import argparse
import math
import time

from engine.loader import load_model
from engine.protocol import LoadModel, LoadPhase
from engine.scoring import score_tokens
from engine.terminal.arguments import config_of, read_file
from engine.terminal.models import find_model
from engine.terminal.output import Output


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Score a file or stdin."""

    def on_load(phase: LoadPhase, fraction: float, message: str) -> None:
        output.progress(f"{message} ... {fraction:.0%}")

    text = read_file(arguments.file)
    model = load_model(LoadModel(find_model(arguments.model)), config_of(arguments), on_load)
    try:
        token_ids = model.tokenizer.encode_prompt([(text, False)])
        if arguments.tokens:
            token_ids = token_ids[: arguments.tokens]
        started = time.perf_counter()
        model.check_file()
        scores = score_tokens(
            model.backend,
            token_ids,
            vocab_size=model.info.vocab_size,
            context_length=model.info.context_length,
            on_progress=lambda fraction: output.progress(f"Scoring ... {fraction:.0%}"),
        )
        seconds = time.perf_counter() - started
    finally:
        model.close()
        output.end_progress()
    mean = float(scores.mean())
    result = {
        "model": model.info.name,
        "num_tokens": len(token_ids),
        "num_predicted": int(scores.size),
        "num_windows": -(-len(token_ids) // model.info.context_length),
        "mean_nll": mean,
        "perplexity": math.exp(mean) if mean < 700 else math.inf,
        "tokens_per_second": scores.size / seconds,
    }
    output.json({**result, **({"nll": scores.tolist()} if arguments.all else {})})
    output.text(
        f"mean negative log-likelihood {mean:.6f}, perplexity {result['perplexity']:.4f} "
        f"over {scores.size:,} of {len(token_ids):,} tokens ({result['tokens_per_second']:,.0f} tokens/s)"
    )
    return 0
