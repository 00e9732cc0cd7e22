"""NATS request and reply: nothing is kept, nobody is chosen. The upper reference."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

import nats
import uvloop

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

VERSION = f"nats-py {version('nats-py')}"


class Peer:
    client: Client

    def worker(self) -> list[str]:
        return [sys.executable, "-m", "bench.peers.with_nats"]

    async def open(self) -> None:
        self.client = await nats.connect(os.environ["PEER_STORE"])
        while True:
            try:
                await self.client.request("noop", str(time.monotonic()).encode(), timeout=1)
            except nats.errors.NoRespondersError:
                await asyncio.sleep(0.05)
            else:
                return

    async def submit(self, sent: float) -> asyncio.Task[Msg]:
        return asyncio.create_task(self.client.request("noop", str(sent).encode(), timeout=30))

    async def result(self, handle: asyncio.Task[Msg]) -> float:
        return float((await handle).data)


async def _serve() -> None:
    client = await nats.connect(os.environ["PEER_STORE"])

    async def noop(message: Msg) -> None:
        await message.respond(str(time.monotonic() - float(message.data)).encode())

    await client.subscribe("noop", cb=noop)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve())
