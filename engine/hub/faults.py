"""What goes wrong between here and the hub, each in one sentence: what is wrong, and what to do."""

from __future__ import annotations

import email.utils
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import httpx2

from engine.errors import (
    HubAccessError,
    HubAnswerError,
    HubBusyError,
    HubError,
    HubNotFoundError,
    HubUnreachableError,
)
from engine.hub.http_client import proxy_for

MAX_SHOWN = 120
_ERRNO = re.compile(r"\[(Errno|WinError) -?\d+\] *")


def fault_of_status(status: int, headers: Mapping[str, str], subject: str, url: str) -> HubError:
    """The error of an answer with a status of 400 or more.

    Args:
        headers: of the answer; names in lower case.
        subject: what was asked for, for the sentence.
        url: that was asked.
    """
    host = host_of(url)
    code = headers.get("x-error-code", "")
    if code == "GatedRepo" or (status == 403 and code != "RepoNotFound"):
        return HubAccessError(
            f"{subject} is open only to those who accept its terms: accept them on its page at {host}, then set "
            "an access token of that account, in the window's models page or as HF_TOKEN "
            f"(the hub answered {status})."
        )
    if status == 401:
        return HubAccessError(
            f"{subject} does not exist, or is private, or the access token is wrong: check the name, and set a "
            "token that may read it, in the window's models page or as HF_TOKEN (the hub answered 401)."
        )
    if status == 407:
        return HubUnreachableError("The proxy asks for a name and a password: set them in the proxy's address.")
    if status in {404, 410}:
        return HubNotFoundError(
            f"{subject} is not at {host}: it may have been renamed or removed; search for it again."
        )
    if status == 429:
        wait = retry_after_s(headers)
        when = f"in {_duration(wait)}" if wait is not None else "in a few minutes"
        return HubBusyError(f"{host} has had too many requests from here; try again {when}.", wait)
    if status >= 500 or status in {408, 425}:
        return HubBusyError(
            f"{host} is in trouble (it answered {status}); try again in a few minutes.", retry_after_s(headers)
        )
    return HubAnswerError(f"{host} refused the request for {subject} (it answered {status}).")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the answer asks to wait, from ``Retry-After`` in seconds or as a date; None where it does not."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def fault_of_exception(error: Exception, url: str) -> HubError:
    """The error of a request that got no answer."""
    host = host_of(url)
    causes = list(_causes(error))
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes) or any(
        "CERTIFICATE_VERIFY_FAILED" in str(cause) for cause in causes
    ):
        return HubUnreachableError(
            f"The certificate of {host} is not trusted here: if a proxy or a virus scanner opens connections, "
            "name its certificate in SSL_CERT_FILE; otherwise check the clock and the address."
        )
    if isinstance(error, httpx2.ProxyError) and str(error).startswith("407"):
        return fault_of_status(407, {}, host, url)
    if isinstance(error, httpx2.ProxyError):
        return HubUnreachableError(
            f"The proxy refused the way to {host} ({_shown(error)}): check HTTPS_PROXY and the proxy's settings."
        )
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout) and (proxy := proxy_for(url)):
        return HubUnreachableError(
            f"The proxy {proxy}, which leads to {host}, cannot be reached: check HTTPS_PROXY and the connection."
        )
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return HubUnreachableError(
            f"No secure connection to {host} could be made ({_shown(error)}): check the address, which for a plain "
            "connection begins with http://."
        )
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return HubUnreachableError(f"{host} cannot be found: check the connection to the internet.")
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return HubUnreachableError(f"{host} does not answer: check the connection to the internet.")
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL | httpx2.LocalProtocolError):
        return HubAnswerError(f"{url[:MAX_SHOWN]} is no address that can be asked.")
    if isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError):
        return HubUnreachableError(f"The connection to {host} was cut.")
    if isinstance(error, httpx2.TransportError | ConnectionError):
        return HubUnreachableError(f"{host} cannot be reached ({_shown(error)}): check the connection.")
    if isinstance(error, httpx2.TooManyRedirects):
        return HubAnswerError(f"{host} sends us in circles: check the address, or sign in to the network.")
    if isinstance(error, httpx2.DecodingError):
        return HubAnswerError(f"What {host} sent cannot be decoded.")
    return HubAnswerError(f"{host} answered in a way that is not understood ({_shown(error)}).")


def fault_of_slowness(url: str) -> HubError:
    """The error of an answer that was waited for long enough, whatever came of it."""
    return HubUnreachableError(f"{host_of(url)} did not answer in time: check the connection, or try again later.")


def is_address(url: str) -> bool:
    """Whether this begins as the address of a server does."""
    try:
        url.encode()  # what cannot be written cannot be asked
        parts = urlsplit(url)
        if re.search(r"\s", url):
            return False
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def host_of(url: str) -> str:
    """The host in an address, for a sentence; of what is no address its beginning."""
    try:
        return urlsplit(url).hostname or url[:MAX_SHOWN]
    except ValueError:
        return url[:MAX_SHOWN]


def _duration(seconds: float) -> str:
    """A wait in the unit that people use for it."""
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and those behind it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _shown(error: Exception) -> str:
    text = _ERRNO.sub("", " ".join(str(error).split())) or type(error).__name__
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
