"""Every key of the state engine: its name, type, life and owner. No key name is written anywhere else.

All keys of a cell carry the cell's hash tag and are fixed: a script never builds a key name. So every script can
declare all it touches, on a Cluster too, and a slot that migrates never meets a key it was not told of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a cell."""

    name: str
    type: str
    member: str
    value: str
    life: str


CELL_KEYS: Final[tuple[Key, ...]] = (
    Key(
        "nodes",
        "hash",
        "node id",
        "node record (msgpack, `NodeRecord`)",
        "node_record_ttl_ms after the node is gone, or leave; of a full cell, until another takes its place",
    ),
    Key(
        "profiles",
        "hash",
        "node id",
        "what the node said of itself (msgpack, `Profile`)",
        "as the node's record",
    ),
    Key(
        "standing",
        "zset",
        "node id",
        "16 × group + standing: who can be chosen, and why the others cannot",
        "as the node's record",
    ),
    Key("room", "hash", "group", "how many of its nodes can be chosen now", "while the group lives"),
    Key(
        "groups",
        "hash",
        "group",
        "group record (msgpack, `GroupRecord`): nodes of one effective capability",
        "while it has nodes",
    ),
    Key("signatures", "hash", "SHA-1 of a capability", "group", "while the group lives"),
    Key("pairs", "hash", "`src:tgt`", "the groups that serve it (msgpack)", "while a group serves it"),
    Key("ends", "hash", "`src:` or `:tgt`", "how many groups take the one, give the other", "while a group does"),
    Key(
        "intents",
        "hash",
        "node id",
        "what the operator wants of a node that is gone (msgpack, `Intent`)",
        "until the node registers, or nothing is wanted of it any more, at most intent_ttl_ms",
    ),
    Key(
        "departed",
        "hash",
        "node id",
        "the stamp of the home that was given up here: whoever was sent here with it, or before, is not let in",
        "a day",
    ),
    Key(
        "jobs",
        "hash",
        "job id; with `:ticket`, `:payload`, `:result` or `:way` behind it",
        "job record (msgpack, `JobRecord`); what was asked for (msgpack, `Ticket`); text in and "
        "out; of one that is not here any more, the cell to which it went on (msgpack, `Way`)",
        "released_ttl_ms after release, else job_record_ttl_ms after the end; its text until release, or "
        "result_ttl_ms; its way as long as its timeout_ms and claim_lease_ms",
    ),
    Key(
        "guests",
        "hash",
        "`job:attempt`",
        "an attempt of a job of another cell that has a slot here, or had, or was refused one (msgpack, `Guest`)",
        "the job's deadline",
    ),
    Key(
        "leases",
        "zset",
        "`node:job:attempt`",
        "0: the ledger of taken slots, in order of node",
        "deadline of the lease + one sweep",
    ),
    Key(
        "limbo",
        "hash",
        "`node:job:attempt`",
        "when the attempt was fenced",
        "limbo_ttl_ms; of a node that is cut off, until it registers or is forgotten",
    ),
    Key(
        "queue",
        "zset",
        "a line + `:` + deadline + `:` + job id",
        "0: jobs without a node, each in several lines, in each by deadline: `wsrc:tgt` (its pair), "
        "`fsrc:tgt:src:tgt` (its fallback and its pair), `ggroup` (every group that could serve it; `xgroup` if some "
        "of its nodes could not), `nnode` (the node it names)",
        "until the job has a node or ends",
    ),
    Key(
        "due",
        "zset",
        "`j:job`, `l:lease`, `n:node`, `m:node` (its marks), `r:node` (it has room for more who wait), `f:` (more who "
        "wait may fall back), `i:node` (an intent), `d:node` (a home that was given up), `w:job` (where it went on "
        "to) or `g:job:attempt` (a guest)",
        "when to look at it again; of what is only to be forgotten 10^15 later, of nodes that are gone 2·10^15",
        "as what it names",
    ),
    Key("outbox", "zset", "event (msgpack, `Event`)", "when a relay may take it", "until it is handed over"),
    Key(
        "counts",
        "hash",
        "name",
        "jobs accepted, refused by code, and ended by state; attempts by how they ended, retries by why; waits; "
        "number of the last group and epoch; the schema of all records, the birth of the cell, and the reign under "
        "which it is served; until when those are listened to who had lost the engine; how many nodes of other cells "
        "are silent and heard, and when that was told",
        "as the cell",
    ),
    Key(
        "witness",
        "string",
        "",
        "nothing: whichever replica has it has all that was written before; also of what lives outside the cells",
        "a second",
    ),
)

#: What lives outside every cell, in a slot of its own: the tag names a request, `{req:principal:id}`, a session,
#: `{sess:id}`, a pairing code, `{code:123456}`, audio, `{audio:ref}`, what is counted together, `{rate:name}`, a seat
#: at a page, `{seat:digest}`, or an instance, `{inst:id}`. The directory, `{dir}`, the dead letters, `{dlq}`, and the
#: feed of notices, `{feed}`, have one for all of them.
OUTSIDE_KEYS: Final[tuple[Key, ...]] = (
    Key(
        "claim",
        "string",
        "",
        "which job a request id stands for (msgpack, `Claim`)",
        "the job's timeout_ms and claim_lease_ms while nobody sealed it, then as long as the job's record can live",
    ),
    Key(
        "memory",
        "string",
        "",
        "where a session's last jobs went (msgpack, `Memory`)",
        "binding_ttl_ms after the last of them",
    ),
    Key(
        "entry",
        "string",
        "",
        "whose a session is, the index of its next utterance, how many may still come (msgpack, `Entry`)",
        "as long as whoever used it last said, and no less than `session`",
    ),
    Key(
        "session",
        "hash",
        "",
        "`state`: what a session needs to go on elsewhere, no text and no audio; `owner`: the connection that holds "
        "it; `token`: what whoever takes it over must show; `lent`: numbers that it was given and has not saved; "
        "`given`: the last numbers that others were given for it, and their jobs (msgpack, `Given`); "
        "`opened`: when its client's last connection was opened; `heard`: of which part of its stream `heard` is",
        "the resume window after it was saved; until it is dropped",
    ),
    Key(
        "heard",
        "string",
        "",
        "audio that a session has heard and that may have no job yet; `state` tells what it is",
        "as `session`; until it has its jobs",
    ),
    Key(
        "pairing", "string", "", "the node that a pairing code stands for: cell and node id (msgpack)", "pairing_ttl_ms"
    ),
    Key(
        "audio",
        "hash",
        "",
        "`audio`: the bytes of an utterance or a voice; `owner` and `media`: whose and what they are",
        "as its keeper says, or longer while a job needs it; until it is erased",
    ),
    Key("bucket", "string", "", "how much of one kind may still come (msgpack, `Bucket`)", "until it is full"),
    Key(
        "link",
        "string",
        "",
        "whose seat a link makes, and whether he may only look (msgpack)",
        "auth.link_ttl_ms; until it is used",
    ),
    Key("seat", "string", "", "who is signed in at a page (msgpack, `Seat`)", "auth.seat_ttl_ms; until he signs out"),
    Key("presence", "string", "", "what an instance says of itself (msgpack, `Presence`)", "presence_ttl_ms"),
    Key(
        "inbox",
        "stream",
        "",
        "letters to an instance, `letter` each (msgpack, `Letter`); who took which, the group `readers` knows",
        "while the instance is there, or letters lie in it",
    ),
    Key("closed", "string", "", "the beat of the instance at which its inbox was closed", "a day"),
    Key("instances", "zset", "", "instance id: when it last beat", "until its inbox is closed"),
    Key("shape", "string", "", "the schema of all records under the prefix", "as the prefix"),
    Key(
        "directory",
        "hash",
        "",
        "`version`: grows with every new cell and every change of `routes`; `stamp`: that of the last home; "
        "`routed:cell`: how often nodes have come to a cell",
        "as the directory",
    ),
    Key("cells", "hash", "", "cell: how many nodes are at home there", "as the directory"),
    Key(
        "homes",
        "hash",
        "",
        "node id: the cell in which it is at home (msgpack, `Home`)",
        "until the node has left its cell, or was forgotten there",
    ),
    Key("routes", "hash", "", "`src:tgt`: the cells that serve it (msgpack)", "while a cell serves it"),
    Key(
        "history",
        "hash",
        "",
        "how the fleet was in a stretch of ten seconds, by its place in the hour: which stretch, and `Point` (msgpack)",
        "an hour",
    ),
    Key(
        "dead",
        "hash",
        "",
        "dead letter id: the letter and why it failed (msgpack, `DeadLetter`)",
        "until replayed or deleted",
    ),
    Key("dead_ids", "zset", "", "dead letter id: 0; the order of `dead`", "as `dead`"),
    Key(
        "notices",
        "stream",
        "",
        "what happened to the fleet, for people, `notice` each (msgpack, `Notice`); the newest 2000",
        "a week after the last",
    ),
)

#: A key of every tag that never exists. On a Cluster every script declares it: see `cluster.py`.
GUARD: Final = "guard"

#: What the tag of a thing outside the cells begins with, up to the colon.
TAG_KINDS: Final = ("req", "sess", "code", "audio", "rate", "inst", "seat")

OUTSIDE_KEY_NAMES: Final[tuple[str, ...]] = tuple(key.name for key in OUTSIDE_KEYS)
CELL_KEY_NAMES: Final[tuple[str, ...]] = tuple(key.name for key in CELL_KEYS)


def cell_key(prefix: str, cell: str, name: str) -> str:
    """`lingua:v1:{c0}:jobs`; of what lives outside the cells, the tag stands in the cell's place."""
    return f"{prefix}:{{{cell}}}:{name}"


def session_tag(session_id: str) -> str:
    """The slot of a session."""
    return f"sess:{session_id}"


def pairing_tag(code: str) -> str:
    """The slot of a pairing code."""
    return f"code:{code}"


def audio_tag(ref: str) -> str:
    """The slot of audio."""
    return f"audio:{ref}"


def rate_tag(name: str) -> str:
    """The slot of what is counted together."""
    return f"rate:{name}"


def instance_tag(instance_id: str) -> str:
    """The slot of an instance."""
    return f"inst:{instance_id}"


def seat_tag(place: str) -> str:
    """The slot of a seat, and of the link that makes it."""
    return f"seat:{place}"


#: The slot of the directory.
DIRECTORY: Final = "dir"

#: The slot of the dead letters.
DEAD_LETTERS: Final = "dlq"


#: The slot of the notices.
FEED: Final = "feed"


def request_tag(principal: str, request_id: str) -> str:
    """The slot of a request: the same id of another principal is another request."""
    return f"req:{principal}:{request_id}"
