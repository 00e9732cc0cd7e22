"""What must hold from one instant to the next, and so cannot be seen in either of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.job_state import ENDS, LIVE_STATES, WAITING_STATES
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.core.cell import Cell
    from lingua_scheduler.core.records import JobRecord
    from tests.property.messages import Op
    from tests.property.model import Model

#: A refused word of a node is still a sign of life, and may show that it is done with an attempt: then a slot is free,
#: and those who wait take it.
_HEARD: Final = {"ack", "started", "stopped", "done", "fail", "heartbeat"}
#: A dispatch settles what is overdue before it refuses.
_SETTLING: Final = {"dispatch"}


def check_step(before: Cell, after: Cell, ops: Sequence[Op], answers: Sequence[Any], model: Model) -> None:
    """The invariants of one step; each message names the invariant it is about."""
    _ends_absorb(before, after)
    _attempts_only_grow(before, after, model)
    _nothing_grows_above_max(before, after, ops)
    _each_end_is_announced_once(before, after)
    _refusals_change_nothing(before, after, ops, answers)
    if any(op.flow == "dispatch" for op in ops):
        _the_index_is_true(model)
        _refusals_are_true(ops, answers, model)


def _lives(before: Cell, after: Cell) -> list[tuple[str, JobRecord, JobRecord]]:
    """Jobs that were there and still are; one that was forgotten and created again is another."""
    found = [(job_id, before.jobs[job_id], job) for job_id, job in after.jobs.items() if job_id in before.jobs]
    return [(job_id, old, job) for job_id, old, job in found if old.created_at_ms == job.created_at_ms]


def _ends_absorb(before: Cell, after: Cell) -> None:
    for job_id, old, job in _lives(before, after):
        if old.state in ENDS:
            kept = msgspec.structs.replace(
                old, past=msgspec.structs.replace(old.past, released_at_ms=job.past.released_at_ms)
            )
            assert job == kept, f"S5: {job_id} had ended, and changed: {old} → {job}"


def _attempts_only_grow(before: Cell, after: Cell, model: Model) -> None:
    for job_id, old, job in _lives(before, after):
        assert job.attempt >= old.attempt, f"S8: {job_id} went back from attempt {old.attempt} to {job.attempt}"
        if job.attempt > old.attempt:
            assert old.state not in ENDS, f"S5: {job_id} has a new attempt after its end"
            closed = {past.attempt for past in job.past.attempts}
            assert old.attempt in {0, *closed}, (
                f"S8: {job_id} has attempt {job.attempt} while {old.attempt} is not over"
            )
    for job_id, job in after.jobs.items():
        numbers = [past.attempt for past in job.past.attempts]
        assert numbers == sorted(set(numbers)), f"S8: {job_id} had attempts {numbers}"
        if job.state in LIVE_STATES:
            assert all(number < job.attempt for number in numbers), f"S8: {job_id} is {job.state} after {numbers}"
        assert job.past.tries <= 1 + after.tickets[job_id].max_retry, f"S9: {job_id} was tried {job.past.tries} times"
        assert job.past.lost <= model.rules.max_lost, f"S9: {job_id} took {job.past.lost} nodes down"


def _nothing_grows_above_max(before: Cell, after: Cell, ops: Sequence[Op]) -> None:
    claimed = {op.named["node_id"] for op in ops if op.named.get("running")}
    # What it was given before it lowered its slots in the same tick was given rightly.
    spoke = {op.named["node_id"] for op in ops if op.flow in {"register", "heartbeat", "limit"}}
    slots = {
        n: max(node.max, before.nodes[n].max if n in before.nodes and n in spoke else 0)
        for n, node in after.nodes.items()
    }
    for node_id, node in after.nodes.items():
        held = before.nodes[node_id].used if node_id in before.nodes else 0
        if node.used > max(slots[node_id], held):
            assert node_id in claimed, f"S1: {node_id} holds {node.used}, held {held}, may hold {node.max}"
    # Nobody gives a node more than it has slots for; what it claims in the same tick comes on top.
    old = set(before.leases)
    given = Counter(lease.split(":")[0] for lease in after.leases if lease not in old and lease not in after.limbo)
    for node_id, number in given.items():
        node = after.nodes[node_id]
        fits = node.used <= slots[node_id] or node_id in claimed
        assert fits, f"S1: {node_id} got {number} more and holds {node.used} of {node.max}"


def _each_end_is_announced_once(before: Cell, after: Cell) -> None:
    old = {event for event, _ in before.outbox}
    ended = Counter(event.job for event, _ in after.outbox if event.kind == "ended" and event not in old)
    for job_id, job in after.jobs.items():
        earlier = before.jobs.get(job_id)
        if earlier is not None and earlier.created_at_ms != job.created_at_ms:
            earlier = None
        news = int(job.state in ENDS and (earlier is None or earlier.state not in ENDS))
        assert ended[job_id] == news, f"S5: the end of {job_id} was announced {ended[job_id]} times, not {news}"


def _refusals_change_nothing(before: Cell, after: Cell, ops: Sequence[Op], answers: Sequence[Any]) -> None:
    refused = [op.flow for op, answer in zip(ops, answers, strict=True) if isinstance(answer, Refusal)]
    if len(refused) < len(ops) or not _SETTLING.isdisjoint(refused):
        return
    same = msgspec.structs.replace(after, now_ms=before.now_ms)
    if not _HEARD.isdisjoint(refused):
        for name in ("tickets", "bodies", "groups", "pairs"):
            assert getattr(same, name) == getattr(before, name), f"S7: a refused {refused} changed {name}"
        counted = {name: same.counts.get(name, 0) - number for name, number in before.counts.items()}
        assert {name for name, more in counted.items() if more} <= {"attempt.again", "accepted"}, (
            f"S7: {refused} counted"
        )
        for job_id, old, job in _lives(before, after):
            served = old.state in WAITING_STATES and job.state == "RESERVED"
            assert served or job == old, f"S7: a refused {refused} changed {job_id}: {old} → {job}"
    else:
        assert same == before, f"S7: a refused {refused} changed something"


def _the_index_is_true(model: Model) -> None:
    """A dispatch has just settled what was overdue: nobody's standing may be yesterday's."""
    for node_id in model.nodes:
        kept, true = model.standing(node_id), model.standing(node_id, model.now)
        assert kept == true, f"S19: {node_id} is kept as {kept.name} and is {true.name}"


def _refusals_are_true(ops: Sequence[Op], answers: Sequence[Any], model: Model) -> None:
    """Nobody who could take the job was passed over. (A dispatch is the last of its tick and only takes slots.)"""
    for op, answer in zip(ops, answers, strict=True):
        if op.flow != "dispatch" or not isinstance(answer, Refusal):
            continue
        pair, wanted = Pair.of(op.named["src_lang"], op.named["tgt_lang"]), op.named.get("wanted", Wanted())
        fallback = None if wanted.two_way else pair.fallback()
        named = wanted.preferred_node_id
        allowed = {named} if wanted.strict else model.nodes.keys() - set(wanted.exclude_node_ids)
        if answer.code == "PREFERRED_NODE_NOT_CAPABLE":
            continue

        def suited(pair: Pair | None, wanted: Wanted = wanted, named: str = named, model: Model = model) -> set[str]:
            return {
                node_id
                for node_id, node in model.nodes.items()
                if pair and node.suits(str(pair), wanted, named=node_id == named)
            }

        serving, spare = suited(pair), suited(fallback)
        if answer.code == "NO_CAPABLE_NODE":
            assert not serving | spare, f"S19: {serving | spare} serve {pair}"
        free = {n for n in serving & allowed if model.standing(n, model.now) <= Standing.suspect}
        assert not free, f"S19: {free} could have taken {op}"
        if not model.is_live(str(pair)):
            free = {n for n in spare & allowed if model.standing(n, model.now) <= Standing.suspect}
            assert not free, f"S19: {free} could have taken {op}, for want of others"
