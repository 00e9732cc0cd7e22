"""heartbeat: a sign of life, and whatever has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.capability import CROWDED, Word, capability, why_no_pool
from lingua_scheduler.core.ids import check_cell, check_id, check_int, check_text
from lingua_scheduler.core.node import MAX_RUNNING, check_load, check_reported, check_running, check_slots
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)


class _Beaten(Answer, frozen=True, tag="BEATEN"):
    epoch: str
    standing: Standing
    cancel: list[tuple[str, int]]
    pairs: int
    crowded: bool
    cut_off: bool


class Beaten(msgspec.Struct, frozen=True):
    """The beat was taken; these attempts the node must stop.

    `standing` is how it stood before anybody who waits got what came free. `must_register`: it did not confirm in time
    that it had stopped, or is doubted and has no socket; it gets nothing until it registers.
    """

    epoch: str
    standing: Standing
    cancel: list[tuple[str, int]]
    warnings: list[str] = []
    must_register: bool = False
    #: What it can do has changed, and it serves something.
    serves_more: bool = False


_HEARTBEAT: Final = Face("flows/heartbeat", _Beaten, refuses=("UNKNOWN_NODE", "NODE_REPLACED", "STALE_ATTEMPT"))


def _word(
    health: str | None,
    max_concurrent_jobs: int | None,
    current_load: Mapping[str, float] | None,
    running: Sequence[tuple[str, int]] | None,
    running_jobs: int | None,
) -> Word:
    word: Word = {}
    if health is not None:
        word["reported"] = check_reported(health)
    if max_concurrent_jobs is not None:
        word["max"] = check_slots(max_concurrent_jobs)
    if current_load is not None:
        word["load"] = check_load(current_load)
    if running is not None:
        word["running"] = check_running(running)
    if running_jobs is not None:
        word["running_jobs"] = check_int("running_jobs", running_jobs, 0, MAX_RUNNING)
    return word


async def heartbeat(
    engine: Engine,
    cell: str,
    node_id: str,
    epoch: str = "",
    *,
    health: str | None = None,
    max_concurrent_jobs: int | None = None,
    current_load: Mapping[str, float] | None = None,
    running: Sequence[tuple[str, int]] | None = None,
    running_jobs: int | None = None,
    semantic_langs: Sequence[str] | None = None,
    asr_langs: Sequence[str] | None = None,
    nmt_pairs: Sequence[Sequence[str]] | str | None = None,
    tts_langs: Sequence[str] | None = None,
    services: Mapping[str, bool] | None = None,
    labels: Mapping[str, str] | None = None,
    accept_public_jobs: bool | None = None,
    lenient: bool = False,
    connection: str = "",
    said_ms: int = 0,
) -> Beaten | Refusal:
    """Take a beat. What is left out keeps its value. Many nodes' beats of one tick are one call.

    `connection` is the one by which it came, "" if by none; if another speaks for the node by now, that is
    NODE_REPLACED, and nothing changes. `said_ms`: it is not older than that, by the engine's clock; 0: it is said now.
    """
    try:
        cell = check_cell(cell)
        changed, warnings = capability(
            semantic_langs=semantic_langs,
            asr_langs=asr_langs,
            nmt_pairs=nmt_pairs,
            tts_langs=tts_langs,
            services=services,
            labels=labels,
            accept_public_jobs=accept_public_jobs,
            lenient=lenient,
        )
        word = _word(health, max_concurrent_jobs, current_load, running, running_jobs)
        item = pack(
            (
                check_id("node_id", node_id),
                check_text("epoch", epoch, 64),
                word,
                check_text("connection", connection, 64),
                check_int("said_ms", said_ms, 0, 2**53),
            )
        )
    except Invalid as invalid:
        return invalid.refusal
    answer = await _HEARTBEAT(engine, cell, item, pack(changed) if changed else b"")
    if log.is_debug:
        log.debug("heartbeat", node_id=node_id, answer=answer)
    if isinstance(answer, No):
        return refuse(answer.code, node_id=node_id, cell=cell)
    if answer.crowded:
        warnings.append(CROWDED)
    elif answer.pairs == 0:
        warnings.append(why_no_pool(changed) or "no pool: what is declared now and before leaves no pair")
    return Beaten(answer.epoch, answer.standing, answer.cancel, warnings, answer.cut_off, answer.pairs > 0)
