"""One command to one server, past every client that would follow a redirection or try again."""

from __future__ import annotations

import re
import socket
from typing import Any, Final

import hiredis

_PATIENCE_S: Final = 10.0


def ask(path: str, *commands: tuple[str | int | bytes, ...]) -> list[Any]:
    """What the server behind this Unix socket answers to each, on one connection; errors as values."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(_PATIENCE_S)
        link.connect(path)
        link.sendall(b"".join(hiredis.pack_command(words) for words in commands))  # type: ignore[arg-type]
        reader = hiredis.Reader(encoding="utf-8", errors="replace")
        replies: list[Any] = []
        while len(replies) < len(commands):
            while (reply := reader.gets()) is False:
                chunk = link.recv(65_536)
                if not chunk:
                    raise ConnectionError(f"{path} hung up")
                reader.feed(chunk)
            replies.append(reply)
        return replies


def ask_one(path: str, *words: str | int | bytes) -> Any:
    """The answer to one command; an error is raised."""
    (reply,) = ask(path, words)
    if isinstance(reply, hiredis.ReplyError):
        raise reply
    return reply


def field_of(info: str, name: str) -> str:
    """One line of INFO."""
    found = re.search(rf"^{name}:(.*?)\r?$", info, re.MULTILINE)
    return found[1] if found else ""
