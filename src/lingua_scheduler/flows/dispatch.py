"""dispatch: choose a node, take one of its slots, create the job."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.ids import cell_of, check_id, check_int, check_text
from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.language import UnknownLanguage, reduce_language
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.records import Ticket
from lingua_scheduler.core.refusal import Breakdown, Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

MAX_BODY_CHARS: Final = 64 * 1024
MAX_TIMEOUT_MS: Final = 86_400_000
SEEDS: Final = 2**32

#: For how many microseconds of the loop's clock a dispatch is sent again while more is overdue than one run may
#: settle: a call fails within a second. A cell that is still behind then has lost its reapers for long.
_PATIENCE: Final = 1_000_000


class Placed(Answer, frozen=True, tag="PLACED"):
    """The job exists and has its node. Of a job that existed already: where it is now."""

    state: State
    node_id: str
    epoch: str
    attempt_id: int
    acks: int


class Full(Answer, frozen=True, tag="ALL_CANDIDATES_FULL_OR_FAILED"):
    """Capable nodes exist, none could take it now."""

    pool: int
    full: int
    stale: int
    not_ready: int
    draining: int
    resting: int


class Incapable(Answer, frozen=True, tag="NO_CAPABLE_NODE"):
    """No registered node could ever take it: whether any takes the source, and whether any gives the target."""

    takes_source: bool
    gives_target: bool

    def missing(self, pair: Pair) -> str:
        """The part that is missing, in words."""
        if not self.takes_source:
            return f"none has semantic repair (and asr) for {pair.src}"
        if not self.gives_target:
            return f"none translates into {pair.tgt}"
        return f"some take {pair.src} and some give {pair.tgt}, but none does both"


class Overdue(Answer, frozen=True, tag="OVERDUE"):
    """Nothing was done: more is overdue than one dispatch may settle."""


_DISPATCH: Final = Face[Placed | Full | Incapable | Overdue]("flows/dispatch", Placed, Full, Incapable, Overdue)


def _limits(value: object) -> Limits:
    if not isinstance(value, Limits):
        raise Invalid("limits must be Limits")
    return value


def _language(field: str, tag: object) -> str:
    try:
        return reduce_language(check_text(field, tag, 256))
    except UnknownLanguage as unknown:
        raise Invalid(f"{field}: {unknown}") from None


async def dispatch(
    engine: Engine,
    job_id: str,
    session_id: str,
    src_lang: str,
    tgt_lang: str,
    *,
    body: str = "",
    utterance_index: int = 0,
    trace_id: str = "",
    limits: Limits = Limits(),  # noqa: B008 - frozen
    seed: int | None = None,
) -> Placed | Refusal:
    """Place a job. Sent again with the same `job_id` it answers where that job is, and creates nothing."""
    try:
        cell = cell_of(job_id)
        pair = Pair(_language("src_lang", src_lang), _language("tgt_lang", tgt_lang))
        fallback = pair.fallback()
        limits = _limits(limits)
        ticket = Ticket(
            job=job_id,
            session=check_id("session_id", session_id),
            utterance=check_int("utterance_index", utterance_index, 0, 2**53),
            pair=str(pair),
            fallback="" if fallback is None else str(fallback),
            ack_ms=check_int("ack_ms", limits.ack_ms, 1, MAX_TIMEOUT_MS),
            run_ms=check_int("run_ms", limits.run_ms, 1, MAX_TIMEOUT_MS),
            timeout_ms=check_int("timeout_ms", limits.timeout_ms, 1, MAX_TIMEOUT_MS),
            max_retry=check_int("max_retry", limits.max_retry, 0, 10),
            seed=random.randrange(SEEDS) if seed is None else check_int("seed", seed, 0, SEEDS - 1),
            trace=check_text("trace_id", trace_id, 128),
        )
        text = check_text("body", body, MAX_BODY_CHARS).encode()
    except Invalid as invalid:
        return invalid.refusal
    item = pack(ticket)
    clock = asyncio.get_running_loop().time
    until = clock() + _PATIENCE / 1_000_000
    while True:
        answer = await _DISPATCH(engine, cell, item, text)
        if isinstance(answer, Placed):
            return answer
        if isinstance(answer, Full):
            counts = Breakdown(**msgspec.structs.asdict(answer))
            return refuse("ALL_CANDIDATES_FULL_OR_FAILED", counts, pair=pair, pool=counts.pool)
        if isinstance(answer, Incapable):
            return refuse("NO_CAPABLE_NODE", pair=pair, missing=answer.missing(pair))
        if clock() >= until:
            raise DependencyDown("BEHIND", f"cell {cell} has more overdue than dispatches could settle in a second")
