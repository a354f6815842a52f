"""Every error the engine raises, one tree.

    EngineError
    ├── ModelFileError            the file at ``path`` cannot be used as a model
    │   ├── NotGGUFError          it is something else (HTML page, LFS pointer, archive, empty ...)
    │   ├── ByteOrderError        a big-endian GGUF
    │   ├── SplitFileError        a raw byte split (``.part1of2``)
    │   ├── MissingShardsError    a shard set with holes
    │   ├── TruncatedFileError    the file ends before what its header promises
    │   ├── CorruptFileError      the header contradicts itself or the file
    │   └── MetadataError         a metadata key is absent or has the wrong type or range
    ├── UnsupportedModelError     a sound file that this version cannot run (never "damaged")
    ├── TemplateError             a chat template that is broken, hostile or too slow
    ├── RequestError              one request cannot be honoured; the engine goes on
    │   ├── ContextOverflowError  more tokens than the context holds
    │   ├── GrammarError          a schema or grammar that cannot be honoured
    │   └── InvalidParameterError a sampling or request parameter out of its range
    ├── GenerationError           a request failed while it ran
    │   └── NumericError          the model produced invalid numbers (NaN, or nothing left to choose)
    ├── ModelNotLoadedError       a request came while no model was loaded
    ├── InsufficientMemoryError   the model, or the context wished for, does not fit into memory
    ├── HubError                  the hub, or the way to it, refused or failed
    │   ├── HubUnreachableError   no connection: offline, proxy, certificate, time ran out
    │   ├── HubBusyError          too many requests, or the hub itself is in trouble
    │   ├── HubAccessError        a token is missing, wrong or not enough
    │   ├── HubNotFoundError      no such model, version or file
    │   └── HubAnswerError        what came is not what was asked for
    ├── InputError                a text, table or results file cannot be used
    └── DownloadError             a download cannot go on
        ├── DiskFullError         there is too little room
        ├── DamagedDownloadError  the bytes that came are not those the hub promised
        └── RemoteChangedError    the file at the hub is another one now

``str(error)`` is one sentence a person can act on: what is wrong, and what to do.
"""

from __future__ import annotations

from pathlib import Path


class EngineError(Exception):
    """Base of all errors that the engine raises on purpose."""


class ModelFileError(EngineError):
    """The file at ``path`` cannot be used as a model.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path | str, message: str) -> None:
        self.path = Path(path)
        # Linux allows names that are no Unicode; a message must survive being printed and stored.
        name = self.path.name.encode("utf-8", "backslashreplace").decode("utf-8")
        super().__init__(f"{name}: {message}")


class NotGGUFError(ModelFileError):
    """The file is not GGUF; the message says what it really is."""


class ByteOrderError(ModelFileError):
    """The file was written for a big-endian machine."""


class SplitFileError(ModelFileError):
    """The file is one raw part of a byte-split upload."""


class MissingShardsError(ModelFileError):
    """Files of a shard set are absent; the message lists their numbers."""


class TruncatedFileError(ModelFileError):
    """The file ends before what its header promises."""


class CorruptFileError(ModelFileError):
    """The header contradicts itself or the file."""


class MetadataError(ModelFileError):
    """A metadata key is absent, or has the wrong type or range.

    Attributes:
        key: the metadata key.
    """

    def __init__(self, path: Path | str, key: str, message: str) -> None:
        self.key = key
        super().__init__(path, f"{key}: {message}")


class UnsupportedModelError(ModelFileError):
    """A sound file whose architecture, tokenizer or layout this version cannot run."""


class TemplateError(EngineError):
    """A chat template that is broken, hostile, too slow or too long."""


class RequestError(EngineError):
    """A request that cannot be honoured as it stands."""


class ContextOverflowError(RequestError):
    """More tokens than the context holds.

    Attributes:
        num_tokens: tokens the request needs, or with ``is_least`` at least.
        context_length: tokens there is room for.
        can_drop_turns: without its oldest turns the conversation would fit.
    """

    def __init__(
        self, num_tokens: int, context_length: int, is_least: bool = False, can_drop_turns: bool = False
    ) -> None:
        self.num_tokens = num_tokens
        self.context_length = context_length
        self.is_least = is_least
        self.can_drop_turns = can_drop_turns
        count = f"at least {num_tokens:,}" if is_least else f"{num_tokens:,}"
        remedy = "go on without its oldest turns" if can_drop_turns else "shorten the message"
        super().__init__(
            f"The conversation needs {count} tokens but the context holds {context_length:,}; "
            f"{remedy}, start a new chat, or load the model with a larger context."
        )


class GrammarError(RequestError):
    """A schema or grammar that cannot be honoured, or can only be in part."""


class InvalidParameterError(RequestError):
    """A parameter of a request is out of its range."""


class GenerationError(EngineError):
    """A request failed while it ran; what was generated before stays valid."""


class NumericError(GenerationError):
    """The model produced invalid numbers."""


class ModelNotLoadedError(RequestError):
    """A request came while no model was loaded."""


class InsufficientMemoryError(EngineError):
    """The model, or the context wished for, does not fit into the memory that is free.

    Attributes:
        can_load_anyway: it is the machine that has too little, which swaps then, and not a limit that was set.
    """

    def __init__(self, message: str, *, can_load_anyway: bool = False) -> None:
        super().__init__(message)
        self.can_load_anyway = can_load_anyway


class HubError(EngineError):
    """The hub, or the way to it, refused or failed."""


class HubUnreachableError(HubError):
    """There is no connection; it may come back."""


class HubBusyError(HubError):
    """Too many requests, or the hub is in trouble.

    Attributes:
        retry_after_s: how long the hub asks to wait; None where it does not say.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class HubAccessError(HubError):
    """A token is missing, wrong or not enough."""


class HubNotFoundError(HubError):
    """No such model, version or file."""


class HubAnswerError(HubError):
    """What came is not what was asked for."""


class InputError(EngineError):
    """A text, a table or a results file cannot be used; the message is one sentence for the person."""


class DownloadError(EngineError):
    """A download cannot go on."""


class DiskFullError(DownloadError):
    """There is too little room.

    Attributes:
        missing_bytes: what has to be freed.
    """

    def __init__(self, message: str, missing_bytes: int) -> None:
        self.missing_bytes = missing_bytes
        super().__init__(message)


class DamagedDownloadError(DownloadError):
    """The bytes that came are not those that the hub promised."""


class RemoteChangedError(DownloadError):
    """The file at the hub is another one now."""


def sentence_of(error: BaseException | None) -> str:
    """What to tell the person about ``error``."""
    if isinstance(error, EngineError):
        return str(error)
    if isinstance(error, MemoryError):
        return "There is not enough memory; close other programs or choose a smaller model."
    return f"An internal error occurred ({type(error).__name__}: {error}); please report it."
