"""What ``huggingface_hub`` asks through: the token for one origin alone, and an end to every question.

The library sends its headers to whatever address an answer names next, waits for ever and takes what comes; the
limits here hold for all that one question makes it do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import httpx2
from huggingface_hub import set_client_factory

from engine.errors import HubAnswerError
from engine.hub.address import origin_of
from engine.hub.connection import CONNECT_TIMEOUT_S, MAX_REDIRECTS, STALLED_AFTER_S
from engine.hub.faults import fault_of_exception, fault_of_slowness, fault_of_status, host_of
from engine.hub.http_client import new_http
from engine.hub.sockets import Sockets

QUESTION_S = 60.0  # all that one question may wait for the network
MAX_EMPTY_PAGES = 20  # pages in a row without anything on them
MAX_ANSWER_BYTES = 64 << 20  # of one answer, unpacked
_END = object()


class Question:
    """One question to a hub, which the library may make several requests of.

    Attributes:
        endpoint: of the hub; its origin alone gets the token.
        left_s: how long it may still wait.
        num_requests: since the last thing that came of it.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.left_s = QUESTION_S
        self.num_requests = 0

    def items(self, ask: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        """What ``ask`` returns, piece by piece; the time that the caller takes in between does not count."""
        items = self._step(lambda: iter(ask()))
        while (item := self._step(lambda: next(items, _END))) is not _END:
            yield item

    def _step(self, work: Callable[[], Any]) -> Any:
        token, self.num_requests, started = _question.set(self), 0, time.monotonic()
        try:
            return work()
        finally:
            self.left_s -= time.monotonic() - started
            _question.reset(token)

    def admit(self, request: httpx2.Request) -> None:
        """Take the token off a request to elsewhere; raises HubAnswerError for one that is not to be made."""
        is_secure = self.endpoint.startswith("https:")
        if request.url.scheme not in {"http", "https"} or (is_secure and request.url.scheme == "http"):
            raise HubAnswerError(f"{host_of(self.endpoint)} sends us to an address that is not safe.")
        if origin_of(str(request.url)) != origin_of(self.endpoint):
            request.headers.pop("Authorization", None)


_question: ContextVar[Question] = ContextVar("question")


class _Session(httpx2.Client):
    """The library's way to the network; each request has a connection of its own, which its deadline can cut."""

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        question = _question.get()
        question.num_requests += 1
        if question.num_requests > MAX_EMPTY_PAGES:
            raise HubAnswerError(f"{host_of(question.endpoint)} sends page after page with nothing on it.")
        sockets, url = Sockets(), str(request.url)
        with sockets.limit(question.left_s) as is_over:
            try:
                response = self._follow(request, question, sockets, options)
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
                if is_over.is_set():
                    raise fault_of_slowness(url) from error
                raise fault_of_exception(error, url) from error
            if is_over.is_set():  # what was cut may look like the end of an answer without a length
                raise fault_of_slowness(url)
        if response.status_code == 429 or response.status_code >= 500:
            raise fault_of_status(response.status_code, response.headers, "the hub", url)
        return response

    def _follow(
        self, request: httpx2.Request, question: Question, sockets: Sockets, options: dict[str, Any]
    ) -> httpx2.Response:
        """The answer behind the redirects, read."""
        host = host_of(str(request.url))
        for _ in range(MAX_REDIRECTS):
            question.admit(request)
            request.extensions = {**request.extensions, "trace": sockets.trace}
            response = super().send(request, **{**options, "stream": True, "follow_redirects": False})
            try:
                if response.next_request is None and not response.has_redirect_location:
                    return _whole(response)
            finally:
                response.close()
            if response.next_request is None:
                raise HubAnswerError(f"{host} sends us to an address that is not safe.")
            request = response.next_request
        raise HubAnswerError(f"{host} sends us in circles: check the address, or sign in to the network.")


def _whole(response: httpx2.Response) -> httpx2.Response:
    """The answer with its body, unpacked. Raises HubAnswerError for one that is too long."""
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise HubAnswerError(
                f"{host_of(str(response.url))} sent more than {MAX_ANSWER_BYTES >> 20} MB, which is not what a hub "
                "sends: check the address."
            )
    dropped = {"content-encoding", "content-length", "transfer-encoding"}
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in dropped]
    return httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=response.request)


def _new_session() -> _Session:
    return new_http(
        _Session,
        timeout=httpx2.Timeout(STALLED_AFTER_S, connect=CONNECT_TIMEOUT_S),
        limits=httpx2.Limits(max_keepalive_connections=0),
    )


set_client_factory(_new_session)
