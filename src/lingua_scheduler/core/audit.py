"""The invariants, as checks over what was read.

Pure: the same code judges a page in production and a whole cell in tests. The ids are those of docs/invariants.md.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.ids import cell_of
from lingua_scheduler.core.job_state import ENDS, LIVE_STATES, WAITING_STATES
from lingua_scheduler.core.needs import LACKS, lacks_of
from lingua_scheduler.core.records import FORGET_FROM, GONE_FROM, STANDINGS, SUSPECTS, Standing
from lingua_scheduler.core.waiting import could_go, places_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lingua_scheduler.core.cell import Cell, HeldLease, Ledger
    from lingua_scheduler.core.records import Guest, JobRecord, NodeRecord


class Violation(msgspec.Struct, frozen=True):
    """Something that must never be so."""

    invariant: str
    subject: str
    detail: str


def lease_name(node_id: str, job_id: str, attempt: int) -> str:
    """The name of a slot that an attempt has taken, as the ledger has it."""
    return f"{node_id}:{job_id}:{attempt}"


def audit_ledger(ledger: Ledger, now_ms: int, overdue_ms: int) -> Iterator[Violation]:
    """S1 to S4 for one node and what holds its slots; `overdue_ms` is how late a sweep may be."""
    node, node_id = ledger.record, ledger.node_id
    fenced = [lease for lease in ledger.leases if lease.fenced_at_ms]
    if node.max != (min(node.own_max, node.limit) if node.limit else node.own_max):
        yield Violation("S1", node_id, f"it has {node.max} slots, says {node.own_max}, and is limited to {node.limit}")
    if len(ledger.leases) > node.ceiling:
        yield Violation("S1", node_id, f"{len(ledger.leases)} slots are taken, {node.ceiling} may be")
    if node.used != len(ledger.leases):
        yield Violation("S3", node_id, f"used is {node.used}, the ledger has {len(ledger.leases)}")
    if node.limbo != len(fenced):
        yield Violation("S3", node_id, f"limbo is {node.limbo}, {len(fenced)} leases are fenced")
    if ledger.score != STANDINGS * node.group + node.standing:
        yield Violation(
            "S3", node_id, f"the index has {ledger.score}, not {STANDINGS} × {node.group} + {node.standing}"
        )
    if node.standing <= Standing.suspect and node.used >= node.max:
        yield Violation("S1", node_id, f"{node.used} of {node.max} slots are taken, and it can be chosen")
    for lease in ledger.leases:
        yield from _audit_lease(lease, node, now_ms, overdue_ms)


def _audit_lease(lease: HeldLease, node: NodeRecord, now_ms: int, overdue_ms: int) -> Iterator[Violation]:
    job, fenced = lease.job, lease.fenced_at_ms > 0
    current = (
        job.state in LIVE_STATES
        and lease_name(job.node, lease.name.split(":")[1], job.attempt) == lease.name
        and job.epoch == node.epoch
    )
    if current and fenced:
        yield Violation("S2", lease.name, "it is the job's current attempt, and fenced")
    if not current and not fenced:
        yield Violation("S2", lease.name, f"it is not the job's current attempt ({job}), and not fenced")
    # The slots of a node that is cut off stay taken until it registers.
    if lease.due_at_ms < 0 and not (fenced and node.cut_off):
        yield Violation("S4", lease.name, "nobody will ever look at it again")
    elif 0 <= lease.due_at_ms < now_ms - overdue_ms:
        yield Violation("S4", lease.name, f"due for {now_ms - lease.due_at_ms} ms")


def audit_cell(cell: Cell, overdue_ms: int) -> Iterator[Violation]:
    """Everything that can be seen in a cell at one instant; `overdue_ms` is how late a sweep may be."""
    for ledger in cell.ledgers():
        yield from audit_ledger(ledger, cell.now_ms, overdue_ms)
    yield from _leases_have_owners(cell)
    yield from _guests_have_leases(cell)
    yield from _numbers_are_sizes(cell)
    yield from _groups_are_what_nodes_say(cell)
    yield from _who_waits_is_queued(cell)
    yield from _jobs_add_up(cell)
    yield from _nothing_is_late(cell, overdue_ms)
    yield from _nothing_is_immortal(cell)


def _guests_have_leases(cell: Cell) -> Iterator[Violation]:
    for name, guest in cell.guests.items():
        entry = cell.due.get(f"g:{name}")
        if not guest.over and f"{guest.node}:{name}" not in cell.leases:
            yield Violation("S2", name, f"it is a guest on {guest.node} without a lease")
        if entry is not None and (entry >= FORGET_FROM) != bool(guest.over):
            yield Violation("S4", name, f"a guest, {guest.over or 'here'}, and due at {entry}")


def audit_guests(cells: Mapping[str, Cell]) -> Iterator[Violation]:
    """S2 and S8 of guests, over all cells, read while nobody called: each has its other half, or will be let go."""
    for name, cell in cells.items():
        for guest_name, guest in cell.guests.items():
            job_id, _, attempt = guest_name.partition(":")
            home = cells[cell_of(job_id)]
            if not guest.over and not _is_let_go(home, "let_go", job_id, int(attempt)):
                yield from _audit_guest(name, guest_name, guest, home.jobs.get(job_id))
        for job_id, job in cell.jobs.items():
            if job.cell and job.state in LIVE_STATES:
                there = cells[job.cell]
                found = there.guests.get(f"{job_id}:{job.attempt}")
                is_there = found is not None and not found.over
                if not is_there and not _is_let_go(there, "guest_lost", job_id, job.attempt):
                    yield Violation("S2", job_id, f"it is {job.state} on {job.node} of {job.cell}, and no guest there")


def _is_let_go(cell: Cell, kind: str, job_id: str, attempt: int) -> bool:
    return any((event.kind, event.job, event.attempt) == (kind, job_id, attempt) for event, _ in cell.outbox)


def _audit_guest(cell: str, name: str, guest: Guest, job: JobRecord | None) -> Iterator[Violation]:
    attempt = int(name.partition(":")[2])
    is_asked = job is not None and (job.state, job.cell, job.asked) == ("RETRYING", cell, attempt)
    is_lodged = job is not None and job.state in LIVE_STATES and job.attempt == attempt
    if is_lodged and job is not None and (job.cell, job.node, job.epoch) != (cell, guest.node, guest.epoch):
        yield Violation("S8", name, f"it is a guest on {guest.node} of {cell}, and at home on {job.node} of {job.cell}")
    elif not is_asked and not is_lodged:
        yield Violation("S2", name, f"it is a guest of {cell}, and nobody at home knows of it")


def _leases_have_owners(cell: Cell) -> Iterator[Violation]:
    leases = set(cell.leases)
    for lease in leases:
        if lease.split(":")[0] not in cell.nodes:
            yield Violation("S2", lease, "its node is not registered")
    for lease in cell.limbo:
        if lease not in leases:
            yield Violation("S2", lease, "it is fenced, but not in the ledger")
    for job_id, job in cell.jobs.items():
        is_here = job.state in LIVE_STATES and not job.cell
        if is_here and lease_name(job.node, job_id, job.attempt) not in leases:
            yield Violation("S2", job_id, f"it is {job.state} on {job.node} without a lease")
    # Fenced ones do not count: a node may claim to work on what another one has, and is kept to its word.
    held = Counter(tuple(lease.split(":")[1:]) for lease in leases - cell.limbo.keys())
    for attempt, number in held.items():
        if number > 1:
            yield Violation("S2", ":".join(attempt), f"{number} nodes have the attempt")


def _numbers_are_sizes(cell: Cell) -> Iterator[Violation]:
    room = {Standing.available: 1, Standing.suspect: SUSPECTS}
    available: Counter[int] = Counter()
    for node in cell.nodes.values():
        if node.group and node.standing in room:
            available[node.group] += room[Standing(node.standing)]
    for group, number in cell.room.items():
        if number != available[group]:
            yield Violation("S3", f"group {group}", f"room is {number}, and not {available[group]}")
    for group in available.keys() - cell.room.keys():
        yield Violation("S3", f"group {group}", "nodes can be chosen, and room does not know it")
    if set(cell.standing) != set(cell.nodes):
        yield Violation("S3", "standing", f"{set(cell.standing) ^ set(cell.nodes)} are in one of index and nodes")


def _groups_are_what_nodes_say(cell: Cell) -> Iterator[Violation]:
    members = {node.group for node in cell.nodes.values() if node.group}
    if members != cell.groups.keys():
        yield Violation("S3", "groups", f"the nodes say {members}")
    served: dict[str, list[int]] = {}
    ends: Counter[str] = Counter()
    for group, record in sorted(cell.groups.items()):
        profiles = [cell.profiles[n] for n, node in cell.nodes.items() if node.group == group and n in cell.profiles]
        for pair in record.pairs if profiles else ():
            served.setdefault(pair, []).append(LACKS * group + lacks_of(profiles[0], _split(pair)[1]))
        ends.update({end for src, tgt in map(_split, record.pairs) for end in (f"{src}:", f":{tgt}")})
        if any((profile.tts, profile.labels) != (record.tts, record.labels) for profile in profiles):
            yield Violation("S3", f"group {group}", "its nodes speak other languages, or carry other labels")
        if cell.signatures.get(record.signature) != group:
            yield Violation("S3", f"group {group}", "its signature leads elsewhere")
    if {pair: sorted(groups) for pair, groups in cell.pairs.items()} != served:
        yield Violation("S3", "pairs", f"the groups say {served}")
    if cell.ends != ends:
        yield Violation("S3", "ends", f"the groups say {dict(ends)}")
    if len(cell.signatures) != len(cell.groups):
        yield Violation("S3", "signatures", f"{len(cell.signatures)} for {len(cell.groups)} groups")


def _split(pair: str) -> tuple[str, str]:
    src, _, tgt = pair.partition(":")
    return src, tgt


def _who_waits_is_queued(cell: Cell) -> Iterator[Violation]:
    """A job without a node stands in the queue wherever it could be served, and nobody has room who could serve it."""
    waiting = {job_id for job_id, job in cell.jobs.items() if job.state in WAITING_STATES and job_id in cell.tickets}
    places = {place for job_id in waiting for place in places_of(cell, job_id)}
    if places != set(cell.queue):
        yield Violation("S3", "queue", f"{places - set(cell.queue)} missing, {set(cell.queue) - places} too many")
    if "f:" in cell.due:
        return
    idle = {
        node_id
        for node_id, node in cell.nodes.items()
        if node.standing <= Standing.suspect and f"r:{node_id}" not in cell.due
    }
    for job_id in sorted(waiting):
        able = sorted(node_id for node_id in idle if could_go(cell, node_id, job_id))
        if able:
            yield Violation("L1", job_id, f"it waits while {able} have room")


def _jobs_add_up(cell: Cell) -> Iterator[Violation]:
    ended = sum(cell.counts.get(state, 0) for state in ENDS)
    under_way = sum(job.state not in ENDS and job.state != "WAITING" for job in cell.jobs.values())
    if cell.counts.get("accepted", 0) != ended + under_way:
        yield Violation("S6", "jobs", f"{cell.counts} with {under_way} under way")
    remembered = Counter(job.state for job in cell.jobs.values())
    for state in ENDS:
        if remembered[state] > cell.counts.get(state, 0):
            yield Violation(
                "S5", state, f"{remembered[state]} jobs are remembered, {cell.counts.get(state, 0)} counted"
            )
    for job_id, job in cell.jobs.items():
        if (job.ended_at_ms > 0) != (job.state in ENDS):
            yield Violation("S5", job_id, f"{job.state}, ended at {job.ended_at_ms}")


def _nothing_is_late(cell: Cell, overdue_ms: int) -> Iterator[Violation]:
    for member, score in cell.due.items():
        at_ms = score % FORGET_FROM
        if at_ms + overdue_ms < cell.now_ms:
            yield Violation("S4", member, f"due for {cell.now_ms - at_ms} ms")
    for node_id, node in cell.nodes.items():
        entry = cell.due.get(f"n:{node_id}")
        is_gone = node.lost_at_ms > 0 and node.used == node.limbo
        if entry is not None and entry >= GONE_FROM and not is_gone:
            yield Violation(
                "S4", node_id, f"to be forgotten: lost at {node.lost_at_ms}, {node.used - node.limbo} attempts"
            )
    for lease in cell.limbo:
        gone_at, until = cell.due.get(f"n:{lease.split(':')[0]}", 0) - GONE_FROM, cell.due.get(f"l:{lease}", 0)
        if 0 <= gone_at < until:
            yield Violation("S4", lease, f"may be confirmed until {until}, and its node is forgotten at {gone_at}")
    for job_id, job in cell.jobs.items():
        entry = cell.due.get(f"j:{job_id}")
        if entry is not None and (entry >= FORGET_FROM) != (job.state in ENDS):
            yield Violation("S4", job_id, f"{job.state}, and due at {entry}")
        late = _due_too_late(job_id, job, cell)
        if late:
            yield Violation("S4", job_id, late)


def _nothing_is_immortal(cell: Cell) -> Iterator[Violation]:
    cut_off = {node_id for node_id, node in cell.nodes.items() if node.cut_off}
    looked_after = {f"j:{job_id}" for job_id in cell.jobs} | {f"n:{node_id}" for node_id in cell.nodes}
    looked_after |= {f"l:{lease}" for lease in cell.limbo if lease.split(":")[0] not in cut_off}
    looked_after |= {f"i:{node_id}" for node_id in cell.intents} | {f"d:{node_id}" for node_id in cell.departed}
    looked_after |= {f"w:{job_id}" for job_id in cell.ways} | {f"g:{name}" for name in cell.guests}
    looked_after |= {f"m:{node_id}" for node_id, profile in cell.profiles.items() if profile.marks}
    for member in looked_after - cell.due.keys():
        yield Violation("S16", member, "nobody will ever look at it again")
    for node_id in cell.intents.keys() & cell.nodes.keys():
        yield Violation("S16", node_id, "it is there, and what the operator wanted of it when it was gone is too")
    for member in cell.due.keys() - looked_after:
        kept = (member.startswith("l:") and member[2:] in cell.limbo) or (
            member == "f:" or (member[:2] == "r:" and member[2:] in cell.nodes)
        )
        if not kept:
            yield Violation("S16", member, "it is due, but not there")
    for job_id in cell.tickets.keys() ^ cell.jobs.keys():
        yield Violation("S16", job_id, "it has only one of record and ticket")
    for field in cell.bodies:
        if field.rsplit(":", 1)[0] not in cell.jobs:
            yield Violation("S16", field, "its job is gone")
    for node_id in cell.profiles.keys() ^ cell.nodes.keys():
        yield Violation("S16", node_id, "it has only one of record and profile")


def _due_too_late(job_id: str, job: JobRecord, cell: Cell) -> str:
    """A job under way must be looked at by its ack, run or job deadline, whichever is first; or after a grace."""
    if job.state in ENDS:
        return ""
    bound = job.deadline_at_ms
    if job.state in {"RESERVED", "DISPATCHED"} and job_id in cell.tickets:
        bound = job.reserved_at_ms + cell.tickets[job_id].ack_ms
    elif job.state == "WAITING" and job_id in cell.tickets:
        bound = job.created_at_ms + cell.tickets[job_id].wait_ms
    elif job.state in {"ACCEPTED", "RUNNING"}:
        bound = job.accepted_at_ms + job.run_ms
    node = None if job.cell else cell.nodes.get(job.node)
    grace_until_ms = node.away_until_ms if node and not node.lost_at_ms else 0
    bound = min(job.deadline_at_ms, max(bound, grace_until_ms, cell.counts.get("listening", 0)))
    at_ms = cell.due.get(f"j:{job_id}", 0)
    return f"due at {at_ms}, its time is up at {bound}" if at_ms > max(bound, cell.now_ms) else ""
