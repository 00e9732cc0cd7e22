"""What is kept in the engine: packed records, positional, one definition for Python and Lua.

Each struct is a msgpack array in the engine. `store/tables.py` gives the Lua scripts the position of every field, so
that `job[JOB.state]` there and `job.state` here are the same byte. Fields are only ever appended.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from lingua_scheduler.core.job_state import State


class Record(msgspec.Struct, array_like=True, frozen=True):
    """A positional record."""


class Standing(IntEnum):
    """Why a node can or cannot be chosen: exactly one answer for each node, the first that holds.

    A node that is or may be dead is called that whatever was said of it before. Then comes what the operator decided,
    what the node says, and what we observed; only a node that could otherwise be chosen is called full.

    The order matters: up to `suspect` a node has room, up to `suspect_full` it may be chosen or will be when a slot is
    free, and from `stale` on it may be dead.
    """

    available = 0
    suspect = 1
    full = 2
    suspect_full = 3
    resting = 4
    not_ready = 5
    draining = 6
    stale = 7
    lost = 8


#: A node's place in the index is STANDINGS × group + standing, so this bounds the standings there can be.
STANDINGS: Final = 16

#: How many nodes of a group have room: those above suspicion, plus so many times those under it.
SUSPECTS: Final = 2**20


#: A choice is one number, for every job carries it: CHOICES × (SUSPECTS × group + candidates) + policy.
CHOICES: Final = 16


class Choice(msgspec.Struct, frozen=True):
    """Why an attempt went where it went: the node's group, how many had room, and what stood against a wish."""

    group: int = 0
    candidates: int = 0
    policy: int = 0
    reasons: list[str] = []

    @classmethod
    def of(cls, chosen: int, reasons: list[str]) -> Choice:
        """What a record says of it."""
        rest, policy = divmod(chosen, CHOICES)
        return cls(*divmod(rest, SUSPECTS), policy, reasons)

    def packed(self) -> int:
        """All but the reasons, as a record has it."""
        return CHOICES * (SUSPECTS * self.group + self.candidates) + self.policy


class PastAttempt(Record, frozen=True):
    """An attempt that ended without a result, and why. `next_…` is what the message that ended it was told."""

    attempt: int
    node: str
    cause: str
    ended_at_ms: int
    next_state: State
    next_attempt: int
    reserved_at_ms: int = 0
    chosen: int = 0
    reasons: list[str] = []
    #: The cell of its node, if that is another than the job's own.
    cell: str = ""
    #: How far it came; 0: not so far.
    dispatched_at_ms: int = 0
    accepted_at_ms: int = 0
    started_at_ms: int = 0

    @property
    def choice(self) -> Choice:
        """Why it went where it went."""
        return Choice.of(self.chosen, self.reasons)


class Past(Record, frozen=True):
    """What happened to a job before its current attempt. Empty while it runs the first time, and nothing is special."""

    tries: int = 0
    undelivered: int = 0
    overloaded: int = 0
    lost: int = 0
    released_at_ms: int = 0
    reason: str = ""
    attempts: list[PastAttempt] = []
    #: What stood against a wish when the current attempt was placed, or was special about it.
    reasons: list[str] = []


class JobRecord(Record, frozen=True):
    """The part of a job that changes.

    `cell` is that of its node, if the job is a guest there; of one that retries, the cell that is asked for a node;
    else "". `asked` is the last attempt for which another cell was asked: its number is not given again.
    """

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
    chosen: int
    cell: str = ""
    asked: int = 0

    @property
    def choice(self) -> Choice:
        """Why the current attempt went where it went."""
        return Choice.of(self.chosen, self.past.reasons)


class Wishes(Record, frozen=True):
    """What a job wishes beyond its pair, its services and its policy; and what is remembered of its session."""

    named: str = ""
    strict: int = 0
    excluded: list[str] = []
    labels: list[tuple[str, str]] = []
    back: str = ""
    bound: str = ""
    last: str = ""
    pool: str = ""
    seen: list[str] = []


class Ticket(Record, frozen=True):
    """What was asked for. Written once, as it came; only the ids and limits that the flows need.

    `needs` are bits of `core/needs.py`. Few jobs wish for more: then there is one record of it.
    """

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
    needs: int
    policy: int
    wait_ms: int
    wishes: list[Wishes]
    #: How often it went on from cell to cell before it came here.
    hop: int = 0

    @property
    def wish(self) -> Wishes:
        """What is wished, nothing included."""
        return self.wishes[0] if self.wishes else Wishes()


class Way(Record, frozen=True):
    """Where a job went that found no node here: the cell, and how often it had gone on by then."""

    cell: str
    hop: int


class Guest(Record, frozen=True):
    """An attempt of a job of another cell that has a slot here. `over`: how it ended; "refused": nobody had room.

    What is over is remembered until the job's deadline: whoever asks for it once more is late.
    """

    node: str
    epoch: str
    acks: int
    chosen: int
    reasons: list[str]
    hosted_at_ms: int
    deadline_at_ms: int
    over: str


class NodeRecord(Record, frozen=True):
    """The part of a node that choosing needs.

    The first ones are read at a glance, without the rest. `used` and `limbo` are sizes of the ledger, kept beside it.
    `recent` has a bit for each of its last five jobs, set if the node failed it; `ack_ms` and `typical_ms` are moving
    averages of how long it took to accept a job and to do it, 0 while that is not known. `max` is how many slots it
    has: `own_max`, the node's own word, or `limit`, the operator's, if that is less (0: there is none). `ceiling` is
    what `used` may be: `max`, or more if the node already held more when it last spoke or was limited (its slots were
    lowered, or it came back with work we did not know). `flaps` is how often it was gone lately, a digit to the base
    `FLAP_BASE` for each of the `FLAP_PARTS` of a window, the newest last, as it was at `flapped_at_ms`. `nonce` is the
    end of its connection's name, "" without one: what another connection says of the node does not count. `unheard`
    says of a node whose socket is closed that it was silent before: we hung up, because it did not answer.
    """

    used: int
    max: int
    seen_at_ms: int
    recent: int
    ack_ms: int
    typical_ms: int
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
    probe_at_ms: int
    flaps: int
    flapped_at_ms: int
    own_max: int
    limit: int
    nonce: str
    unheard: int = 0


class Intent(Record, frozen=True):
    """What the operator wants of a node that is gone, as its record would say it."""

    intent: str
    limit: int


class Home(Record, frozen=True):
    """The cell in which a node is at home, and which of all that were ever given this one is."""

    cell: str
    stamp: int


#: So long a cell knows that a home was given up; nobody who was sent there before sleeps longer.
DEPARTED_MS: Final = 86_400_000


class Mark(Record, frozen=True):
    """A service that was seen not to work; `type` "" is the whole node."""

    service: str
    type: str
    marked_at_ms: int
    until_ms: int


#: As many marks as a node can have.
MAX_MARKS: Final = 32


class Profile(Record, frozen=True):
    """The part of a node that choosing does not need: what it said of itself, and who it is.

    `asr` and `tts` are False when the node does not declare them; `nmt` is True for any pair. Maps are sorted lists of
    their items, so that the same word has the same bytes. `update` is the digest of the last capability that a
    heartbeat brought: nodes that repeat it with every beat cost nothing. So many marks were made since `marking_since`.
    `legacy`: it named its semantic languages as field nodes do. Its connection was opened at `opened_ms`.
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
    marks: list[Mark]
    marking_since_ms: int
    marked: int
    legacy: bool
    opened_ms: int


class GroupRecord(Record, frozen=True):
    """Nodes with the same effective capability. Which ones they are, the index says."""

    signature: str
    tts: list[str] | bool
    labels: list[tuple[str, str]]
    pairs: list[str]


class Claim(Record, frozen=True):
    """Which job a request id stands for. Sealed once that job exists; until then `claimants` are about to make it.

    A claimant is known by the job id that it offered itself. `*` stands for all that there was no room for.
    """

    digest: str
    job: str
    sealed: int
    claimants: list[str]


class Memory(Record, frozen=True):
    """Where the last jobs of a session went: the last one, the pieces of each turn, each utterance and its job."""

    node: str
    pool: str
    turns: list[tuple[str, str, int]]
    seen: list[tuple[int, str, str]]


class Entry(Record, frozen=True):
    """Whose a session is, the index of its next utterance, and, as in a `Bucket`, how many may still come.

    `free` are stretches of numbers below `next` that nobody has: passed over, or given back.
    """

    principal: str
    next: int
    tokens: int
    at_ms: int
    free: list[tuple[int, int]]


class Given(Record, frozen=True):
    """A number of a session that somebody else was given, and the job that he was about to make for it."""

    utterance: int
    job: str
    trace: str
    timeout_ms: int


class Bucket(Record, frozen=True):
    """How much of one kind may still come: thousandths of tokens, as they were then. Since then more dripped in."""

    tokens: int
    at_ms: int


#: So many turns, and so many utterances, of a session are remembered.
MAX_REMEMBERED: Final = 16

#: So many stretches of free numbers are remembered of a session.
MAX_FREE: Final = 32

#: So many numbers are remembered that others were given for a session which has a connection.
MAX_GIVEN: Final = 64

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


#: Ended jobs are in the due-list too, to be forgotten, but this much later than their time: a dispatch, which must
#: settle what is due before it chooses, has nothing to do with them. Far beyond every clock, far below 2^53.
FORGET_FROM: Final = 10**15

#: Lost nodes without a current attempt are only to be forgotten, too, and have a place of their own behind the jobs:
#: there they stand in the order in which they are gone, so that a full cell finds the one that is gone for longest.
#: One that has yet to confirm that it stopped is gone when its time for that is over.
GONE_FROM: Final = 2 * FORGET_FROM

#: So many nodes that are gone may have to go before a full cell has room for another; more are missing only in one that
#: was made much smaller. It looks past so many that must stay.
MAX_LEAVING: Final = 16
MAX_PASSED_OVER: Final = 16

#: A node's word is written down as a sign of life at most this often.
HEARD_STEP_MS: Final = 100
