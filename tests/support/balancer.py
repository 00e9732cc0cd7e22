"""What stands in front of several schedulers: each new connection goes to the next of them that takes it."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Sequence


class Balancer(Proxy):
    """A proxy with several ends behind it. Who does not listen is passed by; if nobody does, the caller hears so."""

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__(ports[0])
        self._ports = ports
        self._turns = count()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        first = next(self._turns)
        for number in range(len(self._ports)):
            try:
                return await asyncio.open_connection("127.0.0.1", self._ports[(first + number) % len(self._ports)])
            except OSError:
                continue
        raise OSError("none of them listens")
