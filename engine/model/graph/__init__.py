"""From hyperparameters and weights to the plan: the one graph that all architectures share.

    build          the whole model: embedding, layers, logits
    graph          collects ops and the buffers they name
    attention, latent, recurrence, feed_forward, experts, layer_embedding    parts of a layer

Reads the row of data where architectures differ; executes nothing.
"""

from engine.model.graph.build import build_plan, load_plan

__all__ = ["build_plan", "load_plan"]
