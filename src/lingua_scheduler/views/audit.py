"""audit: are the invariants kept? Read-only, in pages for production, whole for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.audit import audit_cell, audit_ledger
from lingua_scheduler.core.ids import check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.views.cell import read_cell
from lingua_scheduler.views.nodes import NODES_PER_PAGE, read_nodes
from lingua_scheduler.views.strays import find_strays

if TYPE_CHECKING:
    from lingua_scheduler.core.audit import Violation
    from lingua_scheduler.store.engine import Engine

#: How late a sweep may be before the auditor speaks of it: several sweeps, so that one slow one is no alarm.
OVERDUE_MS: Final = 2_000
#: Whoever sets the clock himself does not want to hear of it at all.
MAX_OVERDUE_MS: Final = 10**15


async def audit(engine: Engine, cell: str, count: int = NODES_PER_PAGE) -> list[Violation] | Refusal:
    """S1 to S4 of every node and lease, a page at a time: the engine is never held up for long."""
    found: list[Violation] = []
    cursor = "0"
    while True:
        page = await read_nodes(engine, cell, cursor, count)
        if isinstance(page, Refusal):
            return page
        found += [violation for ledger in page.nodes for violation in audit_ledger(ledger, page.now_ms, OVERDUE_MS)]
        cursor = page.cursor
        if cursor == "0":
            break
    found += await find_strays(engine, cell, "leases", count)
    found += await find_strays(engine, cell, "jobs", count)
    found += await find_strays(engine, cell, "groups", count)
    return found


async def audit_whole(engine: Engine, cell: str, overdue_ms: int = OVERDUE_MS) -> list[Violation] | Refusal:
    """Every invariant that can be seen at one instant, over the whole cell at once."""
    try:
        overdue_ms = check_int("overdue_ms", overdue_ms, 0, MAX_OVERDUE_MS)
    except Invalid as invalid:
        return invalid.refusal
    found = await read_cell(engine, cell)
    return found if isinstance(found, Refusal) else list(audit_cell(found, overdue_ms))
