"""llguidance through its C interface: a vocabulary as it sees it, and a matcher that follows one grammar.

Its Python class would do, but for one thing: it holds the GIL while it indexes a vocabulary, for 2 s at 262,144
tokens, and the window with it. Calls through ``ctypes`` let other threads run. The structures are those of
``llguidance.h``; the library finds their version by ``struct_size``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from engine.errors import GenerationError, GrammarError

if TYPE_CHECKING:
    from engine.tokenizer.texts import TokenBytes

SPECIAL_MARK: Final = b"\xff"  # before the bytes of a token that no text may match
# How strings are cut into classes whose masks are kept: with these a mask inside a string takes 10 us, not 6 ms.
STRING_SLICES: Final = (
    r"[\x20\x0A\x0D\x09]+",
    r'[^"\\\x00-\x1F\x7F]{1,10}',
    r'[^"\\\x00-\x1F\x7F]{1,30}',
    r'[^"\\\x00-\x1F\x7F]+',
)
_MAX_FORCED: Final = 4096  # tokens taken at a time; more come with the next call
_ERROR_BYTES: Final = 4096

_TokenizeFunction = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint8),
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.c_size_t,
)


class _TokenizerInit(ctypes.Structure):
    """``LlgTokenizerInitV2``."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("vocab_size", ctypes.c_uint32),
        ("tok_eos", ctypes.c_uint32),
        ("token_lens", ctypes.c_void_p),
        ("token_bytes", ctypes.c_void_p),
        ("tokenizer_json", ctypes.c_char_p),
        ("tokenize_assumes_string", ctypes.c_bool),
        ("tokenize_fn", _TokenizeFunction),
        ("use_approximate_greedy_tokenize_fn", ctypes.c_bool),
        ("tokenize_user_data", ctypes.c_void_p),
        ("slices", ctypes.c_void_p),
        ("tok_eos_extra", ctypes.c_void_p),
        ("tok_eos_extra_count", ctypes.c_uint32),
    )


class _ParserLimits(ctypes.Structure):
    """``LlgParserLimits``; zeros are its defaults."""

    _fields_ = (
        ("max_items_in_row", ctypes.c_size_t),
        ("initial_lexer_fuel", ctypes.c_uint64),
        ("step_lexer_fuel", ctypes.c_uint64),
        ("step_max_items", ctypes.c_size_t),
        ("max_lexer_states", ctypes.c_size_t),
        ("max_grammar_size", ctypes.c_size_t),
        ("precompute_large_lexemes", ctypes.c_bool),
        ("verbose_errors", ctypes.c_bool),
    )


class _ConstraintInit(ctypes.Structure):
    """``LlgConstraintInit``."""

    _fields_ = (
        ("tokenizer", ctypes.c_void_p),
        ("log_buffer_level", ctypes.c_uint32),
        ("log_stderr_level", ctypes.c_uint32),
        ("ff_tokens_ok", ctypes.c_bool),
        ("backtrack_ok", ctypes.c_bool),
        ("limits", _ParserLimits),
    )


@cache
def _library() -> Any:
    """The shared library of the installed package, its functions typed."""
    found = importlib.util.find_spec("llguidance._lib")
    assert found is not None, "installed with the engine"
    library = ctypes.CDLL(str(found.origin))
    pointer, size, integer, boolean = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_bool
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "new_tokenizer_v2": (pointer, [pointer, ctypes.c_char_p, size]),
        "free_tokenizer": (None, [pointer]),
        "constraint_init_set_defaults": (None, [pointer, pointer]),
        "new_matcher": (pointer, [pointer, ctypes.c_char_p, ctypes.c_char_p]),
        "free_matcher": (None, [pointer]),
        "matcher_get_error": (ctypes.c_char_p, [pointer]),
        "matcher_compute_mask_into": (integer, [pointer, pointer, size]),
        "matcher_get_mask_byte_size": (size, [pointer]),
        "matcher_consume_token": (integer, [pointer, ctypes.c_uint32]),
        "matcher_is_accepting": (boolean, [pointer]),
        "matcher_is_stopped": (boolean, [pointer]),
        "matcher_validate_tokens": (integer, [pointer, pointer, size]),
        "matcher_compute_ff_tokens": (integer, [pointer, pointer, size]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"llg_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class TokenTable:
    """A vocabulary, indexed for grammars: made once a model, used by any number of matchers in any thread.

    Attributes:
        vocab_size: tokens; masks have a bit for each.
    """

    def __init__(
        self,
        token_bytes: TokenBytes,
        end_token_ids: Sequence[int],
        encode: Callable[[str], list[int]],
        slices: Sequence[str] = STRING_SLICES,
    ) -> None:
        """Index a vocabulary, during which other threads run.

        Args:
            token_bytes: what each token stands for; ``SPECIAL_MARK`` before those that no text may match.
            end_token_ids: tokens that end an answer, at least one.
            encode: text that continues a text to ids, safe to call from any thread.
            slices: classes of strings whose masks are kept; without any the table is made in half the time, and
                masks within strings take milliseconds.

        Raises GrammarError where the library refuses the vocabulary.
        """
        library = _library()
        self.vocab_size = token_bytes.lengths.size
        ends = np.asarray(list(end_token_ids), np.uint32)
        classes = (ctypes.c_char_p * (len(slices) + 1))(*(text.encode() for text in slices), None)
        self._callback = _callback(encode)  # as long as the library may call it
        init = _TokenizerInit(
            struct_size=ctypes.sizeof(_TokenizerInit),
            vocab_size=self.vocab_size,
            tok_eos=int(ends[0]),
            token_lens=token_bytes.lengths.ctypes.data,
            token_bytes=token_bytes.data.ctypes.data,
            tokenize_assumes_string=True,
            tokenize_fn=self._callback,
            slices=ctypes.cast(classes, ctypes.c_void_p),
            tok_eos_extra=ends[1:].ctypes.data if ends.size > 1 else None,
            tok_eos_extra_count=ends.size - 1,
        )
        message = ctypes.create_string_buffer(_ERROR_BYTES)
        self._handle: int | None = library.llg_new_tokenizer_v2(ctypes.byref(init), message, _ERROR_BYTES)
        if not self._handle:
            reason = message.value.decode("utf-8", "replace")
            raise GrammarError(f"This model's vocabulary cannot be used with grammars: {reason}.")
        weakref.finalize(self, library.llg_free_tokenizer, self._handle)

    def matcher(self, kind: str, text: str) -> Matcher:
        """A matcher at the start of a grammar.

        Args:
            kind: ``json_schema``, ``regex`` or ``lark``.
            text: the grammar, without NUL characters.

        Raises GrammarError with the library's reason.
        """
        library = _library()
        init = _ConstraintInit()
        library.llg_constraint_init_set_defaults(ctypes.byref(init), self._handle)
        init.log_buffer_level = init.log_stderr_level = 0
        handle = library.llg_new_matcher(ctypes.byref(init), kind.encode(), text.encode("utf-8"))
        matcher = Matcher(self, handle)
        reason = matcher.error()
        if reason:
            raise GrammarError(reason)
        return matcher


class Matcher:
    """Where a text stands in a grammar; one thread at a time."""

    def __init__(self, table: TokenTable, handle: int) -> None:
        """Takes over ``handle``, an ``LlgMatcher``."""
        library = _library()
        self._table = table  # outlives its matchers
        self._handle = handle
        self._library = library
        self._forced = np.empty(_MAX_FORCED, np.uint32)
        self._mask_bytes = -(-table.vocab_size // 32) * 4
        weakref.finalize(self, library.llg_free_matcher, handle)

    def error(self) -> str:
        """Why the grammar or a token was refused, in the library's words; "" where nothing was."""
        reason: bytes | None = self._library.llg_matcher_get_error(self._handle)
        return "" if reason is None else reason.decode("utf-8", "replace")

    def mask(self) -> npt.NDArray[np.uint32]:
        """(ceil(vocab_size / 32),) uint32: bit t % 32 of word t // 32 set where token t may follow.

        Raises GenerationError where the grammar has become too much to follow.
        """
        words = np.empty(self._mask_bytes // 4, np.uint32)
        if self._library.llg_matcher_compute_mask_into(self._handle, words.ctypes.data, self._mask_bytes):
            raise GenerationError(f"The grammar could not be followed: {_first_line(self.error())}")
        return words

    def forced_tokens(self) -> list[int]:
        """Tokens that must follow, as the tokenizer would write their text; often none."""
        count = self._library.llg_matcher_compute_ff_tokens(
            self._handle, self._forced.ctypes.data, self._forced.size
        )
        forced: list[int] = self._forced[: max(count, 0)].tolist()  # an error shows with the next mask
        return forced

    def consume(self, token_id: int) -> None:
        """Go on by one token. Raises GenerationError where it may not follow."""
        if self._library.llg_matcher_consume_token(self._handle, token_id):
            raise GenerationError(f"The grammar does not allow this token: {_first_line(self.error())}")

    def num_valid(self, token_ids: Sequence[int]) -> int:
        """How many of ``token_ids`` may follow here, in order; the matcher stays where it is."""
        ids = np.asarray(token_ids, np.uint32)
        return max(0, int(self._library.llg_matcher_validate_tokens(self._handle, ids.ctypes.data, ids.size)))

    @property
    def is_accepting(self) -> bool:
        """Whether the text so far is whole."""
        return bool(self._library.llg_matcher_is_accepting(self._handle)) and not self.error()

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more may follow."""
        return bool(self._library.llg_matcher_is_stopped(self._handle))


def _callback(encode: Callable[[str], list[int]]) -> Any:
    """``encode`` as the library calls it: bytes in, at most ``capacity`` ids out, the true number returned."""

    def tokenize(user_data: Any, data: Any, length: int, output: Any, capacity: int) -> int:
        ids = encode(ctypes.string_at(data, length).decode("utf-8", "replace"))
        for index, token_id in enumerate(ids[:capacity]):
            output[index] = token_id
        return len(ids)

    return _TokenizeFunction(tokenize)


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:300]
