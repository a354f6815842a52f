"""A model's numbers, tensors and plan, made from its file.

``hyperparameters`` reads and checks the header, ``weights`` binds the tensors, ``builder`` makes the ``plan`` that
a backend executes; ``architectures`` holds one row of data for each architecture. Nothing here computes a token.
"""

from engine.model.builder import build_plan, load_plan
from engine.model.hyperparameters import Hyperparameters, LayerHyperparameters, read_hyperparameters
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
