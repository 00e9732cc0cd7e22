"""Everybody who shares the engine, as this instance sees them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.views.instance import read_instance
from lingua_scheduler.views.instances import read_directory

if TYPE_CHECKING:
    from lingua_scheduler.core.letter import Presence
    from lingua_scheduler.front.desk import Desk


@dataclass(frozen=True, slots=True)
class Seen:
    """An instance; `presence` is None if it is gone and its inbox is still there."""

    instance_id: str
    seen_at_ms: int
    presence: Presence | None
    letters: int
    taken: int


async def see_instances(desk: Desk) -> list[Seen]:
    """Each that stands in the directory. Of this one it is told what is now, not what it said with its last beat."""
    directory = await read_directory(desk.engine)
    beats = dict(directory.beats)
    beats.setdefault(desk.instance_id, directory.now_ms)
    looks = await asyncio.gather(*(read_instance(desk.engine, instance_id) for instance_id in beats))
    seen = []
    for (instance_id, beat), look in zip(beats.items(), looks, strict=True):
        if isinstance(look, Refusal):
            continue
        presence = desk.describe() if instance_id == desk.instance_id else look.presence or None
        if presence is not None or look.letters:
            seen.append(Seen(instance_id, beat, presence, look.letters, look.taken))
    return seen
