"""A client that counts up as fast as it can, and knows how far it was told that it got."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_IN_FLIGHT: Final = 64
_PATIENCE_S: Final = 20.0


def count_until_hung_up(path: Path, is_time: Callable[[int], bool], strike: Callable[[], object]) -> int:
    """Counts up in `count`, strikes when it is time, goes on until the engine is gone; the last number answered."""
    acknowledged, unread, struck = 0, b"", False
    patience = time.monotonic() + _PATIENCE_S
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE_S)
        connection.connect(str(path))
        connection.sendall(b"INCR count\r\n" * _IN_FLIGHT)
        while True:
            try:
                received = connection.recv(65536)
            except ConnectionResetError:
                received = b""
            if not received:
                assert struck, "the engine hung up by itself"
                return acknowledged
            *lines, unread = (unread + received).split(b"\r\n")
            acknowledged = int(lines[-1][1:]) if lines else acknowledged
            assert time.monotonic() < patience, "it was never time, or the engine never went"
            if not struck and is_time(acknowledged):
                strike()
                struck = True
            try:
                connection.sendall(b"INCR count\r\n" * len(lines))
            except (BrokenPipeError, ConnectionResetError):
                assert struck, "the engine hung up by itself"
                # What it answered before it went is still there to be read.
