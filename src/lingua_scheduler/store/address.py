"""Where the state engine listens: `redis://`, `rediss://` and `unix://` URLs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from lingua_scheduler.core.errors import EngineUnfit

DEFAULT_PORT: Final = 6379

#: sockaddr_un holds 108 bytes with the closing zero; a longer path fails with a message that names neither.
MAX_SOCKET_PATH_BYTES: Final = 107

_SERVED: Final = (
    "one server by redis://host:6379/0, rediss://… or unix:///path/to/socket, and without a URL an embedded one"
)
_NOT_YET: Final = {"redis+sentinel": "Sentinel", "redis+cluster": "Cluster"}


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
    try:
        return _address(_split(url))
    except ValueError as error:
        raise EngineUnfit(str(error)) from None


# No message shows what stands in the URL: an unescaped / or # makes a piece of the password look like something else.


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise ValueError("an engine's URL has brackets or letters, perhaps in its password, that no URL has") from None


def _address(parts: SplitResult) -> Address:
    if parts.scheme in _NOT_YET:
        raise ValueError(f"{_NOT_YET[parts.scheme]} ({parts.scheme}://) is not served yet; served are {_SERVED}")
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise ValueError(f"an engine's URL begins with redis://, rediss:// or unix://; served are {_SERVED}")
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
        port=_port(parts),
        tls=parts.scheme == "rediss",
        username=username,
        password=password,
        database=_database(parts.path.strip("/")),
    )


def _port(parts: SplitResult) -> int:
    try:
        return parts.port or DEFAULT_PORT
    except ValueError:
        raise ValueError("an engine's port is a number from 1 to 65535") from None


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
        raise ValueError("an engine's database is a number: redis://host:6379/0 or unix:///path/to/socket?db=0")
    return int(text)
