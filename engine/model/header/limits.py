"""The largest numbers of a header that are believed, so that a hostile one cannot make later stages loop by it."""

from __future__ import annotations

MAX_LAYERS = 1024
MAX_HEADS = 4096
MAX_WIDTH = 1 << 20
MAX_CONTEXT_LENGTH = 1 << 30
MAX_VOCAB_SIZE = 1 << 24
MAX_EXPERTS = 4096
MAX_STATE_VALUES = 1 << 24  # of one recurrent layer
MAX_EXPERTS_USED = 64
MAX_STREAMS = 16
MAX_LATENT_WIDTH = (
    1 << 13
)  # of what a head's own matrix reads, which the CPU keeps beside the product in its scratch
