"""Addresses as people write and copy them: of a hub, and of a model's page at one."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from engine.hub.faults import is_address
from engine.hub.names import is_repository

DEFAULT_ENDPOINT = "https://huggingface.co"
ENDPOINT_VARIABLE = "HF_ENDPOINT"
DEFAULT_PORTS = {"http": 80, "https": 443}
_PUBLIC_HOSTS = {"huggingface.co", "www.huggingface.co", "hf.co"}
_OTHER_PAGES = {"api", "blog", "collections", "datasets", "docs", "papers", "spaces"}  # no owners of models
_LOCAL_ENDINGS = (".local", ".lan", ".internal", ".home.arpa", ".localhost")


@dataclass(frozen=True)
class ModelPage:
    """What the address of a page names.

    Attributes:
        repository: ``owner/name``.
        file: in the repository; "" where the page is of no single file.
    """

    repository: str
    file: str = ""


def chosen_endpoint(chosen: str) -> str:
    """The hub to ask: the chosen one, else that of HF_ENDPOINT, else the public one; without a slash at the end."""
    text = chosen.strip() or os.environ.get(ENDPOINT_VARIABLE, "").strip() or DEFAULT_ENDPOINT
    return _with_scheme(text).rstrip("/")


def model_page(text: str, endpoint: str = DEFAULT_ENDPOINT) -> ModelPage | None:
    """What the address of a page at the public hub or at ``endpoint`` names; None for any other text."""
    text = text.strip()
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host, own = parts.netloc.lower(), urlsplit(endpoint)
    except ValueError:
        return None
    path = parts.path
    if own.netloc.lower() == host:
        path = path.removeprefix(own.path)
    elif host not in _PUBLIC_HOSTS:
        return None
    owner, name, kind, _, *file = [*[unquote(part) for part in path.split("/") if part], *[""] * 4][:400]
    if owner in _OTHER_PAGES or not is_repository(repository := f"{owner}/{name}"):
        return None
    return ModelPage(repository, "/".join(filter(None, file)) if kind in {"resolve", "blob", "raw"} else "")


def repository_name(text: str, endpoint: str = DEFAULT_ENDPOINT) -> str:
    """``owner/name`` where ``text`` is the address of a model's page, else ``text`` as it is."""
    page = model_page(text, endpoint)
    return text if page is None else page.repository


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address, by which it counts as the same server."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # no address that anything could be sent to
        return "", url, -1
    return parts.scheme, (parts.hostname or "").lower(), port or DEFAULT_PORTS.get(parts.scheme)


def _with_scheme(text: str) -> str:
    """A host without a scheme gets the one that such hosts speak; a lone word stays, for it is no host yet."""
    if "://" in text or not is_address(f"https://{text}"):
        return text
    parts = urlsplit(f"https://{text}")
    host = parts.hostname or ""
    if _is_local(host) or ("." not in host and ":" not in host and parts.port is not None):
        return f"http://{text}"
    return f"https://{text}" if "." in host or ":" in host else text


def _is_local(host: str) -> bool:
    """Whether the host is this machine or one beside it, where nobody has certificates."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(_LOCAL_ENDINGS)
    return address.is_private or address.is_loopback or address.is_link_local
