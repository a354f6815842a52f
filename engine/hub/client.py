"""What the hub knows: search, the files and facts of a repository, its card. Metadata only; see ``transfer``.

Goes through ``huggingface_hub``. What it returns is untrusted: texts are bounded, numbers checked, and a record
that makes no sense is left out.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import httpx2
from huggingface_hub import HfApi, close_session
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from engine.errors import HubAccessError, HubAnswerError, HubNotFoundError, HubUnreachableError
from engine.hub.address import chosen_endpoint, repository_name
from engine.hub.connection import Connection
from engine.hub.faults import fault_of_exception, fault_of_status, is_address
from engine.hub.filters import SearchFilter
from engine.hub.names import FileGroups, RemoteFile, group_files, is_repository, printable
from engine.hub.session import Question
from engine.hub.tokens import is_token

MAX_FILES = 20_000
MAX_CARD_BYTES = 1 << 20
CARD_S = 30.0
MAX_RESULTS = 1000
MAX_SIFTED = 200
SPARE = 4  # times as many are asked for where a mirror may not have sifted
NO_FILTER = SearchFilter()
MAX_TEXT = 300
_SHA256 = re.compile(r"[0-9a-f]{64}")
_EXPAND: list[Any] = ["author", "downloads", "gated", "gguf", "lastModified", "likes", "private", "tags"]


class Sort(str, Enum):
    """Order of a search; each begins with the most."""

    TRENDING = "trending_score"
    DOWNLOADS = "downloads"
    LIKES = "likes"
    UPDATED = "last_modified"


@dataclass(frozen=True)
class HubModel:
    """One repository, as a search returns it.

    Attributes:
        repository: ``owner/name``.
        num_parameters, context_length: 0 where the hub does not say.
        architecture, license: "" where it does not say.
        gated: "" for anyone; "auto" and "manual" are how the owner grants access.
        updated: None where the hub does not say.
    """

    repository: str
    downloads: int = 0
    likes: int = 0
    num_parameters: int = 0
    context_length: int = 0
    architecture: str = ""
    license: str = ""
    gated: Literal["", "auto", "manual"] = ""
    is_private: bool = False
    updated: datetime.datetime | None = None
    tags: tuple[str, ...] = ()

    @property
    def owner(self) -> str:
        """Whose it is."""
        return self.repository.split("/", 1)[0]

    @property
    def name(self) -> str:
        """Its name for a person, without the owner and what only says that it is GGUF."""
        name = re.sub(r"[-_.]?GGUF\Z", "", self.repository.split("/", 1)[-1], flags=re.I)
        return (name or self.repository).replace("_", " ").replace("-", " ")


@dataclass(frozen=True)
class HubRepository:
    """A repository with its files.

    Attributes:
        model: its facts.
        revision: the commit that the files are of.
        groups: the files, sorted out.
    """

    model: HubModel
    revision: str
    groups: FileGroups


class HubClient:
    """Asks one hub. Any thread may use it; each call waits for the network.

    Every method raises HubError in one of its kinds.

    Attributes:
        connection: for files.
    """

    def __init__(self, endpoint: str = "", token: str = "") -> None:
        """``endpoint`` "" is that of HF_ENDPOINT, else the public hub; ``token`` "" asks as a stranger.

        Raises HubAnswerError for what is no address, HubAccessError for what is no token.
        """
        endpoint = chosen_endpoint(endpoint)
        if not is_address(endpoint):
            raise HubAnswerError(
                f"{endpoint[:MAX_TEXT]!r} is no address of a hub: write it as https://host, or leave it empty."
            )
        if token and not is_token(token):
            raise HubAccessError(
                "The access token has characters that no token has: copy it once more from the hub's settings "
                "page, into the window's models page or HF_TOKEN."
            )
        self.connection = Connection(endpoint, token)
        self._api = HfApi(endpoint=endpoint, token=token or False)
        self._token: str | bool = token or False

    @property
    def endpoint(self) -> str:
        """The hub's address."""
        return self.connection.endpoint

    def search(
        self,
        query: str = "",
        *,
        sort: Sort = Sort.TRENDING,
        wanted: SearchFilter = NO_FILTER,
        limit: int = 20,
    ) -> Iterator[HubModel]:
        """Models with GGUF files, at most ``limit``, page by page as they are taken.

        The address of a model's page finds that model.
        What the hub cannot sift by is sifted here, among the first MAX_SIFTED that it returns.
        """
        try:
            "".join((query, wanted.author, *wanted.tags)).encode()
        except UnicodeEncodeError as error:
            raise HubNotFoundError("What to search for has characters that are no text: type it again.") from error
        limit = max(0, min(limit, MAX_RESULTS))
        query = repository_name(query.strip(), self.endpoint)
        num_asked = MAX_SIFTED if wanted.sifts_here else limit if wanted == NO_FILTER else SPARE * limit
        items = self._asked(
            "the search",
            lambda: self._api.list_models(
                filter=wanted.tags,
                search=query[:MAX_TEXT] or None,
                author=wanted.author.strip() or None,
                sort=sort.value,
                gated=False if wanted.is_open_only else None,
                limit=max(num_asked, limit),
                expand=_EXPAND,
                token=self._token,
            ),
        )
        models = (model for item in items if (model := _model(item)) is not None and wanted.accepts(model))
        yield from itertools.islice(_each_once(models), limit)

    def repository(self, name: str, revision: str = "main") -> HubRepository:
        """A repository, by name or the address of its page, with its files, their sizes and hashes."""
        name = repository_name(name, self.endpoint)
        if not is_repository(name):
            raise HubNotFoundError(f"{name[:MAX_TEXT]!r} is no name of a model: write it as owner/name.")
        items = self._asked(
            name,
            lambda: [self._api.model_info(name, revision=revision, files_metadata=True, token=self._token)],
        )
        info = next(items)
        model, commit = _model(info), str(info.sha or "")
        if model is None or not re.fullmatch(r"[0-9a-f]{7,64}", commit):
            raise HubAnswerError(f"What the hub says of {name} makes no sense; try again later.")
        files = [file for sibling in (info.siblings or [])[:MAX_FILES] if (file := _file(sibling)) is not None]
        return HubRepository(model, commit, group_files(files))

    def card(self, repository: HubRepository) -> str:
        """The model card's text; "" where there is none."""
        name = repository.model.repository
        url = self.connection.file_url(name, "README.md", repository.revision)
        try:
            with self.connection.open(url, f"The card of {name}", 0, MAX_CARD_BYTES, within_s=CARD_S) as answer:
                text = b""
                for piece in answer.response.iter_bytes():  # some pack it although they are asked not to
                    text += piece
                    if len(text) >= MAX_CARD_BYTES:
                        break
        except HubNotFoundError:
            return ""
        except httpx2.HTTPError as error:
            raise fault_of_exception(error, url) from error
        return text[:MAX_CARD_BYTES].decode("utf-8", "replace")

    def close(self) -> None:
        """Let go of idle connections."""
        self.connection.close()

    def __enter__(self) -> HubClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _asked(self, subject: str, ask: Any) -> Iterator[Any]:
        """The items that ``ask`` returns; whatever goes wrong on the way is a HubError."""
        try:
            yield from Question(self.endpoint).items(ask)
        except HFValidationError as error:
            raise HubNotFoundError(f"{subject} is no name that the hub knows.") from error
        except HfHubHTTPError as error:
            response = error.response
            raise fault_of_status(response.status_code, response.headers, subject, str(response.url)) from error
        except HubUnreachableError:
            close_session()  # the next try learns anew which proxy and which certificates the system has
            raise
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise fault_of_exception(error, self.endpoint) from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise HubAnswerError(
                f"What {self.endpoint} sent is not what a hub sends: check the address, or sign in to the network."
            ) from error
        except RuntimeError as error:  # another thread found the hub out of reach and closed the connections
            raise HubUnreachableError(f"The connection to {self.endpoint} was cut; try again.") from error


def _each_once(models: Iterable[HubModel]) -> Iterator[HubModel]:
    """A list that changes between two pages shows some of its models on both, one in a circle all of them."""
    seen: set[str] = set()
    for model in models:
        if model.repository not in seen:
            seen.add(model.repository)
            yield model


def _model(info: Any) -> HubModel | None:
    """The facts of a ModelInfo, each checked; None where even the name is none."""
    repository = info.id if isinstance(info.id, str) else ""
    if not is_repository(repository):
        return None
    gguf = info.gguf if isinstance(info.gguf, dict) else {}
    tags = tuple(_text(tag) for tag in _items(info.tags) if isinstance(tag, str))
    gated: Literal["", "auto", "manual"] = "" if not info.gated else "auto" if info.gated == "auto" else "manual"
    return HubModel(
        repository=repository,
        downloads=_count(info.downloads),
        likes=_count(info.likes),
        num_parameters=_count(gguf.get("total")),
        context_length=_count(gguf.get("context_length")),
        architecture=_text(gguf.get("architecture")),
        license=next((tag.removeprefix("license:") for tag in tags if tag.startswith("license:")), ""),
        gated=gated,
        is_private=info.private is True,
        updated=info.last_modified if isinstance(info.last_modified, datetime.datetime) else None,
        tags=tags,
    )


def _file(sibling: Any) -> RemoteFile | None:
    path = getattr(sibling, "rfilename", None)
    if not isinstance(path, str):
        return None
    lfs = getattr(sibling, "lfs", None)
    sha256 = _text(_field(lfs, "sha256")).lower()
    size = _count(_field(lfs, "size")) or _count(getattr(sibling, "size", None))
    return RemoteFile(path, size, sha256 if _SHA256.fullmatch(sha256) else "")


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60 else 0


def _text(value: Any) -> str:
    return printable(value[:MAX_TEXT]) if isinstance(value, str) else ""
