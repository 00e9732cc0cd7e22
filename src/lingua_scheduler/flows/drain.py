"""drain: the operator wants no new work on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.flows.intents import Intended, intend, intent_face

if TYPE_CHECKING:
    from lingua_scheduler.core.refusal import Refusal
    from lingua_scheduler.store.engine import Engine

_DRAIN: Final = intent_face("flows/drain")


async def drain(engine: Engine, cell: str, node_id: str) -> Intended | Refusal:
    """Give the node no new work; what runs there ends in peace. A heartbeat cannot undo it."""
    return await intend(_DRAIN, engine, cell, node_id)
