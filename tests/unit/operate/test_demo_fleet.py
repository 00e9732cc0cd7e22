"""The demo's own books: what nobody waits for is not kept."""

from __future__ import annotations

from lingua_scheduler.core.records import Event
from lingua_scheduler.operate.demo.fleet import Fleet
from lingua_scheduler.operate.demo.tally import Tally


def ended(job_id: str) -> Event:
    return Event(kind="ended", job=job_id, attempt=1, node="sim-0", epoch="1", detail="", at_ms=0)


async def test_an_end_is_told_to_who_waits_and_kept_for_nobody() -> None:
    fleet = Fleet([], Tally())
    waiting = fleet.expect("c0.a")
    fleet.expect("c0.refused")
    for job_id in ("c0.a", "c0.a", "c0.of-another"):
        await fleet.hear(ended(job_id))
    assert waiting.done()
    assert list(fleet._ended) == ["c0.a"]
    del waiting
    assert not fleet._ended
