"""A node has another connection than it had: who held it hears of that, and who may look for it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lingua_scheduler.flows.register import Registered
    from lingua_scheduler.front.desk import Desk


async def tell_moved(desk: Desk, node_id: str, registered: Registered) -> None:
    """Tell the others. Who held it last may be dead, and believed alive: jobs for the node must not go there."""
    if registered.replaced:
        desk.hints.moved(node_id, registered.epoch)
        await desk.neighbours.tell_replaced(node_id, registered.replaced)
