"""What is kept in the engine: packed records, positional, one definition for Python and Lua.

Each struct is a msgpack array in the engine. `store/tables.py` gives the Lua scripts the position of every field, so
that `job[JOB.state]` there and `job.state` here are the same byte. Fields are only ever appended.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.job_state import State

if TYPE_CHECKING:
    from collections.abc import Iterator


class Record(msgspec.Struct, array_like=True, frozen=True):
    """A positional record."""


class Standing(IntEnum):
    """Why a node can or cannot be chosen: exactly one answer for each node, the first that holds.

    A node that may be dead is called stale whatever was said of it before. Then comes what the operator decided, what
    the node says, and what we observed; only a node that could otherwise be chosen is called full.
    """

    available = 0
    full = 1
    resting = 2
    stale = 3
    not_ready = 4
    draining = 5


#: A node's place in the index is STANDINGS × group + standing, so this bounds the standings there can be.
STANDINGS: Final = 16


class PastAttempt(Record, frozen=True):
    """An attempt that ended without a result, and why. `next_…` is what the message that ended it was told."""

    attempt: int
    node: str
    cause: str
    ended_at_ms: int
    next_state: State
    next_attempt: int


class Past(Record, frozen=True):
    """What happened to a job before its current attempt. Empty while it runs the first time."""

    tries: int = 0
    undelivered: int = 0
    overloaded: int = 0
    lost: int = 0
    released_at_ms: int = 0
    reason: str = ""
    attempts: list[PastAttempt] = []


class JobRecord(Record, frozen=True):
    """The part of a job that changes."""

    state: State
    attempt: int
    node: str
    epoch: str
    acks: int
    deadline_at_ms: int
    run_ms: int
    seed: int
    created_at_ms: int
    reserved_at_ms: int
    dispatched_at_ms: int
    accepted_at_ms: int
    started_at_ms: int
    ended_at_ms: int
    past: Past


class Ticket(Record, frozen=True):
    """What was asked for. Written once, as it came; only the ids and limits that the flows need."""

    job: str
    session: str
    utterance: int
    pair: str
    fallback: str
    ack_ms: int
    run_ms: int
    timeout_ms: int
    max_retry: int
    seed: int
    trace: str


class NodeRecord(Record, frozen=True):
    """The part of a node that choosing needs.

    The first three are read at a glance, without the rest. `used` and `limbo` are sizes of the ledger, kept beside it.
    `ceiling` is what `used` may be: `max`, or more if the node already held more when it last spoke (its slots were
    lowered, or it came back with work we did not know).
    """

    used: int
    max: int
    seen_at_ms: int
    limbo: int
    group: int
    standing: int
    epoch: str
    reported: str
    intent: str
    lost_at_ms: int
    away_until_ms: int
    rest_until_ms: int
    cut_off: int
    acks: int
    tells: int
    ceiling: int


class Profile(Record, frozen=True):
    """The part of a node that choosing does not need: what it said of itself, and who it is.

    `asr` and `tts` are False when the node does not declare them; `nmt` is True for any pair. Maps are sorted lists of
    their items, so that the same word has the same bytes. `update` is the digest of the last capability that a
    heartbeat brought: nodes that repeat it with every beat cost nothing.
    """

    credential: str
    process: str
    connection: str
    registered_at_ms: int
    semantic: list[str]
    asr: list[str] | bool
    nmt: list[str] | bool
    tts: list[str] | bool
    services: list[tuple[str, bool]]
    labels: list[tuple[str, str]]
    public: bool
    load: list[tuple[str, float]]
    about: str
    update: str


class GroupRecord(Record, frozen=True):
    """Nodes with the same effective capability. Which ones they are, the index says."""

    signature: str
    pairs: list[str]


class HeldJob(Record, frozen=True):
    """What the job behind a lease says of itself. All empty: there is no such job."""

    state: State | None = None
    attempt: int = 0
    node: str = ""
    epoch: str = ""


class HeldLease(Record, frozen=True):
    """A lease: when it was fenced (0: it was not), when somebody will look at it (-1: nobody will), and its job."""

    name: str
    fenced_at_ms: int
    due_at_ms: int
    job: HeldJob


class Ledger(Record, frozen=True):
    """A node's record, its place in the index, and what holds its slots."""

    node_id: str
    record: NodeRecord
    score: int
    leases: list[HeldLease]


class Claim(Record, frozen=True):
    """Which job a request id stands for. Sealed once that job exists; until then `claimants` are about to make it.

    A claimant is known by the job id that it offered itself. `*` stands for all that there was no room for.
    """

    digest: str
    job: str
    sealed: int
    claimants: list[str]


#: More of the same request at once than this, and only the lease's end frees it after a refusal.
MAX_CLAIMANTS: Final = 100


class Event(Record, frozen=True):
    """An entry of the outbox. Unique by kind, job, attempt and node: a relay may hand it over twice."""

    kind: str
    job: str
    attempt: int
    node: str
    epoch: str
    detail: str
    at_ms: int


class Cell(msgspec.Struct, frozen=True):
    """A cell at one instant, key by key, in plain values."""

    now_ms: int
    nodes: dict[str, NodeRecord]
    profiles: dict[str, Profile]
    standing: dict[str, int]
    room: dict[int, int]
    groups: dict[int, GroupRecord]
    signatures: dict[str, int]
    pairs: dict[str, list[int]]
    ends: dict[str, int]
    intents: dict[str, str]
    jobs: dict[str, JobRecord]
    tickets: dict[str, Ticket]
    bodies: dict[str, str]
    leases: list[str]
    limbo: dict[str, int]
    queue: list[str]
    due: dict[str, int]
    outbox: list[tuple[Event, int]]
    counts: dict[str, int]

    def ledgers(self) -> Iterator[Ledger]:
        """Each node with its leases, as the paged view gives them."""
        leases: dict[str, list[HeldLease]] = {node_id: [] for node_id in self.nodes}
        for lease in self.leases:
            node_id, job_id, _ = lease.split(":")
            job = self.jobs.get(job_id)
            held = HeldJob(job.state, job.attempt, job.node, job.epoch) if job else HeldJob()
            entry = f"l:{lease}" if lease in self.limbo else f"j:{job_id}"
            found = HeldLease(lease, self.limbo.get(lease, 0), self.due.get(entry, -1), held)
            leases.setdefault(node_id, []).append(found)
        for node_id, record in self.nodes.items():
            yield Ledger(node_id, record, self.standing.get(node_id, -1), leases[node_id])


class Rules(Record, frozen=True):
    """The settings that the scripts obey, in milliseconds and counts."""

    limbo_ttl_ms: int = 60_000
    stale_ms: int = 35_000
    offline_ms: int = 45_000
    node_record_ttl_ms: int = 3_600_000
    result_ttl_ms: int = 120_000
    job_record_ttl_ms: int = 3_600_000
    released_ttl_ms: int = 300_000
    intent_ttl_ms: int = 604_800_000
    reconnect_grace_ms: int = 500
    handover_grace_ms: int = 10_000
    fallback_poll_ms: int = 100
    confirm_after_ms: int = 2_000
    rest_ms: int = 1_000
    max_rest_ms: int = 60_000
    max_undelivered: int = 10
    max_overloaded: int = 10
    max_lost: int = 2
    cell_capacity: int = 1_000
    max_groups: int = 256
    relay_lease_ms: int = 1_000
    claim_lease_ms: int = 90_000


#: Ended jobs are in the due-list too, to be forgotten, but this much later than their time: a dispatch, which must
#: settle what is due before it chooses, has nothing to do with them. Far beyond every clock, far below 2^53.
FORGET_FROM: Final = 10**15

#: A node's word is written down as a sign of life at most this often.
HEARD_STEP_MS: Final = 100
