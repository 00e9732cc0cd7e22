"""How one gets to the scheduler: its address, the token that is shown, and when to try again."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import random
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit, urlunsplit

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus, WebSocketException

if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.asyncio.client import ClientConnection

DEFAULT_URL: Final = "http://127.0.0.1:5010"
#: What may come in one message: the scheduler sends nothing larger.
MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
_SCHEMES: Final = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_OPEN_S: Final = 10.0
_PING_S: Final = 10.0
#: A socket that is being closed waits so long for the other side to agree.
_CLOSE_S: Final = 2.0
_FETCH_S: Final = 10.0
#: Answers to the opening handshake that will be the same the next time.
_FOR_GOOD: Final = {
    401: "it wants a token: give one as token=, or in LINGUA_TOKEN",
    403: "it does not let this token in",
    404: "there is no Lingua scheduler at this address",
}


class Unreachable(Exception):
    """Nobody answered, or not now. Another try may find somebody."""


class Refused(Exception):
    """The scheduler said no, and would say it again. The message is for a person; `code` is the scheduler's."""

    def __init__(self, detail: str, code: str = "") -> None:
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True, slots=True)
class Address:
    """Where a scheduler is. Any of http, https, ws and wss names the same door."""

    secure: bool
    netloc: str
    path: str = ""

    @classmethod
    def parse(cls, url: str | None = None) -> Address:
        """The address of a URL; without one that of LINGUA_URL, else that of a scheduler on this machine."""
        text = url or os.environ.get("LINGUA_URL") or DEFAULT_URL
        parts = urlsplit(text if "://" in text else f"http://{text}")
        try:
            scheme, _ = _SCHEMES[parts.scheme], parts.port
        except (KeyError, ValueError):
            raise ValueError(f"{text!r} is not the address of a scheduler; it looks like {DEFAULT_URL}") from None
        if not parts.hostname or parts.username or parts.query or parts.fragment:
            raise ValueError(f"{text!r} is not the address of a scheduler; it looks like {DEFAULT_URL}")
        return cls(scheme == "https", parts.netloc, parts.path.rstrip("/"))

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


def token_of(token: str | None) -> str | None:
    """The token to show; without one that of LINGUA_TOKEN, if there is any."""
    return token or os.environ.get("LINGUA_TOKEN") or None


def headers_of(token: str | None) -> dict[str, str]:
    """What shows a token. It never stands in a URL, which ends up in logs."""
    return {"authorization": f"Bearer {token}"} if token else {}


async def open_socket(address: Address, path: str, token: str | None = None) -> ClientConnection:
    """An open socket; `Unreachable` if there is none now, `Refused` if there will be none."""
    try:
        return await connect(
            address.ws(path),
            additional_headers=headers_of(token),
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            open_timeout=_OPEN_S,
            close_timeout=_CLOSE_S,
            ping_interval=_PING_S,
            ping_timeout=_PING_S,
            proxy=None if address.is_loopback else True,
        )
    except InvalidStatus as error:
        why = _FOR_GOOD.get(error.response.status_code)
        if why is None:
            raise Unreachable(f"it answered {error.response.status_code}") from None
        raise Refused(f"{address} refuses: {why}", str(error.response.status_code)) from None
    except TimeoutError:
        raise Unreachable(f"no answer within {_OPEN_S:g} s") from None
    except ImportError as error:
        # A proxy that the environment names, and that needs a library.
        raise Refused(str(error)) from None
    except (OSError, EOFError, WebSocketException) as error:
        raise Unreachable(str(error) or type(error).__name__) from None


async def fetch_audio(address: Address, ref: str, token: str | None, node_id: str) -> bytes:
    """The audio that a job of this node names; `Unreachable` says why there is none."""
    url = address.http(f"/v1/audio/{quote(ref, safe='')}")
    return await asyncio.to_thread(_fetch, url, headers_of(token) | {"x-node-id": node_id}, address.is_loopback)


def _fetch(url: str, headers: dict[str, str], is_loopback: bool) -> bytes:
    proxies = [urllib.request.ProxyHandler({})] if is_loopback else []
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - an Address is http or https
    try:
        with urllib.request.build_opener(*proxies).open(request, timeout=_FETCH_S) as answer:
            audio: bytes = answer.read(MAX_MESSAGE_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise Unreachable(f"the scheduler answered {error.code}") from None
    except (OSError, ValueError) as error:
        raise Unreachable(str(error) or type(error).__name__) from None
    if len(audio) > MAX_MESSAGE_BYTES:
        raise Unreachable(f"it is more than {MAX_MESSAGE_BYTES} bytes")
    return audio


class Backoff:
    """When to try again: any moment up to a bound that doubles, so that those who lost the same peer do not all
    come at once (full jitter). The first bound is within the grace that a scheduler gives to a broken socket.
    """

    def __init__(
        self, *, first_s: float = 0.2, most_s: float = 10.0, draw: Callable[[float, float], float] = random.uniform
    ) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._draw = draw
        self._failures = 0

    def next_s(self, hint_s: float = 0.0) -> float:
        """How long to wait before the next try. `hint_s`: what the peer said; the bound is at least that."""
        bound_s = min(self._most_s, self._first_s * 2 ** min(self._failures, 30))
        self._failures += 1
        return self._draw(0.0, max(bound_s, min(hint_s, self._most_s)))

    def reset(self) -> None:
        """It went well."""
        self._failures = 0
