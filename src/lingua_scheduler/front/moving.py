"""A node has another connection than it had: who held it hears of that, and who may look for it there; and people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lingua_scheduler.flows.register import Registered
    from lingua_scheduler.front.desk import Desk

_NEW: Final = ("NEW", "NEW_PROCESS")


def tell_joined(desk: Desk, node_id: str, registered: Registered) -> None:
    """Tell people of a node that is new, or a new process."""
    if registered.how in _NEW:
        again = " again, as a new process" if registered.how == "NEW_PROCESS" else ""
        desk.chronicler.note("node_joined", node_id, f"it serves {len(registered.pairs)} pairs{again}")


async def tell_moved(desk: Desk, node_id: str, registered: Registered) -> None:
    """Tell the others. Who held it last may be dead, and believed alive: jobs for the node must not go there."""
    if registered.replaced:
        desk.hints.moved(node_id, registered.epoch)
        await desk.neighbours.tell_replaced(node_id, registered.replaced)
