"""explain: why a job went where it went, and who could take one now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.explain import Explanation, explain_record
from lingua_scheduler.core.health import health
from lingua_scheduler.core.ids import check_cell, check_cursor, check_int
from lingua_scheduler.core.records import NodeRecord
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.core.ticket import make_ticket
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.views.job import read_job

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

NODES_PER_PAGE: Final = 200


class _Verdicts(Answer, frozen=True, tag="VERDICTS"):
    cursor: str
    nodes: list[tuple[str, str, NodeRecord]]


class Verdict(msgspec.Struct, frozen=True):
    """Whether a node could take the job: `reason` is "" or the first thing that stands against it."""

    node_id: str
    reason: str
    used: int
    max: int
    health: int
    suspect: bool


class Page(msgspec.Struct, frozen=True):
    """Some of the fleet. The next page begins at `cursor`; "0": there is none."""

    cursor: str
    nodes: list[Verdict]


_EXPLAIN: Final = Face("views/explain", _Verdicts)


async def explain_pair(
    engine: Engine,
    cell: str,
    src_lang: str,
    tgt_lang: str,
    *,
    wanted: Wanted = Wanted(),  # noqa: B008 - frozen
    cursor: str = "0",
    count: int = NODES_PER_PAGE,
) -> Page | Refusal:
    """A dry run: who could take such a job now, and for each other node the first reason why not. A page at a time."""
    try:
        cell = check_cell(cell)
        _, ticket = make_ticket(f"{cell}.explain", "explain", src_lang, tgt_lang, wanted=wanted, hints=Hints())
        item = pack((ticket, check_cursor(cursor), check_int("count", count, 1, 1_000)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _EXPLAIN(engine, cell, item)
    assert isinstance(answer, _Verdicts)  # noqa: S101 - it refuses nothing
    verdicts = [
        Verdict(node_id, reason, node.used, node.max, health(node), node.probe_at_ms > 0)
        for node_id, reason, node in answer.nodes
    ]
    return Page(answer.cursor, verdicts)


async def explain_job(engine: Engine, job_id: str) -> Explanation | Refusal:
    """Why a job went where it went, attempt by attempt."""
    job = await read_job(engine, job_id)
    return job if isinstance(job, Refusal) else explain_record(job.record)
