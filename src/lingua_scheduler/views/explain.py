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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.store.engine import Engine

NODES_PER_PAGE: Final = 200


class _Explained(Answer, frozen=True, tag="EXPLAINED"):
    jobs: list[tuple[JobRecord, Ticket]]
    cursor: str
    nodes: list[tuple[str, str, bool, NodeRecord]]


_EXPLAIN: Final = Face("views/explain", _Explained, refuses=("UNKNOWN_JOB",))


async def explain_pair(
    engine: Engine,
    cell: str,
    src_lang: str,
    tgt_lang: str,
    *,
    wanted: Wanted = Wanted(),  # noqa: B008 - frozen
    cursor: str = "",
    count: int = NODES_PER_PAGE,
) -> Explanation | Refusal:
    """A dry run: who could take such a job now, and for each other node the first reason why not.

    At most `count` nodes by name, from `cursor` on. A node that stays registered is on exactly one page.
    """
    try:
        cell = check_cell(cell)
        pair, ticket = make_ticket(f"{cell}.explain", "explain", src_lang, tgt_lang, wanted=wanted, hints=Hints())
        item = pack(("", *_page(cursor, count), ticket))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _EXPLAIN(engine, cell, item)
    assert isinstance(answer, _Explained)  # noqa: S101 - only a job can be unknown
    return _with_nodes(Explanation(str(pair)), answer)


async def explain_everywhere(
    engine: Engine,
    cells: Sequence[str],
    src_lang: str,
    tgt_lang: str,
    *,
    wanted: Wanted = Wanted(),  # noqa: B008 - frozen
    cursor: str = "",
    count: int = NODES_PER_PAGE,
) -> Explanation | Refusal:
    """The same over several cells: as much of each as would fill the page, and the first of all of that."""
    pages = await asyncio.gather(
        *(explain_pair(engine, cell, src_lang, tgt_lang, wanted=wanted, cursor=cursor, count=count) for cell in cells)
    )
    nodes: list[Verdict] = []
    for page in pages:
        if isinstance(page, Refusal):
            return page
        nodes += page.nodes or ()
    nodes.sort(key=lambda verdict: verdict.node_id)
    has_more = len(nodes) > count or any(not isinstance(page, Refusal) and page.cursor for page in pages)
    first = pages[0]
    assert isinstance(first, Explanation)  # noqa: S101 - or it was returned
    return replace(first, nodes=nodes[:count], cursor=nodes[count - 1].node_id if has_more else "")


async def explain_job(
    engine: Engine, job_id: str, *, nodes: bool = False, cursor: str = "", count: int = NODES_PER_PAGE
) -> Explanation | Refusal:
    """Why a job went where it went, attempt by attempt.

    With `nodes` also who could take it now, as `explain_pair` says it, but for all that this very job asked for: in its
    own cell, for there it stays.
    """
    try:
        cell = cell_of(job_id)
        cursor, count = _page(cursor, count)
        item = pack((job_id, cursor, count if check_bool("nodes", nodes) else 0))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _EXPLAIN(engine, cell, item)
    if isinstance(answer, No):
        return refuse(answer.code, job_id=job_id)
    told = explain_record(*answer.jobs[0])
    return _with_nodes(told, answer) if nodes else told


def _page(cursor: object, count: object) -> tuple[str, int]:
    """From which name on, and how many nodes at most."""
    after = "" if isinstance(cursor, str) and not cursor else check_id("cursor", cursor)
    return after, check_int("count", count, 1, 1_000)


def _with_nodes(told: Explanation, answer: _Explained) -> Explanation:
    verdicts = [
        Verdict(node_id, reason, node.used, node.max, health(node), node.probe_at_ms > 0, seen)
        for node_id, reason, seen, node in answer.nodes
    ]
    return replace(told, nodes=verdicts, cursor=answer.cursor)
