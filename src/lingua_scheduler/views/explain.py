"""explain: why a job went where it went, and who could take one now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from lingua_scheduler.core.explain import Explanation, Verdict, explain_record
from lingua_scheduler.core.health import health
from lingua_scheduler.core.ids import cell_of, check_bool, check_cell, check_id, check_int
from lingua_scheduler.core.records import JobRecord, NodeRecord, Ticket
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.core.ticket import make_ticket
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.store.face import Answer, Face, No, pack
from lingua_scheduler.store.following import GoneOn, follow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingua_scheduler.store.engine import Engine

NODES_PER_PAGE: Final = 200


class _Known(Answer, frozen=True, tag="KNOWN"):
    record: JobRecord
    ticket: Ticket


class _Explained(Answer, frozen=True, tag="EXPLAINED"):
    cursor: str
    nodes: list[tuple[str, str, bool, NodeRecord]]
    live: bool


_EXPLAIN: Final = Face[_Known | _Explained | GoneOn](
    "views/explain", _Known, _Explained, GoneOn, refuses=("UNKNOWN_JOB",)
)


async def explain_pair(
    engine: Engine,
    cells: Sequence[str],
    src_lang: str,
    tgt_lang: str,
    *,
    wanted: Wanted = Wanted(),  # noqa: B008 - frozen
    cursor: str = "",
    count: int = NODES_PER_PAGE,
) -> Explanation | Refusal:
    """A dry run: who in these cells could take such a job now, and for each other node the first reason why not.

    At most `count` nodes by name, from `cursor` on. A node that stays registered is on exactly one page.
    """
    try:
        cells = [check_cell(cell) for cell in cells]
        pair, ticket = make_ticket(f"{cells[0]}.explain", "explain", src_lang, tgt_lang, wanted=wanted, hints=Hints())
        page = _page(cursor, count)
    except Invalid as invalid:
        return invalid.refusal
    return _with_nodes(Explanation(str(pair)), await _ask(engine, cells, page, ticket), count)


async def explain_job(
    engine: Engine,
    job_id: str,
    cells: Sequence[str] = (),
    *,
    nodes: bool = False,
    cursor: str = "",
    count: int = NODES_PER_PAGE,
) -> Explanation | Refusal:
    """Why a job went where it went, attempt by attempt.

    With `nodes` also who could take it now, as `explain_pair` says it, but for all that this very job asked for: in its
    own cell, and in these.
    """
    try:
        cells = [check_cell(cell) for cell in cells]
        page = _page(cursor, count)
        wants_nodes = check_bool("nodes", nodes)
        found = await follow(_EXPLAIN, engine, job_id, 0)
    except Invalid as invalid:
        return invalid.refusal
    known = found.answer
    if isinstance(known, No):
        return refuse(known.code, job_id=job_id)
    assert isinstance(known, _Known)  # noqa: S101 - it was followed
    told = explain_record(known.record, known.ticket)
    if not wants_nodes:
        return told
    everywhere = dict.fromkeys([cell_of(found.job_id), *cells])
    return _with_nodes(told, await _ask(engine, everywhere, page, known.ticket, known.record), count)


async def _ask(
    engine: Engine, cells: Iterable[str], page: tuple[str, int], ticket: Ticket, *job: JobRecord
) -> list[_Explained]:
    """As much of each cell as would fill the page."""

    async def ask(cell: str, ticket: Ticket = ticket) -> _Explained:
        answer = await _EXPLAIN(engine, cell, pack(("", 0, *page, ticket, *job)))
        assert isinstance(answer, _Explained)  # noqa: S101 - only a job can be unknown, or gone on
        return answer

    told = dict(zip(cells, await asyncio.gather(*map(ask, cells)), strict=True))
    if ticket.fallback and any(answer.live for answer in told.values()):
        # A language falls back only where no cell has anybody alive who serves it.
        own = replace(ticket, fallback="")
        told |= {cell: await ask(cell, own) for cell, answer in told.items() if not answer.live}
    return list(told.values())


def _page(cursor: object, count: object) -> tuple[str, int]:
    """From which name on, and how many nodes at most."""
    after = "" if isinstance(cursor, str) and not cursor else check_id("cursor", cursor)
    return after, check_int("count", count, 1, 1_000)


def _with_nodes(told: Explanation, answers: Sequence[_Explained], count: int) -> Explanation:
    """The first of all that the cells said of their nodes."""
    verdicts = sorted(
        (
            Verdict(node_id, reason, node.used, node.max, health(node), node.probe_at_ms > 0, seen)
            for answer in answers
            for node_id, reason, seen, node in answer.nodes
        ),
        key=lambda verdict: verdict.node_id,
    )
    has_more = len(verdicts) > count or any(answer.cursor for answer in answers)
    return replace(told, nodes=verdicts[:count], cursor=verdicts[count - 1].node_id if has_more else "")
