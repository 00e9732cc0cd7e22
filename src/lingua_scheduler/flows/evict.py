"""evict: the operator throws a node out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.flows.intents import Intended, intend, intent_face

if TYPE_CHECKING:
    from lingua_scheduler.core.refusal import Refusal
    from lingua_scheduler.store.engine import Engine

_EVICT: Final = intent_face("flows/evict")


async def evict(engine: Engine, cell: str, node_id: str) -> Intended | Refusal:
    """Move the node's work to others at once, at no cost to the jobs; it stays out until `resume`."""
    return await intend(_EVICT, engine, cell, node_id)
