"""resume: the operator wants a drained or evicted node to work again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.flows.intents import Intended, intend, intent_face

if TYPE_CHECKING:
    from lingua_scheduler.core.refusal import Refusal
    from lingua_scheduler.store.engine import Engine

_RESUME: Final = intent_face("flows/resume")


async def resume(engine: Engine, cell: str, node_id: str) -> Intended | Refusal:
    """Let the node be chosen again, as far as its own word and our judgement allow."""
    return await intend(_RESUME, engine, cell, node_id)
