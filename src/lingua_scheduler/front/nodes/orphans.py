"""Nodes whose instance is gone: nobody saw their sockets close, so whoever finds that out says it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.disconnect import Away, disconnect
from lingua_scheduler.logs import get_log
from lingua_scheduler.views.connections import read_connections

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)


async def bereave(desk: Desk, instance_id: str) -> None:
    """Whatever an instance held that is gone is others' now. If it is there again meanwhile, it hears of that."""
    await desk.directory.read()
    if await hand_over_nodes(desk.engine, desk.directory.cells, instance_id):
        await desk.neighbours.tell_orphaned(instance_id)


async def hand_over_nodes(engine: Engine, cells: Iterable[str], instance_id: str) -> int:
    """Give the nodes of an instance that is gone the time that they have when a scheduler stops; how many had any.

    Their jobs stay with them meanwhile. Who came back elsewhere has another connection by now, and is not meant; who
    had its time already gets no more. So it does not matter how often this is called, nor by how many.
    """
    number = sum(await asyncio.gather(*(_hand_over(engine, cell, instance_id) for cell in cells)))
    if number:
        detail = "nodes were with an instance that is gone; they have time to come back"
        log.warning("bereave", number=number, instance_id=instance_id, detail=detail)
    return number


async def _hand_over(engine: Engine, cell: str, instance_id: str) -> int:
    cursor, number = "0", 0
    while True:
        page = await read_connections(engine, cell, instance_id, cursor)
        if isinstance(page, Refusal):
            raise TypeError(page.detail)
        closed = await asyncio.gather(
            *(disconnect(engine, cell, node_id, connection, "handover") for node_id, connection in page.found)
        )
        number += sum(isinstance(answer, Away) for answer in closed)
        cursor = page.cursor
        if cursor == "0":
            return number
