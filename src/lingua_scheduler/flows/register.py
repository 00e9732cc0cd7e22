"""register: a node joins, or comes back."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from lingua_scheduler.core.capability import CROWDED, capability, check_joining, why_no_pool
from lingua_scheduler.core.ids import check_bool, check_cell, check_id, check_int, check_text
from lingua_scheduler.core.node import check_about, check_renewed_by, check_reported, check_running, check_slots
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingua_scheduler.core.node import RenewedBy
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)

How = Literal["NEW", "RESYNC", "NEW_PROCESS", "CONTINUED", "RENEWED"]


class _Registered(Answer, frozen=True, tag="REGISTERED"):
    how: How
    epoch: str
    standing: Standing
    pairs: list[str]
    cancel: list[tuple[str, int]]
    crowded: bool
    replaced: str


class Registered(msgspec.Struct, frozen=True):
    """The node is in: its epoch, the pairs it serves, and what it must stop working on.

    `replaced` is the connection that spoke for it until now, "" if there was none, or the same.
    """

    how: How
    epoch: str
    standing: Standing
    pairs: list[str]
    cancel: list[tuple[str, int]]
    warnings: list[str]
    replaced: str = ""
    #: Where it is at home, of one for whom that was found out.
    cell: str = ""


_REFUSES: Final = ("NODE_ID_CONFLICT", "CELL_FULL", "NODE_REPLACED", "HOME_GONE")
_REGISTER: Final = Face("flows/register", _Registered, refuses=_REFUSES)


async def register(
    engine: Engine,
    cell: str,
    node_id: str,
    *,
    semantic_langs: Sequence[str] | None = None,
    asr_langs: Sequence[str] | None = None,
    nmt_pairs: Sequence[Sequence[str]] | str | None = None,
    tts_langs: Sequence[str] | None = None,
    services: Mapping[str, bool] | None = None,
    labels: Mapping[str, str] | None = None,
    accept_public_jobs: bool | None = None,
    max_concurrent_jobs: int = 4,
    health: str = "ready",
    epoch: str = "",
    process_id: str = "",
    running: Sequence[tuple[str, int]] | None = None,
    connection: str = "",
    credential: str = "",
    acks: bool = True,
    tells: bool = True,
    lenient: bool = False,
    about: str = "",
    nonce: str | None = None,
    renewed_by: RenewedBy = "",
    opened_ms: int = 0,
    stamp: int = 0,
) -> Registered | Refusal:
    """Enter the node, or compare notes with it.

    `acks`: it says when it has a job; one that does not accepts by the write. `tells`: it can say when it has
    stopped. `lenient`: a field node, whose unknown languages are dropped with a warning, and which
    has no pools while its semantic repair is not ready. `connection` is the nonce of its socket, "" for a node without
    one. `renewed_by`: the node registers again by the connection that it has, or the instance that holds this does so
    for it, from memory. `opened_ms` is when the connection was opened, by the engine's clock; 0: now. If one that was
    opened later speaks for the node by now, that is NODE_REPLACED, and nothing changes.
    `stamp` is that of the home by which it comes here; 0: nobody has asked for it.
    """
    try:
        cell, semantic_langs = check_cell(cell), () if semantic_langs is None else semantic_langs
        word, warnings = capability(
            semantic_langs=semantic_langs,
            asr_langs=asr_langs,
            nmt_pairs=nmt_pairs,
            tts_langs=tts_langs,
            services=services,
            labels=labels,
            accept_public_jobs=accept_public_jobs,
            lenient=lenient,
        )
        check_joining(word, semantic_langs)
        item = pack(
            (
                check_id("node_id", node_id),
                check_text("credential", credential, 128),
                check_text("epoch", epoch, 64),
                check_text("process_id", process_id, 128),
                check_text("connection", connection, 64),
                check_slots(max_concurrent_jobs),
                check_reported(health),
                int(check_bool("acks", acks)),
                int(check_bool("tells", tells)),
                secrets.token_hex(4) if nonce is None else check_id("nonce", nonce),
                word,
                False if running is None else check_running(running),
                check_about(about),
                check_renewed_by(renewed_by),
                check_int("opened_ms", opened_ms, 0, 2**53),
                check_int("stamp", stamp, 0, 2**53),
            )
        )
    except Invalid as invalid:
        return invalid.refusal
    answer = await _REGISTER(engine, cell, item)
    log.info("register", node_id=node_id, cell=cell, kind=getattr(answer, "how", None), answer=answer)
    if isinstance(answer, No):
        return refuse(answer.code, node_id=node_id, cell=cell)
    if not answer.pairs:
        warnings.append(CROWDED if answer.crowded else why_no_pool(word))
    return Registered(answer.how, answer.epoch, answer.standing, answer.pairs, answer.cancel, warnings, answer.replaced)
