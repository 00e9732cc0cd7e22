"""dispatch: choose a node, take one of its slots, create the job."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.ids import cell_of, check_text
from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.needs import MUTE, PRIVATE, services_in
from lingua_scheduler.core.refusal import Breakdown, Invalid, Refusal, refuse
from lingua_scheduler.core.ticket import make_ticket
from lingua_scheduler.core.wanted import NO_HINTS, USUAL_WANTED, Hints, Wanted
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Answer, Face, No, pack
from lingua_scheduler.store.following import GoneOn

if TYPE_CHECKING:
    from lingua_scheduler.core.pair import Pair
    from lingua_scheduler.core.records import Event
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)

MAX_BODY_CHARS: Final = 64 * 1024

#: For so long a dispatch is sent again while more is overdue than one run may settle: a call fails within a second. A
#: cell that is still behind then has lost its reapers for long.
_PATIENCE_S: Final = 1.0


class Placed(Answer, frozen=True, tag="PLACED"):
    """The job exists and has its node. Of a job that existed already: where it is now."""

    state: State
    node_id: str
    epoch: str
    attempt_id: int
    acks: int
    pool: str = ""
    #: This very call created it.
    is_new: bool = False
    #: When the time of a new job is over, by the engine's clock.
    deadline_at_ms: int = 0


class Waiting(Answer, frozen=True, tag="WAITING"):
    """The job waits for a slot, at most until then. It is the `place`-th of its pair, by deadline.

    How it goes on is in the outbox: `reserved` when it has a node, `refused` when it has waited long enough.
    """

    place: int
    until_ms: int


class Full(Answer, frozen=True, tag="ALL_CANDIDATES_FULL_OR_FAILED"):
    """Capable nodes exist, none could take it now. In the order of `Breakdown`."""

    pool: int
    full: int
    stale: int
    not_ready: int
    draining: int
    resting: int
    marked: int
    excluded: int
    no_service: int
    not_permitted: int


class Incapable(Answer, frozen=True, tag="NO_CAPABLE_NODE"):
    """No registered node could ever take it: which end is missing, or what all lack who serve the pair."""

    takes_source: int
    gives_target: int
    nodes: int = 0
    lacks: int = 0

    def missing(self, pair: Pair, wanted: Wanted) -> str:
        """The part that is missing, in words."""
        if not self.takes_source:
            return f"none takes {pair.src}, which needs semantic repair (and asr) for it and a pair from it"
        if not self.gives_target:
            return f"none translates into {pair.tgt}"
        if not self.nodes:
            return f"some take {pair.src} and some give {pair.tgt}, but none does both"
        return f"{self.nodes} serve the pair, but {self._lacking(pair, wanted)}"

    def _lacking(self, pair: Pair, wanted: Wanted) -> str:
        if services := services_in(self.lacks):
            return f"none has the service {' or '.join(services)}"
        if self.lacks & MUTE:
            return f"none speaks {pair.tgt}"
        if self.lacks & PRIVATE:
            return "only for jobs that name them"
        labels = [f"the label {name}={value}" for name, value in wanted.labels.items()]
        back = [f"the way back {pair.tgt}:{pair.src}"] if wanted.two_way else []
        return f"none has all of {', '.join([*labels, *back, *wanted.services])}"


class Unavailable(Answer, frozen=True, tag="PREFERRED_NODE_UNAVAILABLE"):
    """The node that the job insists on cannot take it now, and why."""

    why: str


class Overdue(Answer, frozen=True, tag="OVERDUE"):
    """Nothing was done: more is overdue than one dispatch may settle."""


_DISPATCH: Final = Face[Placed | Waiting | Full | Incapable | Unavailable | GoneOn | Overdue](
    "flows/dispatch",
    Placed,
    Waiting,
    Full,
    Incapable,
    Unavailable,
    GoneOn,
    Overdue,
    refuses=("PREFERRED_NODE_NOT_CAPABLE",),
)


def check_body(value: object) -> str:
    """What the job's node is told, whatever it is."""
    if isinstance(value, str) and len(value) > MAX_BODY_CHARS:
        what = f"What its node is to be told of the job (features, payload and the like) takes {len(value)} characters"
        raise Invalid(f"{what}; at most {MAX_BODY_CHARS} are carried.", "PAYLOAD_TOO_LARGE")
    return check_text("body", value, MAX_BODY_CHARS)


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
    wanted: Wanted = USUAL_WANTED,
    hints: Hints = NO_HINTS,
    seed: int | None = None,
    hop: int = 0,
) -> Placed | Waiting | GoneOn | Refusal:
    """Place a job, or let it wait. Sent again with the same id it answers where that job is, and creates nothing.

    `hop` is how often it has gone on from cell to cell; one that went on since then is to be looked for there.
    """
    try:
        cell = cell_of(job_id)
        pair, ticket = make_ticket(
            job_id,
            session_id,
            src_lang,
            tgt_lang,
            utterance_index=utterance_index,
            trace_id=trace_id,
            limits=limits,
            wanted=wanted,
            hints=hints,
            seed=seed,
            hop=hop,
        )
        text = check_body(body).encode()
    except Invalid as invalid:
        return invalid.refusal
    item = pack(ticket)
    until = monotonic() + _PATIENCE_S
    while True:
        answer = await _DISPATCH(engine, cell, item, text)
        if log.is_debug:
            _tell(job_id, session_id, trace_id, answer)
        if isinstance(answer, Placed | Waiting | GoneOn):
            return answer
        if not isinstance(answer, Overdue):
            return _refusal(answer, pair, wanted)
        if monotonic() >= until:
            raise DependencyDown("BEHIND", f"cell {cell} has more overdue than dispatches could settle in a second")


def _tell(job_id: str, session_id: str, trace_id: str, answer: Answer) -> None:
    placed = answer if isinstance(answer, Placed) else None
    log.debug(
        "dispatch",
        job_id=job_id,
        node_id=placed and placed.node_id,
        attempt=placed and placed.attempt_id,
        session_id=session_id,
        trace_id=trace_id,
        answer=answer,
    )


def _refusal(answer: Full | Incapable | Unavailable | No, pair: Pair, wanted: Wanted) -> Refusal:
    if isinstance(answer, Full):
        counts = Breakdown(**msgspec.structs.asdict(answer))
        return refuse("ALL_CANDIDATES_FULL_OR_FAILED", counts, pair=pair, pool=counts.pool)
    if isinstance(answer, Incapable):
        return refuse("NO_CAPABLE_NODE", pair=pair, missing=answer.missing(pair, wanted))
    if isinstance(answer, Unavailable):
        return refuse("PREFERRED_NODE_UNAVAILABLE", node_id=wanted.preferred_node_id, why=answer.why)
    return refuse(answer.code, node_id=wanted.preferred_node_id, pair=pair)


def refused(event: Event, pair: Pair, wanted: Wanted) -> Refusal:
    """The refusal that a job got after it had waited, from the event that says so."""
    waited_ms, code, *told = event.detail.split()
    answer = _DISPATCH.read(pack((code, *(int(value) if value.isdigit() else value for value in told))))
    assert not isinstance(answer, Placed | Waiting | GoneOn | Overdue)  # noqa: S101 - it says how a dispatch refuses
    refusal = _refusal(answer, pair, wanted)
    detail = f"It waited {waited_ms} ms. {refusal.detail}"
    return msgspec.structs.replace(refusal, detail=detail, waited_ms=int(waited_ms))
