"""The auditor in production: what it finds is counted and said, and what was only in between is not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lingua_scheduler.core.new_ids import new_job_id
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.register import register
from lingua_scheduler.loops.auditor import Auditor
from lingua_scheduler.store.keys import cell_key
from tests.support.logs import told
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

    from lingua_scheduler.core.audit import Violation
    from tests.support.world import World

CLEAN = {"S1": 0, "S2": 0, "S3": 0, "S4": 0}


async def a_job(world: World) -> str:
    await register(world.engine, CELL, "n1", semantic_langs=["en"], nmt_pairs=[("en", "zh")], max_concurrent_jobs=2)
    job_id = new_job_id(CELL)
    await dispatch(world.engine, job_id, "s1", "en", "zh")
    return job_id


async def test_a_cell_in_which_all_holds_is_told_as_such(world: World) -> None:
    auditor = Auditor(world.engine, lambda: (CELL,), 1_000, again_ms=0)
    assert auditor.found is None
    await a_job(world)
    await auditor.turn()
    assert auditor.found == CLEAN


async def test_a_lease_that_vanished_is_found_and_said(world: World, caplog: pytest.LogCaptureFixture) -> None:
    auditor = Auditor(world.engine, lambda: (CELL,), 1_000, again_ms=0)
    await a_job(world)
    leases = cell_key(world.engine.prefix, CELL, "leases")
    (member,) = await world.engine.command("ZRANGE", leases, 0, -1)
    await world.engine.command("DEL", leases)
    with caplog.at_level(logging.ERROR):
        await auditor.turn()
    await world.engine.command("ZADD", leases, 0, member)
    assert auditor.found is not None
    assert auditor.found["S3"] == 1
    found = [(one["invariant"], one["subject"], one["reason"]) for one in told(caplog, "audit")]
    assert ("S3", "n1", "used is 1, the ledger has 0") in found


class Meanwhile(Auditor):
    """After its first look something happens."""

    happens: Callable[[], Awaitable[object]] | None = None

    async def _look(self, cell: str) -> list[Violation]:
        found = await super()._look(cell)
        if self.happens is not None:
            await self.happens()
            self.happens = None
        return found


async def test_what_is_right_again_a_moment_later_was_never_wrong(world: World) -> None:
    """A look is made of pages, and things go on between them."""
    await a_job(world)
    leases = cell_key(world.engine.prefix, CELL, "leases")
    (member,) = await world.engine.command("ZRANGE", leases, 0, -1)
    await world.engine.command("DEL", leases)
    auditor = Meanwhile(world.engine, lambda: (CELL,), 1_000, again_ms=0)
    auditor.happens = lambda: world.engine.command("ZADD", leases, 0, member)
    await auditor.turn()
    assert auditor.found == CLEAN
