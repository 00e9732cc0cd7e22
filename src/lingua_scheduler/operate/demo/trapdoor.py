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

from lingua_scheduler.core.errors import LinguaError
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
            is_meant = asked["url"] in {None, url}
            jobs = await kill(asked["node_id"]) if is_meant else None
            writer.write(json.dumps({"jobs": jobs, "is_meant": is_meant}).encode() + b"\n")
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
    """Kill a node of the demo at this URL; without one, of any that runs here. How many jobs it had."""
    answers = [_ask(place, {"node_id": node_id, "url": url}) for place in _places()]
    meant = [answer for answer in answers if answer is not None and answer["is_meant"]]
    if not meant:
        raise NoDemo(
            "no demo runs here: start one with `lingua demo`" + (f", or name another than {url}" if url else "")
        )
    killed = [answer["jobs"] for answer in meant if answer["jobs"] is not None]
    if not killed:
        raise NoDemo(f"the demo has no node {node_id} just now: `lingua nodes list` names those that it has")
    return sum(killed)


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
