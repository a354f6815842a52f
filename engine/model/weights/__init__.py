"""A model's tensors under the names the plan uses: bound by name, checked, normalised.

parts          what a layer's tensors are called here
binder         hands out the tensors of a file, checked
bind           the whole model; attention, feed_forward: parts of a layer
"""

from engine.model.weights.bind import bind_weights
from engine.model.weights.binder import MATRIX_TYPES
from engine.model.weights.parts import Weights

__all__ = ["MATRIX_TYPES", "Weights", "bind_weights"]
