"""Where the state engine listens: one server, a primary that Sentinels know, or a Cluster, each by its URL."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from lingua_scheduler.core.errors import EngineUnfit

DEFAULT_PORT: Final = 6379
SENTINEL_PORT: Final = 26379

#: sockaddr_un holds 108 bytes with the closing zero; a longer path fails with a message that names neither.
MAX_SOCKET_PATH_BYTES: Final = 107

_SERVED: Final = (
    "redis://host:6379/0, rediss://…, unix:///path/to/socket, redis+sentinel://host:26379,host:26379/name, "
    "redis+cluster://host:6379,host:6379, and without a URL an embedded engine"
)
_MANY: Final = frozenset({"redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"})


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
        return f"{_scheme(self)}://{self.where}/{self.database}"

    @property
    def where(self) -> str:
        """`host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def at(self, host: str, port: int) -> Address:
        """Another server where the same logs in."""
        return replace(self, host=host, port=port)


@dataclass(frozen=True, slots=True)
class Sentinels:
    """Those who know which server is the primary called `name`, and what logs in there, wherever it is."""

    name: str
    seeds: tuple[Address, ...]
    primary: Address

    def __str__(self) -> str:
        shown = f"{_scheme(self.primary)}+sentinel://{_hosts(self.seeds)}/{self.name}"
        return f"{shown}/{self.primary.database}" if self.primary.database else shown


@dataclass(frozen=True, slots=True)
class Cluster:
    """Some servers of a Cluster, which tell of the others. The same logs in at each."""

    seeds: tuple[Address, ...]

    def __str__(self) -> str:
        return f"{_scheme(self.seeds[0])}+cluster://{_hosts(self.seeds)}"


Place = Address | Sentinels | Cluster


def parse_address(url: str) -> Address:
    """Read `redis://[user:password@]host[:port][/db]`, `rediss://…` or `unix://[user:password@]/path[?db=n]`."""
    try:
        return _address(_split(url))
    except ValueError as error:
        raise EngineUnfit(str(error)) from None


def parse_place(url: str) -> Place:
    """Read what `parse_address` reads, `redis+sentinel://…` or `redis+cluster://…`; with `rediss+` both speak TLS.

    `redis+sentinel://[user:password@]host[:port],…/name[/db][?sentinel_username=…&sentinel_password=…]`: user and
    password are those of the servers; Sentinels have their own. `redis+cluster://[user:password@]host[:port],…`.
    """
    try:
        parts = _split(url)
        if parts.scheme not in _MANY:
            return _address(parts)
        return _sentinels(parts) if parts.scheme.endswith("sentinel") else _cluster(parts)
    except ValueError as error:
        raise EngineUnfit(str(error)) from None


def _scheme(address: Address) -> str:
    return "rediss" if address.tls else "redis"


def _hosts(seeds: tuple[Address, ...]) -> str:
    return ",".join(seed.where for seed in seeds)


# No message shows what stands in the URL: an unescaped / or # makes a piece of the password look like something else.


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise ValueError("an engine's URL has brackets or letters, perhaps in its password, that no URL has") from None


def _address(parts: SplitResult) -> Address:
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise ValueError(
            f"an engine's URL begins with redis://, rediss:// or unix://, or names many; served are {_SERVED}"
        )
    username, password = _login(parts)
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


def _sentinels(parts: SplitResult) -> Sentinels:
    query = parse_qs(parts.query, keep_blank_values=True)
    if parts.fragment or query.keys() - {"sentinel_username", "sentinel_password"}:
        raise ValueError("a Sentinel's URL has no parameters but sentinel_username and sentinel_password")
    name, _, database = parts.path.strip("/").partition("/")
    if not name:
        raise ValueError("a Sentinel's URL ends with the name of the primary: redis+sentinel://host:26379/name")
    tls, (username, password) = parts.scheme.startswith("rediss"), _login(parts)
    known, secret = query.get("sentinel_username", [""])[-1], query.get("sentinel_password", [""])[-1]
    if known and not secret:
        raise ValueError("a Sentinel's URL names a user of the Sentinels without a password")
    return Sentinels(
        name=unquote(name),
        seeds=_seeds(parts, SENTINEL_PORT, Address(tls=tls, username=known, password=secret)),
        primary=Address(tls=tls, username=username, password=password, database=_database(database)),
    )


def _cluster(parts: SplitResult) -> Cluster:
    if parts.query or parts.fragment or parts.path.strip("/"):
        raise ValueError("a Cluster's URL ends with its hosts: a Cluster has only one database, and no parameters")
    username, password = _login(parts)
    login = Address(tls=parts.scheme.startswith("rediss"), username=username, password=password)
    return Cluster(_seeds(parts, DEFAULT_PORT, login))


def _seeds(parts: SplitResult, port: int, login: Address) -> tuple[Address, ...]:
    found = [_split(f"//{host}") for host in parts.netloc.rpartition("@")[2].split(",")]
    if not all(one.hostname for one in found):
        raise ValueError("an engine's URL needs a host, and no comma without one")
    return tuple(login.at(one.hostname or "", _port(one, port)) for one in found)


def _login(parts: SplitResult) -> tuple[str, str]:
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if username and not password:
        raise ValueError("an engine's URL names a user without a password")
    return username, password


def _port(parts: SplitResult, usual: int = DEFAULT_PORT) -> int:
    try:
        return parts.port or usual
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
