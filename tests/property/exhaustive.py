"""Everything that can happen to two nodes and three jobs, in every order, to a depth: breadth first, each state once.

A state is what the engine holds and what the machines are really at. Two states are the same when nothing that can
happen from now on tells them apart: dates, epochs and what only the past explains do not count.
"""

from __future__ import annotations

import functools
import gc
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import hiredis
import msgspec

from lingua_scheduler.core.audit import audit_cell
from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.records import Standing
from lingua_scheduler.store.scripts import script
from tests.property.small_world import MAX_RETRY, RULES, Box, Fleet, Move, lease_of, moves, stands
from tests.property.snapshot import EMPTY, NOW_MS, Bench, Raw, cell_of, moved_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lingua_scheduler.core.cell import Cell
    from lingua_scheduler.store.scripts import Script

FLOWS: Final = (
    "ack",
    "cancel",
    "deliver",
    "undeliver",
    "disconnect",
    "dispatch",
    "done",
    "drain",
    "evict",
    "fail",
    "heartbeat",
    "leave",
    "limit",
    "reap",
    "register",
    "resume",
    "started",
    "stopped",
)


class State(NamedTuple):
    """A place in the search."""

    number: int
    raw: Raw
    cell: Cell
    fleet: Fleet


class Broken(AssertionError):
    """A promise was broken; the message tells how to get there."""


@dataclass(slots=True)
class Tally:
    """How much was looked at."""

    states: int = 0
    transitions: int = 0
    #: New states by depth.
    layers: list[int] = field(default_factory=list)
    #: How often each kind of move was made, and each kind of answer was given.
    kinds: dict[str, int] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which machines, what has happened before, and what can happen."""

    boxes: tuple[Box, ...]
    only: frozenset[str]
    opening: tuple[str, ...] = ()


class Search:
    """One breadth-first search."""

    def __init__(self, path: str, prefix: str, compose: Callable[[str], Script] = script) -> None:
        self._bench = Bench(path, prefix, msgspec.msgpack.encode(RULES))
        self._bench.load(compose(f"flows/{name}") for name in FLOWS)
        self._seen: set[int] = set()
        self._ways: list[tuple[int, str]] = []
        self.tally = Tally()

    def run(self, scope: Scope, depth: int) -> Tally:
        """Search to `depth` moves after the opening; `Broken` tells the shortest way to what must not be."""
        gc.disable()  # the states are many, and none of them is garbage
        try:
            layer = [self._opened(scope)]
            for _ in range(depth):
                layer = self._next_layer(layer, scope.only)
                self.tally.layers.append(len(layer))
        finally:
            gc.enable()
            self._bench.close()
        return self.tally

    def _opened(self, scope: Scope) -> State:
        """Both nodes register, and what the scope begins with happens."""
        fleet = Fleet(tuple(replace(box, up=False, connected=False) for box in scope.boxes))
        state = self._new_state(-1, "nothing", EMPTY, cell_of(EMPTY), fleet)
        for name in (*(f"restart {box.name}" for box in scope.boxes), *scope.opening):
            possible = [*moves(state.cell, state.fleet, frozenset({name.split(" ", 1)[0]}))]
            wanted = [move for move in possible if move.name.startswith(name)]
            assert wanted, f"{name} is impossible; {[move.name for move in possible]} are not"
            state = next(self._made(state, wanted[:1]), state)
        return state

    def _next_layer(self, layer: Sequence[State], only: frozenset[str]) -> list[State]:
        """What can follow. While Python judges the outcome of one state, the engine is at the next."""
        found: list[State] = []
        waiting: list[tuple[State, list[Move], list[bytes], int]] = []
        for state in layer:
            possible = [*moves(state.cell, state.fleet, only)]
            waiting.append(self._sent(state, possible))
            if len(waiting) > 1:
                found += self._judged(*waiting.pop(0))
        for each in waiting:
            found += self._judged(*each)
        return found

    def _made(self, state: State, possible: list[Move]) -> Iterator[State]:
        return self._judged(*self._sent(state, possible))

    def _sent(self, state: State, possible: list[Move]) -> tuple[State, list[Move], list[bytes], int]:
        put, puts = self._bench.put(state.raw)
        calls = [
            self._bench.call(move.flow, move.parts, NOW_MS + move.after_ms) if move.flow else b"" for move in possible
        ]
        self._bench.send(put, calls)
        return state, possible, calls, puts

    def _judged(self, state: State, possible: list[Move], calls: list[bytes], puts: int) -> Iterator[State]:
        outcomes = self._bench.answers(puts, calls)
        for move, (reply, raw) in zip(possible, outcomes, strict=True):
            self.tally.transitions += 1
            kind = move.name.split(" ", 1)[0]
            self.tally.kinds[kind] = self.tally.kinds.get(kind, 0) + 1
            if isinstance(reply, hiredis.ReplyError):
                raise self._broken(state, move, [f"the script failed: {reply}"])
            answer = msgspec.msgpack.decode(reply[0]) if reply else [""]
            tag = f"{move.flow} {answer[0]}"
            self.tally.answers[tag] = self.tally.answers.get(tag, 0) + 1
            moved = moved_back(raw, move.after_ms) if move.after_ms else raw
            cell, violations = _audited(moved)
            fleet = _aftermath(move, answer, cell)
            if wrong := [*violations, *_wrong(state, move, answer, cell, fleet)]:
                raise self._broken(state, move, wrong)
            key = hash(_essence(cell, fleet))
            if key not in self._seen:
                self._seen.add(key)
                yield self._new_state(state.number, move.name, moved, cell, fleet)

    def _new_state(self, before: int, name: str, raw: Raw, cell: Cell, fleet: Fleet) -> State:
        self._ways.append((before, name))
        self.tally.states += 1
        return State(len(self._ways) - 1, raw, cell, fleet)

    def _broken(self, state: State, move: Move, wrong: list[str]) -> Broken:
        way = [move.name]
        number = state.number
        while number > 0:
            number, name = self._ways[number]
            way.append(name)
        steps = "\n".join(f"  {step}" for step in reversed(way))
        return Broken(f"after {len(way)} moves:\n{steps}\n" + "\n".join(wrong))


@functools.lru_cache(maxsize=1 << 14)
def _audited(raw: Raw) -> tuple[Cell, list[str]]:
    """Many ways lead to the same content: it is judged once."""
    cell = cell_of(raw)
    return cell, [str(violation) for violation in audit_cell(cell, 0)]


def _aftermath(move: Move, answer: list[Any], cell: Cell) -> Fleet:
    """The world after the move, when the nodes have heard what they were told."""
    fleet = move.fleet
    registered = move.name.split(" ")[1] if answer[0] == "REGISTERED" else ""
    if registered:
        fleet = fleet.with_box(replace(fleet.box(registered), epoch=answer[2]))
    for event, _ in cell.outbox:
        if event.kind == "forgiven" and fleet.box(event.node).legacy:
            fleet = fleet.with_box(replace(fleet.box(event.node), forgiven=True))
    for box in fleet.boxes:
        bound = _bound(box, cell, registered)
        if bound != box.bound:
            fleet = fleet.with_box(replace(box, bound=bound))
    leases = frozenset(cell.leases)
    return fleet if fleet.written <= leases else replace(fleet, written=fleet.written & leases)


def _bound(box: Box, cell: Cell, registered: str) -> int:
    """How many slots of a node may be taken from now on."""
    if box.name not in cell.nodes:
        return 0
    node = cell.nodes[box.name]
    # A node that registers may bring work along that nobody knew of.
    old = node.used if box.name == registered else box.bound
    return max(node.max, min(old, node.used))


def _wrong(before: State, move: Move, answer: list[Any], cell: Cell, fleet: Fleet) -> Iterator[str]:
    """Every promise that this move broke."""
    yield from _work_is_bounded(before, cell, fleet)
    yield from _jobs_end_once(before, cell)
    for node_id, node in cell.nodes.items():
        if node.standing != stands(node) and cell.due[f"n:{node_id}"] > NOW_MS:
            yield f"S19 {node_id} stands as {Standing(node.standing).name}, it is {stands(node).name}"
    if move.flow == "dispatch":
        yield from _refusals_are_true(before, move, answer, cell)


def _work_is_bounded(before: State, cell: Cell, fleet: Fleet) -> Iterator[str]:
    """S1 from the node's own side, and no work that its ledger does not know."""
    leases = set(cell.leases)
    for box in fleet.boxes:
        node = cell.nodes.get(box.name)
        if node and node.used > box.bound:
            yield f"S1 {node.used} slots of {box.name} are taken, {box.bound} may be"
        grown = len(box.work) > len(before.fleet.box(box.name).work)
        if grown and len(box.work) > box.bound and not box.forgiven:
            yield f"S1 {box.name} is at {sorted(box.work)}, {box.bound} slots may be taken"
        if node and box.epoch == node.epoch and not box.forgiven:
            known = [attempt for attempt in box.work if lease_of(box.name, attempt) in leases]
            # A node from the field only says how many: a slot is held for it, perhaps in the name of another.
            if (len(box.work) > node.used) if box.legacy else (len(box.work) > len(known)):
                yield f"S1 {box.name} is at {sorted(box.work)}, the ledger has only {sorted(leases)}"


def _jobs_end_once(before: State, cell: Cell) -> Iterator[str]:
    """S5, S8, S9."""
    said = sorted(event.job for event, _ in cell.outbox if event.kind == "ended")
    ended = []
    for job_id, job in cell.jobs.items():
        old = before.cell.jobs.get(job_id)
        if old and old.state in ENDS and (job.state, job.attempt) != (old.state, old.attempt):
            yield f"S5 {job_id} was {old.state}, and is {job.state}"
        if job.state in ENDS and (not old or old.state not in ENDS):
            ended.append(job_id)
        live = [lease for lease in cell.leases if lease.split(":")[1] == job_id and lease not in cell.limbo]
        if len(live) > 1:
            yield f"S8 {job_id} has {live}"
        if job.past.tries > MAX_RETRY + 1:
            yield f"S9 {job_id} had {job.past.tries} tries"
    if said != sorted(ended):
        yield f"S5 {ended} ended, the outbox says {said}"


def _refusals_are_true(before: State, move: Move, answer: list[Any], cell: Cell) -> Iterator[str]:
    """S19, and no job where it must not be."""
    free = [node_id for node_id, node in cell.nodes.items() if stands(node) <= Standing.suspect]
    if answer[0] == "ALL_CANDIDATES_FULL_OR_FAILED" and free:
        yield f"S19 {move.job} was refused, and {free} have room"
    if answer[0] == "NO_CAPABLE_NODE" and cell.nodes:
        yield f"S19 {move.job} was refused, and {list(cell.nodes)} can do it"
    if answer[0] == "PLACED" and not move.after_ms:
        chosen = before.cell.nodes[answer[2]]
        if stands(chosen) > Standing.suspect:
            yield f"S1 {move.job} is on {answer[2]}, which was {stands(chosen).name}"


def _essence(cell: Cell, fleet: Fleet) -> tuple[Any, ...]:
    """All that the future depends on."""
    nodes = tuple(
        (
            name,
            node.used,
            node.max,
            node.limit,
            node.standing,
            node.reported,
            node.intent,
            node.cut_off,
            node.ceiling,
            node.lost_at_ms > 0,
            node.away_until_ms > 0,
            node.unheard,
            max(0, node.away_until_ms - NOW_MS),
            max(0, node.rest_until_ms - NOW_MS),
            NOW_MS - node.seen_at_ms,
            node.recent,
            max(0, node.probe_at_ms - NOW_MS),
            node.flaps if NOW_MS - node.flapped_at_ms < RULES.flap_window_ms else 0,
            min(NOW_MS - node.flapped_at_ms, RULES.flap_window_ms),
            cell.due.get(f"n:{name}", 0) - NOW_MS,
        )
        for name, node in sorted(cell.nodes.items())
    )
    jobs = tuple(
        (job_id, job.state)
        if job.state in ENDS
        else (
            job_id,
            job.state,
            job.attempt,
            job.node,
            job.node in cell.nodes and job.epoch == cell.nodes[job.node].epoch,
            job.deadline_at_ms - NOW_MS,
            cell.due[f"j:{job_id}"] - NOW_MS,
            job.past.tries,
            job.past.undelivered,
            job.past.overloaded,
            job.past.lost,
            frozenset(attempt.node for attempt in job.past.attempts),
        )
        for job_id, job in sorted(cell.jobs.items())
    )
    leases = tuple(
        (
            lease,
            lease in fleet.written,
            min(NOW_MS - cell.limbo[lease], RULES.confirm_after_ms) if lease in cell.limbo else -1,
            cell.due.get(f"l:{lease}", 0) - NOW_MS,
        )
        for lease in sorted(cell.leases)
    )
    boxes = tuple(
        (
            box.max,
            box.up,
            box.connected,
            box.name in cell.nodes and box.epoch == cell.nodes[box.name].epoch,
            box.work,
            box.bound,
            box.forgiven,
        )
        for box in fleet.boxes
    )
    mail = fleet.mail and (fleet.mail[0], fleet.mail[1], fleet.mail[2] in {"", fleet.box(fleet.mail[0]).epoch})
    return (
        nodes,
        jobs,
        leases,
        boxes,
        mail,
        tuple(sorted((name, kept.intent, kept.limit) for name, kept in cell.intents.items())),
    )
