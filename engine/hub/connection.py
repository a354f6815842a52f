"""Requests to the hub and to where it sends us: redirects by hand, the token for the hub's origin alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

import httpx2

from engine.errors import HubAnswerError, HubError, RemoteChangedError
from engine.hub.address import DEFAULT_ENDPOINT, DEFAULT_PORTS, origin_of
from engine.hub.faults import fault_of_exception, fault_of_slowness, fault_of_status, host_of
from engine.hub.http_client import new_http
from engine.hub.sockets import Sockets

CONNECT_TIMEOUT_S = 10.0
STALLED_AFTER_S = 20.0
ANSWER_S = CONNECT_TIMEOUT_S + STALLED_AFTER_S  # until the headers of an answer are here
MAX_REDIRECTS = 8
_REDIRECTS = {301, 302, 303, 307, 308}


@dataclass(frozen=True)
class Answer:
    """An open answer, its body not yet read.

    Attributes:
        response: 200 or 206.
        linked: headers of the hub's own answer, which names size and hash of the file behind a redirect.
        url: where the body comes from.
    """

    response: httpx2.Response
    linked: Mapping[str, str]
    url: str


class Connection:
    """Opens files at one endpoint. Any thread may use it; each request has its own answer.

    Attributes:
        endpoint: of the hub, without a slash at the end.
        read_timeout_s: a read that gets nothing for so long ends with an error.
    """

    def __init__(
        self, endpoint: str = DEFAULT_ENDPOINT, token: str = "", read_timeout_s: float = STALLED_AFTER_S
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        self.read_timeout_s = read_timeout_s
        self._token = token
        self._timeout = httpx2.Timeout(CONNECT_TIMEOUT_S, read=read_timeout_s, pool=None)
        self._client: httpx2.Client | None = None
        self._sockets = Sockets()
        self._lock = threading.Lock()

    def file_url(self, repository: str, path: str, revision: str) -> str:
        """The address of a file."""
        return f"{self.endpoint}/{repository}/resolve/{quote(revision, safe='')}/{quote(path)}"

    @contextlib.contextmanager
    def open(
        self, url: str, subject: str, start: int = 0, stop: int | None = None, *, within_s: float | None = None
    ) -> Iterator[Answer]:
        """Ask for bytes ``start`` to ``stop`` of a file (not included; None is its end).

        ``within_s`` is the time for all of it, its body included; without, the beginning of an answer has
        ANSWER_S, and its body as long as it takes.

        Raises HubError, in one of its kinds, for an address that gives nothing, and RemoteChangedError where the
        file ends before ``start``. What goes wrong while the body is
        read is the reader's affair.
        """
        headers = {"Accept-Encoding": "identity"}
        if start or stop is not None:
            headers["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        linked: dict[str, str] = {}
        with contextlib.ExitStack() as opened:
            if within_s is not None:
                opened.enter_context(self._limited(within_s, url))
            response = self._get(url, headers, opened)
            for _ in range(MAX_REDIRECTS):
                if response.status_code not in _REDIRECTS:
                    break
                linked |= {name: value for name, value in response.headers.items() if name.startswith("x-")}
                url = self._target(url, response)
                response.close()
                response = self._get(url, headers, opened)
            else:
                raise HubAnswerError(f"{host_of(url)} sends us in circles for {subject}: check the hub's address.")
            if response.status_code == 416 and start == 0:
                raise HubAnswerError(f"{subject} is empty at the hub: choose another version.")
            if response.status_code == 416:
                raise RemoteChangedError(f"{subject} is shorter at the hub than the part that is here.")
            if response.status_code >= 400:
                raise fault_of_status(response.status_code, response.headers, subject, url)
            if response.status_code not in {200, 206}:
                raise HubAnswerError(f"{host_of(url)} answered {response.status_code} for {subject}.")
            own = {name: value for name, value in response.headers.items() if name.startswith("x-")}
            yield Answer(response, {**own, **linked}, url)

    def cut(self) -> None:
        """End what is under way, from any thread; nothing can be asked any more."""
        self._sockets.shut()

    def close(self) -> None:
        """Let go of idle connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _get(self, url: str, headers: dict[str, str], opened: contextlib.ExitStack) -> httpx2.Response:
        if self._token and origin_of(url) == origin_of(self.endpoint):
            headers = {**headers, "Authorization": f"Bearer {self._token}"}
        try:
            with self._limited(ANSWER_S, url):
                request = self._http().stream(
                    "GET", url, headers=headers, extensions={"trace": self._sockets.trace}
                )
                return opened.enter_context(request)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise fault_of_exception(error, url) from error

    @contextlib.contextmanager
    def _limited(self, seconds: float, url: str) -> Iterator[None]:
        """Raises HubUnreachableError for what has not ended by then."""
        with self._sockets.limit(seconds) as is_over:
            try:
                yield
            except (httpx2.HTTPError, OSError, HubError) as error:
                if is_over.is_set():
                    raise fault_of_slowness(url) from error
                raise
            if is_over.is_set():  # what was cut may look like the end of an answer without a length
                raise fault_of_slowness(url)

    def _http(self) -> httpx2.Client:
        with self._lock:
            if self._client is None:
                self._client = new_http(httpx2.Client, timeout=self._timeout, follow_redirects=False)
            return self._client

    def _target(self, url: str, response: httpx2.Response) -> str:
        try:
            target = urljoin(url, response.headers.get("location", ""))
            scheme = urlsplit(target).scheme
        except ValueError:  # brackets without an address between them
            target = scheme = ""
        if scheme not in DEFAULT_PORTS or (scheme == "http" and url.startswith("https:")):
            raise HubAnswerError(f"{host_of(url)} sends us to an address that is not safe.")
        return target
