"""What the state machine can say to a cell: valid, late, foreign, stale and invented messages.

A message is drawn as an intention ("fail, about a live attempt, with an old epoch") and becomes a call when it is its
turn, when the model knows who is alive. So short sequences reach far, and shrink well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.records import Event
from lingua_scheduler.core.wanted import Hints, Wanted
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.core.limits import Limits
    from lingua_scheduler.core.node import Parting, RenewedBy
    from tests.property.facts import JobFacts
    from tests.property.model import Model

#: One is the beginning of another, so that a ledger read by prefix must not mix them up.
NODES: Final = ("n1", "n1.a", "n10", "N-2")
GHOST: Final = f"{CELL}.ghost"

CAPABILITIES: Final[tuple[dict[str, object], ...]] = (
    {"semantic_langs": ["zh", "en"]},
    {"semantic_langs": ["zh", "en"]},
    {"semantic_langs": ["zh"], "asr_langs": ["zh", "fr"], "nmt_pairs": [["*", "en"]]},
    {"semantic_langs": ["en", "zh"], "nmt_pairs": "any", "asr_langs": ["zh"]},
    {"semantic_langs": ["yue", "zh"], "tts_langs": ["en"]},
    {"semantic_langs": ["zh"], "tts_langs": ["en"], "services": {"tts": True, "tone": False}, "labels": {"at": "eu"}},
    {"semantic_langs": ["zh"], "nmt_pairs": [["zh", "*"], ["zh", "en"]], "accept_public_jobs": False},
    {"semantic_langs": ["zh", "en"], "nmt_pairs": [["en", "en"], ["zh", "zh"]]},
    {"semantic_langs": ["zh"], "nmt_pairs": []},
    {"semantic_langs": [], "lenient": True, "services": {"semantic": False}},
    {"semantic_langs": ["zh", "en"], "lenient": True, "services": {"semantic": False, "asr": True}},
    {"semantic_langs": ["zh", "en"], "services": {"semantic": False}},
)
CHANGES: Final[tuple[dict[str, object], ...]] = (
    {"nmt_pairs": "any"},
    {"nmt_pairs": []},
    {"tts_langs": ["en"]},
    {"semantic_langs": ["yue"]},
    {"labels": {"at": "us", "group": "blue"}},
    {"services": {"asr": False}},
    {"services": {}},
    {"services": {"semantic": False}},
    {"semantic_langs": ["zh"], "lenient": True},
    {"semantic_langs": ["zh", "en"], "asr_langs": ["zh", "en"]},
)
LANGUAGES: Final = (
    *[("zh", "en")] * 6,
    ("zh", "zh"),
    ("en", "zh"),
    ("yue", "en"),
    ("yue", "en"),
    ("fr", "en"),
    ("zh", "fr"),
)


@dataclass(frozen=True, slots=True)
class Op:
    """One call of a flow: the same for the real one and the model's."""

    flow: str
    named: dict[str, Any]

    def __str__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in self.named.items() if name != "cell")
        return f"{self.flow}({named})"


@dataclass(slots=True)
class Situation:
    """What a message may refer to."""

    model: Model
    #: How many job ids were made up so far.
    serial: int = 0
    #: What relays have taken and not confirmed.
    taken: tuple[Event, ...] = ()

    def jobs(self, *, live: bool = False, ended: bool = False) -> list[JobFacts]:
        return [
            job for job in self.model.jobs.values() if (not live or job.live) and (not ended or job.end is not None)
        ]


def _pick(things: Sequence[Any], number: int) -> Any:
    return things[number % len(things)]


# About a node.


@dataclass(frozen=True)
class Register:
    node: str
    said: int
    max: int
    health: str
    epoch: str
    process: str
    connection: str
    credential: str
    running: str
    acks: bool
    tells: bool
    renewed_by: RenewedBy = ""
    #: When its connection was opened: so long ago; None: it is not said.
    age_ms: int | None = None

    def op(self, now: Situation) -> Op:
        node = now.model.nodes.get(self.node)
        known = {
            "epoch": node.epoch if node else "",
            "process": node.process if node else "",
            "connection": node.connection if node else "",
        }
        return Op(
            "register",
            {
                "cell": CELL,
                "node_id": self.node,
                **CAPABILITIES[self.said],
                "max_concurrent_jobs": self.max,
                "health": self.health,
                "epoch": known["epoch"] if self.epoch == "same" else self.epoch,
                "process_id": known["process"] if self.process == "same" else self.process,
                "connection": known["connection"] if self.connection == "same" else self.connection,
                "credential": self.credential,
                "running": running_of(now, self.node, self.running),
                "acks": self.acks,
                "tells": self.tells,
                "nonce": "x",
                "renewed_by": self.renewed_by,
                "opened_ms": 0 if self.age_ms is None else now.model.now - self.age_ms,
            },
        )


def running_of(now: Situation, node_id: str, how: str) -> list[tuple[str, int]] | None:
    """A node's word on what it runs: true, partial or invented."""
    model = now.model
    held = [(job_id, attempt) for _, job_id, attempt in model.leases_of(node_id)]
    live = [(job_id, attempt) for _, job_id, attempt in model.leases_of(node_id, fenced=False)]
    elsewhere = [(job_id, max(job.attempt, 1)) for job_id, job in model.jobs.items()]
    words = {
        "untold": None,
        "nothing": [],
        "live": live,
        "all": held,
        "some": held[::2],
        "repeated": held + held,
        "ghost": [*live, (GHOST, 1)],
        "coming": [*live, (f"{CELL}.j{now.serial + 1}", 1)],
        "others": [*live, *elsewhere[:2]],
        "next": [*live, *((job_id, attempt + 1) for job_id, attempt in elsewhere[-1:])],
    }
    return words[how]


@dataclass(frozen=True)
class Beat:
    node: str
    epoch: str
    health: str | None
    max: int | None
    load: float | None
    running: str
    running_jobs: int | None
    change: int | None
    connection: str = ""
    #: So long ago it may have been said; None: it is said now.
    age_ms: int | None = None

    def op(self, now: Situation) -> Op:
        node = now.model.nodes.get(self.node)
        named: dict[str, Any] = {
            "cell": CELL,
            "node_id": self.node,
            "epoch": node.epoch if node and self.epoch == "same" else self.epoch,
            "health": self.health,
            "max_concurrent_jobs": self.max,
            "current_load": None if self.load is None else {"gpu": self.load, "cpu": 0.5},
            "running": running_of(now, self.node, self.running),
            "running_jobs": self.running_jobs,
            "connection": node.connection if node and self.connection == "same" else self.connection,
            "said_ms": 0 if self.age_ms is None else now.model.now - self.age_ms,
            **({} if self.change is None else CHANGES[self.change]),
        }
        return Op("heartbeat", {name: value for name, value in named.items() if value is not None})


@dataclass(frozen=True)
class Intend:
    flow: str
    node: str

    def op(self, now: Situation) -> Op:  # noqa: ARG002
        return Op(self.flow, {"cell": CELL, "node_id": self.node})


@dataclass(frozen=True)
class Limit:
    node: str
    max: int | None

    def op(self, now: Situation) -> Op:  # noqa: ARG002
        return Op("limit", {"cell": CELL, "node_id": self.node, "max_concurrent_jobs": self.max})


@dataclass(frozen=True)
class Fault:
    """A service of a node was seen not to work."""

    node: str
    service: str
    type: str
    connection: str = ""

    def op(self, now: Situation) -> Op:  # noqa: ARG002
        named = {"node_id": self.node, "service": self.service, "service_type": self.type}
        return Op("mark", {"cell": CELL, **named, "connection": self.connection})


@dataclass(frozen=True)
class Leave:
    node: str
    epoch: str

    def op(self, now: Situation) -> Op:
        node = now.model.nodes.get(self.node)
        epoch = node.epoch if node and self.epoch == "same" else self.epoch
        return Op("leave", {"cell": CELL, "node_id": self.node, "epoch": epoch})


@dataclass(frozen=True)
class Disconnect:
    node: str
    connection: str
    how: Parting

    def op(self, now: Situation) -> Op:
        node = now.model.nodes.get(self.node)
        connection = (node.connection if node else "") if self.connection == "same" else self.connection
        named = {"cell": CELL, "node_id": self.node, "connection": connection or "s0", "how": self.how}
        return Op("disconnect", named)


# About a job.


@dataclass(frozen=True)
class Dispatch:
    #: None: a new job; else one that exists, or existed.
    again: int | None
    languages: int
    limits: Limits
    seed: int
    body: str
    wanted: Wanted = Wanted()  # noqa: RUF009 - frozen
    hints: Hints = Hints()  # noqa: RUF009

    def op(self, now: Situation) -> Op:
        if self.again is None or not now.serial:
            now.serial += 1
            number = now.serial
        else:
            number = 1 + self.again % now.serial
        src, tgt = LANGUAGES[self.languages]
        named = {
            "job_id": f"{CELL}.j{number}",
            "session_id": "s1",
            "src_lang": src,
            "tgt_lang": tgt,
            "limits": self.limits,
            "seed": self.seed,
            "body": self.body,
            "wanted": self.wanted,
            "hints": self.hints,
        }
        return Op("dispatch", named)


@dataclass(frozen=True)
class Aim:
    """Which attempt a message is about, and how truly it names it."""

    at: str
    pick: int
    epoch: str

    def attempt(self, now: Situation) -> dict[str, Any]:
        job_id, attempt, node_id, epoch = self._find(now)
        return {
            "job_id": job_id,
            "attempt_id": attempt,
            "node_id": node_id,
            "epoch": epoch if self.epoch == "right" else self.epoch,
        }

    def _find(self, now: Situation) -> tuple[str, int, str, str]:
        live, ended = now.jobs(live=True), now.jobs(ended=True)
        fenced = sorted(lease for lease, facts in now.model.leases.items() if facts.fenced_at is not None)
        past = [(job, entry) for job in now.model.jobs.values() for entry in job.history]
        if self.at == "fenced" and fenced:
            node_id, job_id, attempt = _pick(fenced, self.pick)
            return job_id, attempt, node_id, now.model.nodes[node_id].epoch
        if self.at == "past" and past:
            job, entry = _pick(past, self.pick)
            return job.ticket.job, entry.attempt, entry.node, job.epoch
        if self.at == "ended" and ended:
            job = _pick(ended, self.pick)
            return job.ticket.job, max(job.attempt, 1), job.node or "n1", job.epoch
        if self.at == "ghost" or not (live or ended):
            return GHOST, 1, "n1", ""
        job = _pick(live or ended, self.pick)
        job_id, attempt, node_id = job.ticket.job, max(job.attempt, 1), job.node or "n1"
        if self.at == "foreign":
            node_id = _pick([other for other in NODES if other != node_id], self.pick)
        return job_id, attempt + (self.at == "next"), node_id, job.epoch


@dataclass(frozen=True)
class Report:
    """ack, started, stopped, deliver, done or fail."""

    flow: str
    aim: Aim
    extra: tuple[tuple[str, object], ...] = ()

    def op(self, now: Situation) -> Op:
        return Op(self.flow, {**self.aim.attempt(now), **dict(self.extra)})


@dataclass(frozen=True)
class OfJob:
    """cancel or release."""

    flow: str
    pick: int
    wanted: str

    def op(self, now: Situation) -> Op:
        jobs = now.jobs(ended=self.wanted == "ended")
        job_id = _pick(jobs, self.pick).ticket.job if jobs and self.wanted != "ghost" else GHOST
        return Op(self.flow, {"job_id": job_id})


# About the cell.


@dataclass(frozen=True)
class Reap:
    limit: int

    def op(self, now: Situation) -> Op:  # noqa: ARG002
        return Op("reap", {"cell": CELL, "limit": self.limit})


@dataclass(frozen=True)
class Relay:
    limit: int
    confirm: str

    def op(self, now: Situation) -> Op:
        events = {
            "none": (),
            "all": now.taken,
            "first": now.taken[:1],
            "invented": (Event("ended", GHOST, 1, "n1", "", "", 1),),
        }
        return Op("relay", {"cell": CELL, "handed_over": events[self.confirm], "limit": self.limit})


Message = Register | Beat | Intend | Limit | Fault | Leave | Disconnect | Dispatch | Report | OfJob | Reap | Relay


def honest_beat(node_id: str, how: str) -> Beat:
    """A sign of life, and what the node works on: as a list, as a number, or not told."""
    running = "live" if how == "running" else "untold"
    return Beat(node_id, "same", None, None, None, running, 0 if how == "running_jobs" else None, None)
