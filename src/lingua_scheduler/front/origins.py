"""From which web pages, and under which names, this instance may be called.

A page of anybody can make the browser of its visitor call us. The browser says which page it is (`Origin`), and by
which name it found us (`Host`): a name that is not ours was made to point here by somebody else.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.auth import address_of

if TYPE_CHECKING:
    from lingua_scheduler.config.doors import Server


_SCHEMES: Final = ("http", "https")
ONE_HOST: Final = Refusal("INVALID_MESSAGE", "A request has one Host header.")


def is_loopback(host: str) -> bool:
    """Whether only this machine can mean this host."""
    address = address_of(host)
    return host == "localhost" or host.endswith(".localhost") if address is None else address.is_loopback


def is_own(host: str | None, origin: str) -> bool:
    """Whether a page comes from the very server that it calls, by the name by which it calls it."""
    scheme, _, netloc = origin.lower().partition("://")
    return host is not None and scheme in _SCHEMES and netloc == host.lower()


class Origins:
    """The names and the pages that the settings allow."""

    def __init__(self, settings: Server) -> None:
        self._is_loopback = is_loopback(settings.host)
        self._allowed = frozenset(origin.lower() for origin in settings.allowed_origins)
        hosts = {settings.host, *settings.allowed_hosts, *(host_of(urlsplit(one).netloc) for one in self._allowed)}
        self._hosts = frozenset(host.lower() for host in hosts)
        # Callers are few and call often. What strangers make up pushes out only itself.
        self.check = functools.lru_cache(maxsize=1_024)(self._check)

    def _check(self, host: str | None, origin: str | None) -> Refusal | None:
        """None if the caller may be heard. No `Origin`: it is no page."""
        if host is None:
            return ONE_HOST
        if not self._is_ours(host_of(host)):
            return Refusal("FORBIDDEN", "This instance is not called that; server.allowed_hosts lists its names.")
        if origin is None or self.allows(host, origin):
            return None
        return Refusal("FORBIDDEN", "Pages from there may not call this instance; see server.allowed_origins.")

    def allows(self, host: str, origin: str) -> bool:
        """Whether a page may call us: one of ours, an allowed one, and on loopback any of loopback."""
        origin = origin.lower()
        if origin in self._allowed:
            return True
        scheme, _, netloc = origin.partition("://")
        is_near = self._is_loopback and scheme in _SCHEMES and is_loopback(host_of(netloc))
        return is_near or is_own(host, origin)

    def _is_ours(self, host: str) -> bool:
        """An address cannot be made to point elsewhere; a name can. On loopback, only loopback is ours."""
        if host in self._hosts or "*" in self._hosts or is_loopback(host):
            return True
        return not self._is_loopback and address_of(host) is not None


def host_of(netloc: str) -> str:
    """The host without its port, in small letters, without the brackets of an IPv6 address."""
    netloc = netloc.lower()
    if netloc.startswith("["):
        return netloc[1:].partition("]")[0]
    return netloc.partition(":")[0].rstrip(".")
