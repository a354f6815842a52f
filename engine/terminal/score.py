"""``score``: how well a model predicts a text, and how far its logits are from kept ones."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidParameterError
from engine.loader import LoadedModel, load_model
from engine.protocol import LoadModel, LoadPhase
from engine.scoring import num_predicted_tokens, score_tokens
from engine.scoring_reference import Divergence, LogitsComparison, LogitsWriter, write_logits
from engine.terminal.arguments import config_of, read_file
from engine.terminal.models import find_model
from engine.terminal.output import Output


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Score a file or stdin."""

    def on_load(phase: LoadPhase, fraction: float, message: str) -> None:
        output.progress(f"{message} ... {fraction:.0%}")

    if arguments.tokens < 0:
        raise InvalidParameterError("--tokens cannot be negative; 0 is all of them.")
    text = read_file(arguments.file)
    model = load_model(LoadModel(find_model(arguments.model)), config_of(arguments), on_load)
    try:
        token_ids = model.tokenizer.encode_prompt([(text, False)])
        if arguments.tokens:
            token_ids = token_ids[: arguments.tokens]
        started = time.perf_counter()
        scores, divergence = _score(arguments, output, model, token_ids)
        seconds = time.perf_counter() - started
    finally:
        model.close()
        output.end_progress()
    mean = float(scores.mean())
    result: dict[str, Any] = {
        "model": model.info.name,
        "num_tokens": len(token_ids),
        "num_predicted": int(scores.size),
        "num_windows": -(-len(token_ids) // model.info.context_length),
        "mean_nll": mean,
        "perplexity": math.exp(mean) if mean < 700 else math.inf,
        "tokens_per_second": scores.size / seconds,
    }
    if divergence is not None:
        result["divergence"] = dataclasses.asdict(divergence)
    output.json({**result, **({"nll": scores.tolist()} if arguments.all else {})})
    output.text(
        f"mean negative log-likelihood {mean:.6f}, perplexity {result['perplexity']:.4f} "
        f"over {scores.size:,} of {len(token_ids):,} tokens ({result['tokens_per_second']:,.0f} tokens/s)"
    )
    if divergence is not None:
        output.text(
            f"KL divergence: mean {divergence.mean_kl:.6f}, median {divergence.median_kl:.6f}, "
            f"99% below {divergence.p99_kl:.6f}, largest {divergence.max_kl:.6f}; "
            f"same first choice {divergence.same_top:.2%}; "
            f"change of log-likelihood {divergence.mean_nll_change:+.6f}, "
            f"of the true token's probability {divergence.rms_probability_change:.4f} (root mean square)"
        )
    return 0


def _score(
    arguments: argparse.Namespace, output: Output, model: LoadedModel, token_ids: list[int]
) -> tuple[npt.NDArray[np.float64], Divergence | None]:
    """Likelihoods, with the logits written or compared as wished."""
    vocab_size, context_length = model.info.vocab_size, model.info.context_length
    sizes = (token_ids, num_predicted_tokens(len(token_ids), context_length), vocab_size)
    writer: LogitsWriter | None = None
    comparison: LogitsComparison | None = None

    def on_logits(logits: npt.NDArray[np.float32], targets: npt.NDArray[np.int32]) -> None:
        if writer is not None:
            writer.add(logits)
        if comparison is not None:
            comparison.add(logits, targets)

    with contextlib.ExitStack() as files:
        if arguments.against:
            comparison = LogitsComparison(Path(arguments.against), *sizes)
            files.callback(comparison.close)
        if arguments.save_logits and len(token_ids) > 1:
            writer = files.enter_context(write_logits(Path(arguments.save_logits), *sizes))
        scores = score_tokens(
            model.backend,
            token_ids,
            vocab_size=vocab_size,
            context_length=context_length,
            on_progress=lambda fraction: output.progress(f"Scoring ... {fraction:.0%}"),
            on_logits=on_logits,
        )
        return scores, comparison.result() if comparison is not None else None
