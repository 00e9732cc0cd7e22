"""The way from nodes and callers to the instances: one address, any instance behind it, and all that networks do."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from tests.support.proxy import Link


class Network(Proxy):
    """A balancer that can fail. Each connection goes to any instance that is up."""

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
