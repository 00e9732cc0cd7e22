"""The engine's answer to a node's last word is lost: whoever waits hears of the result as soon as it is told again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.store.scripts import script
from tests.support.house import House
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    import asyncio

    from tests.support.proxy import Direction, Link
    from tests.support.servers import Server


class Cable(Proxy):
    """It loses the answer to a certain word."""

    def __init__(self, target: str | int) -> None:
        super().__init__(target)
        self.word = b""

    async def _pass(self, direction: Direction, piece: bytes, writer: asyncio.StreamWriter, link: Link) -> None:
        if self.word and self.word in piece:
            self.word = b""
            self.drop_reply()
        await super()._pass(direction, piece, writer, link)


async def test_a_result_does_not_wait_for_the_lease_of_whoever_did_not_hear_that_he_has_it(server: Server) -> None:
    async with (
        Cable(server.path) as cable,
        House(cable.url, **{"loops.relay_lease_ms": 20_000, "jobs.reservation_ttl_ms": 30_000}).open() as house,
        house.node("n1") as node,
        house.client() as client,
    ):
        await node.register(features=("job_ack",))
        await client.init()
        await client.utter(0)
        job = await node.job()
        cable.word = script("flows/done").sha.encode()
        await node.result(job)
        assert (await client.next("translation_result", timeout_s=5))["utterance_index"] == 0
        assert cable.word == b""
