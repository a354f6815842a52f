"""Text to token ids and back, from what a GGUF file says about its vocabulary.

vocabulary and texts (read and check the keys), pre_tokenizers (the families of byte-level BPE, as data), specials
(which tokens are markers, which end a generation), token_table and merges (what merges with what), bpe (encoders),
models (which encoder a vocabulary gets), tokenizer (the rules around them), detokenizer (streamed text). The loops
are compiled: ``*_kernels``.
"""

from engine.tokenizer.detokenizer import StreamingDetokenizer
from engine.tokenizer.tokenizer import Tokenizer, load_tokenizer

__all__ = ["StreamingDetokenizer", "Tokenizer", "load_tokenizer"]
