"""collect: a reader takes letters out of an inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.letter import check_instance
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.mail import Told, check_limit, check_number, check_slot
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Letters(Answer, frozen=True, tag="LETTERS"):
    """What was taken, the oldest first. If nothing was new, whatever comes now has a greater number than `last`."""

    letters: list[Told]
    last: str


_COLLECT: Final = Face("flows/collect", Letters)


async def collect(engine: Engine, instance_id: str, reader: str, limit: int) -> Letters | Refusal:
    """Take new letters. They are the reader's until he settles them."""
    return await _collect(engine, instance_id, reader, "", "", limit)


async def collect_pending(engine: Engine, instance_id: str, reader: str, after: str, limit: int) -> Letters | Refusal:
    """Take again what the reader took and did not settle, behind the number `after`; "": from the first on."""
    try:
        first = f"({check_number(after)}" if after else "-"
    except Invalid as invalid:
        return invalid.refusal
    return await _collect(engine, instance_id, reader, first, "+", limit)


async def collect_again(engine: Engine, instance_id: str, reader: str, number: str) -> Letters | Refusal:
    """Take this letter again; nothing if it was settled since, or another has taken it."""
    try:
        number = check_number(number)
    except Invalid as invalid:
        return invalid.refusal
    return await _collect(engine, instance_id, reader, number, number, 1)


async def _collect(
    engine: Engine, instance_id: str, reader: str, first: str, last: str, limit: int
) -> Letters | Refusal:
    try:
        tag = check_slot(instance_id)
        item = pack((check_instance(reader), first, last, check_limit(limit)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _COLLECT(engine, tag, item)
    assert isinstance(answer, Letters)  # noqa: S101 - it refuses nothing
    return answer
