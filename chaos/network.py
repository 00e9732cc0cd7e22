"""The ways from nodes and callers to the instances, and from these to the engine; and all that networks do."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from tests.support.proxy import Direction, Link

#: Where servers are; their ports are the same wherever they are reached.
_HOME: Final = "127.0.0.1"


class Network(Proxy):
    """One address, any instance behind it: a balancer that can fail. Each connection goes to one that is up."""

    def __init__(self, seed: str) -> None:
        super().__init__(0)
        self._rng = random.Random(seed)
        #: Where instances listen.
        self.ports: dict[str, int] = {}

    def aim(self) -> int:
        """An instance, by chance; nobody is there: refuse."""
        if not self.ports:
            raise ConnectionRefusedError("no instance is up")
        return self._rng.choice(list(self.ports.values()))

    def some(self, share: float) -> list[Link]:
        """So many of the connections, one at least."""
        links = sorted(self.links, key=id)
        return self._rng.sample(links, min(len(links), 1 + int(share * len(links))))

    def reset(self, share: float) -> int:
        """RST."""
        struck = self.some(share)
        for link in struck:
            link.reset()
        return len(struck)

    def half_open(self, share: float) -> list[Link]:
        """The callers are gone, and the instances do not hear of it."""
        struck = self.some(share)
        for link in struck:
            link.lose_client()
        return struck

    def hole(self, share: float) -> list[Link]:
        """Nothing passes, and nobody is told."""
        struck = self.some(share)
        for link in struck:
            link.holed = True
        return struck

    @staticmethod
    def end(struck: list[Link]) -> None:
        """Connections that lost bytes are no use to anybody."""
        for link in struck:
            link.close()


class Guide(Proxy):
    """The wire to a Sentinel, as through a gateway: whoever it names is at the host where we are."""

    def put(self, direction: Direction, chunk: bytes) -> bytes:
        """Its answers to instances are short, and say nothing but addresses."""
        return chunk.replace(_bulk(_HOME), _bulk(self.host)) if direction == "down" else chunk


class Way:
    """All wires from one instance to its engine: to the servers, and to the Sentinels that name the primary."""

    def __init__(self, number: int, url: str, servers: list[Proxy], guides: list[Proxy]) -> None:
        self.number, self.url, self.servers, self.guides = number, url, servers, guides

    @classmethod
    @asynccontextmanager
    async def open(
        cls, number: int, url: str, servers: Iterable[int], guides: Iterable[int] = ()
    ) -> AsyncIterator[Way]:
        """For the instance of this number: the servers have another host there, and the ports that they really have."""
        host = f"127.0.1.{1 + number}"
        async with AsyncExitStack() as stack:
            yield cls(
                number,
                url.replace(_HOME, host),
                [await stack.enter_async_context(Proxy(port, (host, port))) for port in servers],
                [await stack.enter_async_context(Guide(port, (host, port))) for port in guides],
            )

    def one(self, whom: int) -> Proxy:
        """The wire to a server; to one that somebody speaks with, if there is one."""
        wires = [wire for wire in self.servers if wire.links] or self.servers
        return wires[whom % len(wires)]

    def some(self, whom: int, share: float) -> list[Proxy]:
        """One to a server, or everything. Nobody loses the Sentinels alone: he would not hear of a fail-over."""
        return [self.one(whom)] if share < 1 / 2 else [*self.servers, *self.guides]

    def slow(self, whom: int, share: float) -> list[Proxy]:
        """One to a server, or all of these: Sentinels who answer late are not believed, as if they were lost."""
        return [self.one(whom)] if share < 1 / 2 else self.servers

    def heal(self) -> None:
        """No fault is left, nor one that waits for its moment."""
        for wire in (*self.servers, *self.guides):
            wire.delay_s = 0.0
            wire.heal()


def _bulk(text: str) -> bytes:
    """As Redis writes it."""
    return b"$%d\r\n%s\r\n" % (len(text), text.encode())
