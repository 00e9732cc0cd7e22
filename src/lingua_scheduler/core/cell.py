"""A cell as it can be seen: at one instant whole, or a node with all that holds its slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.records import (
    Event,
    GroupRecord,
    Guest,
    Intent,
    JobRecord,
    NodeRecord,
    Profile,
    Record,
    Ticket,
    Way,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class HeldJob(Record, frozen=True):
    """What the job behind a lease says of itself. All empty: there is no such job.

    Of a guest, whose job is in another cell, what is known here; it is called `RESERVED` whatever it is at home.
    """

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
    intents: dict[str, Intent]
    departed: dict[str, int]
    jobs: dict[str, JobRecord]
    tickets: dict[str, Ticket]
    ways: dict[str, Way]
    bodies: dict[str, str]
    guests: dict[str, Guest]
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
            node_id, job_id, attempt = lease.split(":")
            job = self.jobs.get(job_id)
            held = HeldJob(job.state, job.attempt, job.node, job.epoch) if job else HeldJob()
            guest = None if job else self.guests.get(f"{job_id}:{attempt}")
            if guest is not None and not guest.over:
                held = HeldJob("RESERVED", int(attempt), guest.node, guest.epoch)
            entry = f"g:{job_id}:{attempt}" if guest else f"j:{job_id}"
            entry = f"l:{lease}" if lease in self.limbo else entry
            found = HeldLease(lease, self.limbo.get(lease, 0), self.due.get(entry, -1), held)
            leases.setdefault(node_id, []).append(found)
        for node_id, record in self.nodes.items():
            yield Ledger(node_id, record, self.standing.get(node_id, -1), leases[node_id])
