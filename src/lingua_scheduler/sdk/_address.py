"""Where a scheduler is: one address, whichever of http, https, ws and wss it is written with."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from urllib.parse import SplitResult

DEFAULT_URL: Final = "http://127.0.0.1:5010"
#: Whether a scheme is a secure one.
_SCHEMES: Final = {"http": False, "https": True, "ws": False, "wss": True}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a scheduler is. Any of http, https, ws and wss names the same door."""

    secure: bool
    netloc: str
    path: str = ""

    @classmethod
    def parse(cls, url: str) -> Address:
        """The address of a URL; `host:port` alone will do. `ValueError` says what is wrong with another text."""
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            why = _why_not(url, parts)
        except ValueError:
            why = "its host or port cannot be read"
        if why:
            shown = _without_secrets(url)
            raise ValueError(f"{shown!r} is not the address of a scheduler: {why}; it looks like {DEFAULT_URL}")
        return cls(_SCHEMES[parts.scheme], parts.netloc, parts.path.rstrip("/"))

    def __str__(self) -> str:
        """As a person writes it."""
        return self.http()

    def http(self, path: str = "") -> str:
        """The URL of something there."""
        return self._url("https" if self.secure else "http", path)

    def ws(self, path: str) -> str:
        """The URL of a socket there."""
        return self._url("wss" if self.secure else "ws", path)

    def _url(self, scheme: str, path: str) -> str:
        return urlunsplit((scheme, self.netloc, self.path + path, "", ""))

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine: no proxy is asked then."""
        host = urlsplit(f"//{self.netloc}").hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(host).is_loopback
        return False


def address_of(url: str | None) -> Address:
    """The address to go to; without one that of LINGUA_URL, else that of a scheduler on this machine."""
    return Address.parse(url or os.environ.get("LINGUA_URL") or DEFAULT_URL)


def _why_not(url: str, parts: SplitResult) -> str:
    """What is wrong with an address; "": nothing. `ValueError` if its host or port cannot be read."""
    _ = parts.port
    wrong = {
        f"it begins with none of {', '.join(_SCHEMES)}": parts.scheme not in _SCHEMES,
        "who you are is told by a token, never in an address": "@" in parts.netloc,
        "it names no host": not parts.hostname,
        "nothing may follow its path": bool(parts.query or parts.fragment),
        "there is a space in it": any(char.isspace() for char in url),
    }
    return next((why for why, is_so in wrong.items() if is_so), "")


def _without_secrets(url: str) -> str:
    """An address for an error message, which ends up in logs."""
    return re.sub(r"([?#]).*", r"\1…", re.sub(r"//.*@", "//…@", url, flags=re.DOTALL), flags=re.DOTALL)
