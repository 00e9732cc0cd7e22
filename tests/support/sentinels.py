"""A real Sentinel trio: a primary, its replica, and three Sentinels that watch them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.support.asking import ask_one, field_of
from tests.support.ports import free_ports
from tests.support.servers import Server, answers, run_server, start_server
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.debian import Binary

NAME: Final = "lingua"

#: A primary is given up after so long; a test that kills one waits for little more than that.
DOWN_AFTER_MS: Final = 500
#: Where nobody kills one, nobody is given up, however busy the machine is.
NEVER_DOWN_MS: Final = 600_000

_SENTINELS: Final = 3


@dataclass(slots=True)
class Member:
    """One process of the trio, a server or a Sentinel."""

    directory: Path
    port: int
    binary: Binary | None = None
    server: Server = field(init=False, repr=False)

    def start(self, *args: str) -> None:
        own = ("--port", str(self.port), "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0")
        kept = ("--appendonly", "yes", "--appendfsync", "no")
        self.server = start_server(self.directory, *own, *kept, *args, binary=self.binary)

    def watch(self, primary: int, *lines: str, down_after_ms: int = DOWN_AFTER_MS) -> None:
        """Start as a Sentinel."""
        path = str(self.directory / "s")
        file = self.directory / "sentinel.conf"
        file.write_text(
            f"port {self.port}\nbind 127.0.0.1\nunixsocket {path}\ndir {self.directory}\n"
            f"logfile {self.directory / 'log'}\n"
            f"sentinel monitor {NAME} 127.0.0.1 {primary} 2\n"
            f"sentinel down-after-milliseconds {NAME} {down_after_ms}\n"
            f"sentinel failover-timeout {NAME} 5000\n" + "".join(f"{line}\n" for line in lines)
        )
        self.server = Server(path, run_server([str(file), "--sentinel"], self.binary))
        wait_until(lambda: answers(path), what="the Sentinel answers")

    def ask(self, *words: str | int | bytes) -> Any:
        return ask_one(self.server.path, *words)

    @property
    def is_primary(self) -> bool:
        return bool(self.ask("ROLE")[0] == "master")

    @property
    def has_its_primary(self) -> bool:
        return field_of(self.ask("INFO", "replication"), "master_link_status") == "up"


class Trio:
    """Two servers, three Sentinels."""

    def __init__(self, directory: Path, down_after_ms: int = DOWN_AFTER_MS) -> None:
        self._down_after_ms = down_after_ms
        ports = free_ports(2 + _SENTINELS)
        members = []
        for number, port in enumerate(ports):
            own = directory / f"m{number}"
            own.mkdir()
            members.append(Member(own, port))
        self.servers, self.sentinels = members[:2], members[2:]

    @property
    def url(self) -> str:
        return self.url_with()

    def url_with(self, login: str = "", query: str = "") -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{login}{hosts}/{NAME}{query}"

    def start(self) -> None:
        first, second = self.servers
        first.start()
        second.start("--replicaof", f"127.0.0.1 {first.port}")
        wait_until(lambda: second.has_its_primary, what="the replica has its primary")
        for sentinel in self.sentinels:
            sentinel.watch(first.port, down_after_ms=self._down_after_ms)
        self.talk_every(100)
        self.settled()

    def talk_every(self, ms: int) -> None:
        """How often Sentinels look at servers and speak of themselves; 2000 is usual."""
        for sentinel in self.sentinels:
            sentinel.ask("SENTINEL", "DEBUG", "INFO-PERIOD", 5 * ms, "PUBLISH-PERIOD", ms)

    def stop(self) -> None:
        for member in (*self.servers, *self.sentinels):
            member.server.stop()

    def settled(self) -> None:
        """Wait until the Sentinels know each other and the replica: until then nobody would take over."""
        wait_until(lambda: all(_knows_all(sentinel) for sentinel in self.sentinels), what="the Sentinels know all")

    def primary(self) -> Member:
        return next(one for one in self.servers if one.server.process.poll() is None and one.is_primary)

    def replica(self) -> Member:
        return next(one for one in self.servers if one.server.process.poll() is None and not one.is_primary)


def _knows_all(sentinel: Member) -> bool:
    told = sentinel.ask("SENTINEL", "MASTER", NAME)
    said = dict(zip(told[::2], told[1::2], strict=True))
    if (said["flags"], said["num-slaves"], said["num-other-sentinels"]) != ("master", "1", str(_SENTINELS - 1)):
        return False
    (replica,) = sentinel.ask("SENTINEL", "REPLICAS", NAME)
    return bool(dict(zip(replica[::2], replica[1::2], strict=True))["master-link-status"] == "ok")
