"""How one gets to the scheduler: the socket, the token that is shown, and what it means that there is no socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import string
import urllib.error
import urllib.request
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import quote, urljoin

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHeader, InvalidStatus, WebSocketException

from lingua_scheduler.protocol.errors import CLOSES, CloseCode, RefusalBody
from lingua_scheduler.sdk.client_errors import Refused, Unreachable, refused_by

if TYPE_CHECKING:
    from http.client import HTTPMessage

    from websockets.asyncio.client import ClientConnection
    from websockets.http11 import Response

    from lingua_scheduler.protocol.errors import ErrorMessage
    from lingua_scheduler.sdk._address import Address

#: What may come in one message: the scheduler sends nothing larger.
MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
_OPEN_S: Final = 10.0
#: A socket that does not answer a ping for so long is lost.
_PING_S: Final = 10.0
#: A socket that is being closed waits so long for the other side to agree.
_CLOSE_S: Final = 2.0
_FETCH_S: Final = 10.0
#: What an answer to the opening handshake means if it is not in the scheduler's own words: its code, and the text.
_BY_STATUS: Final = {
    401: ("UNAUTHENTICATED", "a token is wanted"),
    403: ("FORBIDDEN", "this token is not let in"),
    404: ("NOT_FOUND", "there is nothing at this address"),
    429: ("RATE_LIMITED", "too much at once"),
}
#: Answers that another try may get otherwise.
_TOO_MANY: Final = 429
_BROKEN: Final = 500

#: What can be a token at all (RFC 6750). A scheduler's own are made of fewer characters, those of a gateway may not be.
_IS_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{1,8192}={0,2}").fullmatch

_read_refusal: Final = msgspec.json.Decoder(RefusalBody).decode


def version_of_us() -> str:
    """What a scheduler is told of this library."""
    try:
        return version("lingua-scheduler")
    except PackageNotFoundError:
        return "0"


def token_of(token: str | None) -> str | None:
    """The token to show; without one that of LINGUA_TOKEN, if there is any. `ValueError`: what is there is none."""
    return checked_token(token) or checked_token(os.environ.get("LINGUA_TOKEN"), "LINGUA_TOKEN")


def checked_token(token: str | None, name: str = "token") -> str | None:
    """A token without the blanks and ends of lines that files put around it; None: there is none.

    What cannot be one is told here, without it: whatever fails with it on the way might quote it, and end up in logs.
    """
    bare = (token or "").strip()
    if bare and not _IS_TOKEN(bare):
        raise ValueError(
            f"{name} is no token: one has at most 8192 letters, digits and . _ ~ + / - =, and nothing else"
        )
    return bare or None


def headers_of(token: str | None) -> dict[str, str]:
    """Who we are, and what shows a token. It never stands in a URL, which ends up in logs."""
    shown = {"authorization": f"Bearer {token}"} if token else {}
    return {"user-agent": f"lingua-scheduler/{version_of_us()}"} | shown


async def open_socket(
    address: Address, path: str, token: str | None = None, *, timeout_s: float = _OPEN_S
) -> ClientConnection:
    """An open socket. `Unreachable`: nobody answered; `Refused`: somebody did, and says whether to come again."""
    try:
        return await connect(
            address.ws(path),
            additional_headers=headers_of(token),
            user_agent_header=None,
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            open_timeout=timeout_s,
            close_timeout=_CLOSE_S,
            ping_interval=_PING_S,
            ping_timeout=_PING_S,
            proxy=None if address.is_loopback else True,
        )
    except InvalidStatus as error:
        raise refused_with(error.response) from None
    except InvalidHeader as error:
        # Ours or theirs, it is the same the next time. What is in it may be secret.
        raise Refused("REFUSED", f"no socket was opened: the header {error.name} cannot be right") from None
    except TimeoutError:
        raise Unreachable(f"no answer within {timeout_s:g} s") from None
    except ImportError as error:
        # A proxy that the environment names, and that needs a library.
        raise Refused("PROXY_UNUSABLE", str(error)) from None
    except (OSError, EOFError, WebSocketException) as error:
        raise Unreachable(str(error) or type(error).__name__) from None


async def close_socket(socket: ClientConnection) -> None:
    """Close it in peace; whoever may not wait for the other side leaves no socket behind."""
    try:
        await socket.close()
    except asyncio.CancelledError:
        socket.transport.abort()
        raise


def refused_with(answer: Response) -> Refused:
    """A handshake that was refused: in the scheduler's words, or, if somebody else answered, by the status."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeError):
        return refused_by(_read_refusal(answer.body or b""))
    status = answer.status_code
    code, detail = _BY_STATUS.get(status, ("REFUSED", "no socket was opened"))
    asked = answer.headers.get("retry-after", "")
    return Refused(
        code,
        f"{detail} ({status})",
        retryable=status >= _BROKEN or status == _TOO_MANY,
        retry_after=float(asked) if asked.isdecimal() else None,
    )


def announced(error: ErrorMessage | None, code: int | None) -> ErrorMessage | None:
    """The last error that was heard on a socket, if it announced its close; else it was about something else."""
    with contextlib.suppress(ValueError):
        if error is not None and code is not None and error.error == CLOSES[CloseCode(code)].error:
            return error
    return None


async def fetch_audio(address: Address, ref: str, token: str | None, node_id: str) -> bytes:
    """The audio that a job of this node names; `Unreachable` says why there is none."""
    url = address.http(f"/v1/audio/{quote(ref, safe='')}")
    return await asyncio.to_thread(_fetch, url, headers_of(token) | {"x-node-id": node_id}, address.is_loopback)


class SentAway(Unreachable):
    """Whoever answered names another URL."""

    def __init__(self, url: str) -> None:
        super().__init__(f"whoever answers sends us to {url}, where our token is not shown")
        self.url = url


class _Stay(urllib.request.HTTPRedirectHandler):
    """Goes to nobody else: urllib would show him our token, whoever he is, and make a GET of a POST."""

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> None:
        del code, msg
        if "location" in headers:
            fp.close()
            # Quoted: it is shown, and comes from anybody.
            raise SentAway(quote(urljoin(req.full_url, headers["location"]), safe=string.punctuation))

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def opener_of(*, is_loopback: bool) -> urllib.request.OpenerDirector:
    """What asks over HTTP: without a proxy on this machine, and never anybody but who is named (`SentAway`)."""
    proxies = [urllib.request.ProxyHandler({})] if is_loopback else []
    return urllib.request.build_opener(_Stay, *proxies)


def _fetch(url: str, headers: dict[str, str], is_loopback: bool) -> bytes:
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - an Address is http or https
    try:
        with opener_of(is_loopback=is_loopback).open(request, timeout=_FETCH_S) as answer:
            audio: bytes = answer.read(MAX_MESSAGE_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise Unreachable(f"the scheduler answered {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise Unreachable(str(error) or type(error).__name__) from None
    if len(audio) > MAX_MESSAGE_BYTES:
        raise Unreachable(f"it is more than {MAX_MESSAGE_BYTES} bytes")
    return audio
