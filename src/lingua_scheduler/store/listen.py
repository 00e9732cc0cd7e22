"""Waiting for a letter: a read that blocks, so it has a client of the engine for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.store.keys import cell_key, instance_tag

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


async def await_letter(engine: Engine, instance_id: str, block_ms: int, after: str) -> None:
    """Return when a letter with a greater number lies in the inbox, or after `block_ms`. It takes nothing out."""
    tag = instance_tag(instance_id)
    inbox = cell_key(engine.prefix, tag, "inbox")
    await engine.command("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", inbox, after, cell=tag)
