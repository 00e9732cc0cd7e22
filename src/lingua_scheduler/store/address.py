"""Where the state engine listens: `redis://`, `rediss://` and `unix://` URLs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

DEFAULT_PORT: Final = 6379

#: sockaddr_un holds 108 bytes with the closing zero; a longer path fails with a message that names neither.
MAX_SOCKET_PATH_BYTES: Final = 107


@dataclass(frozen=True, slots=True)
class Address:
    """One server: a host and port, or the path of a Unix socket, with what logs in there."""

    host: str = ""
    port: int = DEFAULT_PORT
    path: str = ""
    tls: bool = False
    username: str = ""
    password: str = field(default="", repr=False)
    database: int = 0

    def __str__(self) -> str:
        """The URL without its credentials, fit for a log."""
        if self.path:
            return f"unix://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.database}"


def parse_address(url: str) -> Address:
    """Read `redis://[user:password@]host[:port][/db]`, `rediss://…` or `unix://[user:password@]/path[?db=n]`."""
    parts = urlsplit(url)
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise ValueError(
            f"an engine's URL begins with redis://, rediss:// or unix://, not {parts.scheme or 'nothing'!r}"
        )
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if username and not password:
        raise ValueError("an engine's URL names a user without a password")
    if parts.scheme == "unix":
        return Address(path=_path(parts), username=username, password=password, database=_database(_query(parts)))
    if not parts.hostname:
        raise ValueError("an engine's URL needs a host")
    if parts.query or parts.fragment:
        raise ValueError("an engine's URL has no parameters; the database follows the port: redis://host:6379/0")
    return Address(
        host=parts.hostname,
        port=parts.port or DEFAULT_PORT,  # `port` itself raises ValueError when it is no port
        tls=parts.scheme == "rediss",
        username=username,
        password=password,
        database=_database(parts.path.strip("/")),
    )


def _path(parts: SplitResult) -> str:
    path = unquote(parts.path)
    if parts.hostname or not path.startswith("/"):
        raise ValueError("a Unix socket's URL has three slashes: unix:///path/to/socket")
    if len(path.encode()) > MAX_SOCKET_PATH_BYTES:
        raise ValueError(f"a Unix socket's path has at most {MAX_SOCKET_PATH_BYTES} bytes: {path}")
    return path


def _query(parts: SplitResult) -> str:
    query = parse_qs(parts.query, keep_blank_values=True)
    if parts.fragment or query.keys() - {"db"}:
        raise ValueError("a Unix socket's URL has no parameter but db")
    return query.get("db", [""])[-1]


def _database(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"an engine's database is a number, not {text!r}")
    return int(text)
