"""The choices as paths of tokens in a trie, and the log-probabilities along them.

A choice that is the beginning of another ("1" of "10") shares its path and is told from it by a terminator: every
choice counts with the probability that the answer ends after it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from engine.grammar.certainty import log_sum_exp

Path = tuple[int, ...]


class LabelTrie:
    """Paths of the choices after one prompt.

    Attributes:
        leaves: the paths that are no beginning of another; one pass over these sees every node.
    """

    def __init__(self, paths: Sequence[Path], terminators: Collection[int]) -> None:
        """``paths`` are the choices' tokens, each different; ``terminators`` the tokens that end an answer."""
        self.paths = tuple(paths)
        self.leaves = [
            path for path in paths if not any(other != path and other[: len(path)] == path for other in paths)
        ]
        self._terminators = np.asarray(sorted(terminators), np.int64)
        self._children: dict[Path, set[int]] = {}
        for path in paths:
            for depth, token_id in enumerate(path):
                self._children.setdefault(path[:depth], set()).add(token_id)
        self._logprobs: dict[Path, float] = {}  # of a node's last token after those before it
        self._ends: dict[Path, float] = {}  # of an end after a node

    def see(self, node: Path, row: npt.NDArray[np.float32]) -> None:
        """Take up the logits after the tokens of ``node``, (vocab_size,)."""
        normalizer = log_sum_exp(row)
        for token_id in self._children.get(node, ()):
            self._logprobs[(*node, token_id)] = float(row[token_id]) - normalizer
        self._ends[node] = log_sum_exp(row[self._terminators]) - normalizer

    def logprobs(self) -> list[float]:
        """The log-probability of each choice, its end included, in the order of ``paths``."""
        return [
            math.fsum(self._logprobs[path[: depth + 1]] for depth in range(len(path))) + self._ends[path]
            for path in self.paths
        ]


class LabelProbe:
    """Shows a trie the logits of one sequence that ends with the tokens of a path; a ``LogitsProbe``."""

    def __init__(self, trie: LabelTrie, num_prompt_tokens: int, path: Path) -> None:
        self._trie = trie
        self._num_prompt_tokens = num_prompt_tokens
        self._path = path

    def wants(self, start: int, end: int) -> bool:
        return end > self._num_prompt_tokens

    def see(self, token_ids: Sequence[int], first: int, rows: npt.NDArray[np.float32]) -> None:
        for offset, row in enumerate(rows):
            depth = first + offset + 1 - self._num_prompt_tokens
            if 0 <= depth <= len(self._path):
                self._trie.see(self._path[:depth], row)
