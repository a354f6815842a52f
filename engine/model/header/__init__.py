"""The header of a file, read and checked into ``Hyperparameters`` before any weight is touched.

read       the numbers of the whole model
layers     the shape of each layer: heads, windows, what turns
rope       rotations; experts: the mixture; latent: compressed keys and values; recurrence: states
keys       typed access with ranges; limits: the largest numbers that are believed
"""

from engine.model.header.read import read_hyperparameters

__all__ = ["read_hyperparameters"]
