"""How somebody kills a node of a running demo: `lingua nodes kill sim-3`.

A demo listens at a socket in its own temporary directory, which only its user can enter. A line comes in with the name
of the node, and one goes out.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.sdk._address import Address, address_of
from lingua_scheduler.store.embedded.paths import SOCKET_BYTES_MAX, TEMPORARY_PREFIX, is_private

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    #: How many jobs the node had; None: it is not there.
    Kill = Callable[[str], Awaitable[int | None]]

_NAME: Final = "demo.sock"
_PATIENCE_S: Final = 5.0


class NoDemo(LinguaError):
    """There is no demo here, or it has no such node."""


@asynccontextmanager
async def open_trapdoor(directory: Path, url: str, kill: Kill) -> AsyncIterator[None]:
    """Listen. Where the name of the directory is too long for a socket, there is none: one can do without."""

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = json.loads(await reader.readline())
            is_meant = asked["url"] is None or _place(asked["url"]) == _place(url)
            jobs = await kill(asked["node_id"]) if is_meant else None
            writer.write(json.dumps({"jobs": jobs, "is_meant": is_meant, "url": url}).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError, KeyError):
            return
        finally:
            writer.close()

    place = directory / _NAME
    if len(os.fsencode(place)) > SOCKET_BYTES_MAX:
        yield
        return
    async with await asyncio.start_unix_server(hear, place):
        yield


def kill_node(node_id: str, url: str | None) -> int:
    """Kill a node of the demo at this URL, else LINGUA_URL, else of all that run here. How many jobs it had."""
    url = _named(url)
    asked = [_ask(place, {"node_id": node_id, "url": url}) for place in _places()]
    answers = [answer for answer in asked if answer is not None]
    meant = [answer for answer in answers if answer["is_meant"]]
    if not meant:
        runs = ", ".join(sorted(answer["url"] for answer in answers))
        hint = f"those that do are at {runs}" if runs else "start one with `lingua demo`"
        raise NoDemo(f"no demo runs {f'at {url}' if url else 'here'}: {hint}")
    killed = [answer["jobs"] for answer in meant if answer["jobs"] is not None]
    if not killed:
        raise NoDemo(f"the demo has no node {node_id} just now: `lingua nodes list` names those that it has")
    return sum(killed)


def _named(url: str | None) -> str | None:
    """Whom a command is to ask, as it would be asked."""
    try:
        return str(address_of(url)) if url or os.environ.get("LINGUA_URL") else None
    except ValueError as error:
        raise NoDemo(str(error)) from None


def _place(url: str) -> tuple[bool, str, int, str]:
    """The same for all URLs of one demo: its machine has several names."""
    address = Address.parse(url)
    parts = urlsplit(str(address))
    host = "localhost" if address.is_loopback else parts.hostname or ""
    return address.secure, host, parts.port or (443 if address.secure else 80), address.path


def _places() -> Iterator[Path]:
    for directory in Path(tempfile.gettempdir()).glob(f"{TEMPORARY_PREFIX}*"):
        if is_private(directory) and (directory / _NAME).exists():
            yield directory / _NAME


def _ask(place: Path, question: dict[str, Any]) -> dict[str, Any] | None:
    """None: nobody is there any more."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(_PATIENCE_S)
        try:
            link.connect(os.fsencode(place))
            link.sendall(json.dumps(question).encode() + b"\n")
            with link.makefile("rb") as file:
                answer: dict[str, Any] = json.loads(file.readline())
        except (OSError, ValueError):
            return None
    return answer
