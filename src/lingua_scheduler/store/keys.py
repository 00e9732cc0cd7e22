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
        "node_record_ttl_ms after the node is lost, or leave",
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
    Key(
        "jobs",
        "hash",
        "job id",
        "job record (msgpack, `JobRecord`)",
        "released_ttl_ms after release, else job_record_ttl_ms after the end",
    ),
    Key("tickets", "hash", "job id", "what was asked for (msgpack, `Ticket`)", "as the job's record"),
    Key(
        "bodies",
        "hash",
        "job id + `:payload` or `:result`",
        "text in and out",
        "release, or result_ttl_ms after the end",
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
        "limbo_ttl_ms, or until its node registers",
    ),
    Key(
        "due",
        "zset",
        "`j:job`, `l:lease` or `n:node`",
        "when to look at it again; of an ended job, 10^15 later",
        "as what it names",
    ),
    Key("outbox", "zset", "event (msgpack, `Event`)", "when a relay may take it", "until it is handed over"),
    Key(
        "counts",
        "hash",
        "name",
        "jobs accepted, and ended by state; number of the last group and epoch",
        "as the cell",
    ),
)

CELL_KEY_NAMES: Final[tuple[str, ...]] = tuple(key.name for key in CELL_KEYS)


def cell_key(prefix: str, cell: str, name: str) -> str:
    """`lingua:v1:{c0}:jobs`."""
    return f"{prefix}:{{{cell}}}:{name}"
