"""Text to token ids and back, from what a GGUF file says about its vocabulary.

vocabulary (reads and checks the keys), pre_tokenizers (the families of byte-level BPE, as data), specials (which
tokens are markers, which end a generation), merges (SentencePiece scores to merges), models (encoders built with
the `tokenizers` library), tokenizer (the rules around them), detokenizer (streamed text).
"""

from engine.tokenizer.detokenizer import StreamingDetokenizer
from engine.tokenizer.tokenizer import Tokenizer, load_tokenizer

__all__ = ["StreamingDetokenizer", "Tokenizer", "load_tokenizer"]
