"""strays: what in the ledger or among the jobs has lost its other half, page by page. The auditor's; see `audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from lingua_scheduler.core.audit import Violation
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class _Strays(Answer, frozen=True, tag="STRAYS"):
    cursor: str
    found: list[tuple[str, str, str]]


_STRAYS: Final = Face("views/strays", _Strays)


async def find_strays(
    engine: Engine, cell: str, key: Literal["leases", "jobs", "groups"], count: int
) -> list[Violation]:
    """Leases without a node, jobs without a lease or that nobody will look at again, groups whose room is wrong."""
    found: list[Violation] = []
    cursor = "0"
    while True:
        page = await _STRAYS(engine, cell, pack((key, cursor, count)))
        assert isinstance(page, _Strays)  # noqa: S101 - it refuses nothing
        found += [Violation(*stray) for stray in page.found]
        cursor = page.cursor
        if cursor == "0":
            return found
