"""Binding of what several residual streams need."""

from __future__ import annotations

import numpy as np

from engine.model.plan import Tensor
from engine.model.weights.binder import Binder, float_tensor, rows, scaled
from engine.model.weights.parts import Linear, NormWeights, StreamEnds, StreamWeights


def bind_stream_ends(binder: Binder, num_streams: int, width: int) -> StreamEnds:
    """The projections to and from the streams beside the active one."""
    entry = binder.matrix("altup_proj.weight", num_streams - 1, width, width)
    leaving = binder.matrix("altup_unembd_proj.weight", num_streams - 1, width, width)
    parts = [rows(leaving, index, index + 1) for index in range(num_streams - 1)]
    return StreamEnds(
        entry=Tensor(entry.name, entry.type, ((num_streams - 1) * width, width), entry.data),
        exits=tuple(Tensor(part.name, part.type, (width, width), part.data) for part in parts),
    )


def bind_streams(binder: Binder, prefix: str, num_streams: int, width: int) -> StreamWeights:
    """A layer's part in the streams; what the coefficients are added to becomes the matrices' biases."""
    norm = binder.vector(f"{prefix}altup_router_norm.weight", width)
    predict = binder.matrix(f"{prefix}altup_predict_coef.weight", num_streams**2, num_streams)
    correct = binder.matrix(f"{prefix}altup_correct_coef.weight", num_streams, num_streams)
    rank = binder.num_rows(f"{prefix}laurel_l.weight")
    identity = np.eye(num_streams, dtype=np.float32).reshape(-1)
    return StreamWeights(
        router_norm=NormWeights(scaled(norm, 1.0 / width)),
        router=binder.linear(f"{prefix}altup_router", num_streams, width),
        predict=Linear(predict, float_tensor(f"{prefix}altup_predict_coef.bias", identity)),
        correct=Linear(correct, float_tensor(f"{prefix}altup_correct_coef.bias", np.ones(num_streams, np.float32))),
        active_scale=binder.vector(f"{prefix}altup_correct_scale.weight", width),
        low_rank_down=binder.linear(f"{prefix}laurel_l", rank, width),
        low_rank_up=binder.linear(f"{prefix}laurel_r", width, rank),
        low_rank_norm=binder.norm(f"{prefix}laurel_post_norm", width),
    )
