"""A model's numbers, tensors and plan, made from its file.

``header`` reads and checks the header into ``hyperparameters``, ``weights`` binds the tensors, ``graph`` makes the
``plan`` that a backend executes; ``architectures`` holds one row of data for each architecture. Nothing here
computes a token.
"""

from engine.model.graph import build_plan, load_plan
from engine.model.header import read_hyperparameters
from engine.model.hyperparameters import Hyperparameters, LayerHyperparameters
from engine.model.weights import Weights, bind_weights

__all__ = [
    "Hyperparameters",
    "LayerHyperparameters",
    "Weights",
    "bind_weights",
    "build_plan",
    "load_plan",
    "read_hyperparameters",
]
