"""Who could serve a job, and where a job without a node stands in the queue: seen from the whole cell.

The scripts answer the first question from an index of groups and keep the second up to date as groups come and go. Here
both follow from what the nodes said, so that the auditor can compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.core.needs import PRIVATE, lacks_of
from lingua_scheduler.core.records import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.core.cell import Cell
    from lingua_scheduler.core.records import Profile, Ticket


def serves(cell: Cell, group: int, pair: str) -> bool:
    """Whether the nodes of a group are in the pool of a pair."""
    pairs = cell.groups[group].pairs
    return pair in pairs or pair.partition(":")[0] + ":*" in pairs


def _profile_of(cell: Cell, group: int) -> Profile | None:
    found = (cell.profiles.get(node_id) for node_id, node in cell.nodes.items() if node.group == group)
    return next((profile for profile in found if profile), None)


def fits(cell: Cell, group: int, pair: str, ticket: Ticket, waived: int = 0) -> bool:
    """Whether the nodes of a group serve a pair and have all that a job asks for, `waived` bits apart."""
    profile = _profile_of(cell, group)
    if profile is None:
        return False
    ways = [way for way in (pair, ticket.wish.back) if way]
    lacking = [lacks_of(profile, way.partition(":")[2]) & ticket.needs & ~waived for way in ways]
    has_labels = set(ticket.wish.labels) <= set(profile.labels)
    return has_labels and not any(lacking) and all(serves(cell, group, way) for way in ways)


def is_live(cell: Cell, pair: str) -> bool:
    """Whether any node that is not taken for dead serves a pair."""
    return any(
        node.group and node.standing < Standing.stale and serves(cell, node.group, pair) for node in cell.nodes.values()
    )


def could_go(cell: Cell, node_id: str, job_id: str) -> bool:
    """Whether a node could take a job if it had room. A suspect that had it need not, nor one while the job hopes."""
    node, ticket = cell.nodes[node_id], cell.tickets[job_id]
    group, wish = node.group, ticket.wish
    if not group or node_id in wish.excluded or (wish.strict and node_id != wish.named):
        return False
    job = cell.jobs[job_id]
    had = {past.node for past in job.past.attempts}
    hopes = job.state == "RETRYING" and cell.due.get(f"j:{job_id}", 0) < job.deadline_at_ms
    if node_id in had and not wish.strict and (hopes or node.standing == Standing.suspect):
        return False
    waived = PRIVATE if node_id == wish.named else 0
    if fits(cell, group, ticket.pair, ticket, waived):
        return True
    falls_back = bool(ticket.fallback) and not is_live(cell, ticket.pair)
    return falls_back and fits(cell, group, ticket.fallback, ticket, waived)


def places_of(cell: Cell, job_id: str) -> Iterator[str]:
    """Where a job without a node stands."""
    ticket = cell.tickets[job_id]
    at = f":{cell.jobs[job_id].deadline_at_ms:015}:{job_id}"
    yield f"w{ticket.pair}{at}"
    if ticket.fallback:
        yield f"f{ticket.fallback}:{ticket.pair}{at}"
    if ticket.wish.named:
        yield f"n{ticket.wish.named}{at}"
    if ticket.wish.strict:
        return
    line = "x" if ticket.wish.excluded or cell.jobs[job_id].attempt else "g"
    for group in cell.groups:
        if fits(cell, group, ticket.pair, ticket):
            yield f"{line}{group}{at}"
