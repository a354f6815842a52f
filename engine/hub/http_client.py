"""Makes the HTTP library's clients, with what the system and the environment say of proxies and certificates."""

from __future__ import annotations

import os
import ssl
import urllib.request
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2

from engine.errors import HubUnreachableError

Http = TypeVar("Http", bound=httpx2.Client)


def new_http(kind: type[Http], **options: Any) -> Http:
    """A client of the HTTP library with the proxies and certificates of the system.

    Raises HubUnreachableError, which names what of them cannot be used.
    """
    try:
        context = httpx2.create_ssl_context()
    except (OSError, ValueError) as error:
        name = "SSL_CERT_FILE" if os.environ.get("SSL_CERT_FILE") else "SSL_CERT_DIR"
        raise HubUnreachableError(
            f"No certificates can be read from {os.environ.get(name, '')!r}: set {name} to where they are, "
            "or unset it."
        ) from error
    try:
        return kind(verify=context, **options)
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        raise HubUnreachableError(
            f"The proxy {_unusable_proxy(context)} cannot be used: write it as http://host:port in HTTP_PROXY, "
            "HTTPS_PROXY and ALL_PROXY (SOCKS proxies are not supported), or leave it out."
        ) from error


def proxy_for(url: str) -> str:
    """The proxy that requests to ``url`` go through, without its password; "" where they go straight."""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.partition(":")[0].lower()) or proxies.get("all") or ""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    return "" if not proxy or urllib.request.proxy_bypass(host) else _shown(proxy)[1]


def _unusable_proxy(context: ssl.SSLContext) -> str:
    """The proxy of the environment that no client can be made for."""
    for scheme in ("http", "https", "all"):
        if proxy := urllib.request.getproxies().get(scheme, ""):
            try:
                httpx2.HTTPTransport(verify=context, proxy="://".join(_split(proxy))).close()
            except (ImportError, ValueError, httpx2.InvalidURL):
                return "://".join(_shown(proxy))
    return "of the environment"


def _split(proxy: str) -> tuple[str, str]:
    """Scheme and the rest."""
    scheme, separator, rest = proxy.partition("://")
    return (scheme, rest) if separator else ("http", proxy)


def _shown(proxy: str) -> tuple[str, str]:
    """Scheme, and the rest without name and password."""
    scheme, rest = _split(proxy)
    return scheme, rest.rpartition("@")[2].rstrip("/")
