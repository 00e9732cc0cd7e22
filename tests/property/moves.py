"""What can happen in one step of the state machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.node import PARTINGS
from tests.property import draws
from tests.property import messages as say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingua_scheduler.core.node import Parting
    from tests.property.machine import CellMachine
    from tests.property.messages import Message

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True)
class Said:
    """Messages that go out in one tick, folded into as few script calls as the client can make of them."""

    messages: Sequence[Message]

    def play(self, machine: CellMachine) -> None:
        machine.tell(*self.messages)


@dataclass(frozen=True)
class GetsFar:
    """A job comes, and its node says what nodes say, up to a point."""

    dispatch: Message
    steps: int
    pick: int

    def play(self, machine: CellMachine) -> None:
        machine.tell(self.dispatch)
        for flow in ("deliver", "ack", "started")[: self.steps if machine.now.jobs(live=True) else 0]:
            machine.tell(say.Report(flow, say.Aim("live", -1 - self.pick, "right")))


@dataclass(frozen=True)
class AllAccept:
    """Every node acks what it has, in one tick."""

    flow: str

    def play(self, machine: CellMachine) -> None:
        live = range(len(machine.now.jobs(live=True)))
        machine.tell(*(say.Report(self.flow, say.Aim("live", number, "right")) for number in live))


@dataclass(frozen=True)
class Twice:
    """Everything is sent again. Forgetful: somebody gave the engine SCRIPT FLUSH in between."""

    forgetful: bool

    def play(self, machine: CellMachine) -> None:
        machine.flush_first = self.forgetful
        machine.perform(machine.last)


@dataclass(frozen=True)
class Passes:
    """Time passes: so many milliseconds, or to just before, at or after a moment at which something is due."""

    ms: int | None
    moment: int
    offset: int
    #: What the nodes say in a beat before anybody sweeps ("" = nothing), and how far the sweep goes.
    awake: str
    sweep: int

    def play(self, machine: CellMachine) -> None:
        moments = machine.model.moments()
        if self.ms is not None:
            machine.pass_time(machine.model.now + self.ms)
        elif moments:
            machine.pass_time(moments[self.moment % len(moments)] + self.offset)
        if self.awake:
            machine.tell(*(say.honest_beat(node_id, self.awake) for node_id in machine.model.nodes))
        if self.sweep:
            machine.tell(say.Reap(self.sweep))


def _at_work(machine: CellMachine, pick: int) -> str:
    """A node that has accepted something, if there is one."""
    at_work = {job.node for job in machine.now.jobs(live=True) if job.accepted}
    nodes = sorted(at_work or machine.model.nodes)
    return nodes[pick % len(nodes)] if nodes else "n1"


@dataclass(frozen=True)
class Restarts:
    """A node that is at work registers again, whatever it has become."""

    pick: int
    register: say.Register

    def play(self, machine: CellMachine) -> None:
        machine.tell(replace(self.register, node=_at_work(machine, self.pick)))


@dataclass(frozen=True)
class Lost:
    """A node is lost: by its socket, or by its silence while the others beat. Or it comes back just in time."""

    pick: int
    how: Parting
    offset: int
    back: say.Register | None
    limit: int

    def play(self, machine: CellMachine) -> None:
        model, node_id = machine.model, _at_work(machine, self.pick)
        node = model.nodes.get(node_id)
        if node is None:
            return
        machine.tell(say.Disconnect(node_id, "same", self.how))
        machine.pass_time((node.away_until or node.seen_at + model.rules.offline_ms) + self.offset)
        machine.tell(*(say.honest_beat(other, "quiet") for other in model.nodes if other != node_id))
        if self.back:
            machine.tell(replace(self.back, node=node_id))
        machine.tell(say.Reap(self.limit))


@dataclass(frozen=True)
class Both:
    """One thing after the other."""

    first: Move
    second: Move

    def play(self, machine: CellMachine) -> None:
        self.first.play(machine)
        self.second.play(machine)


Move = Both | Said | GetsFar | AllAccept | Twice | Passes | Restarts | Lost


def _said(*some: Callable[[Random], Message], most: int = 1) -> Callable[[Random], Move]:
    """One to `most` messages of these kinds, in one tick."""
    return lambda rng: Said(tuple(rng.choice(some)(rng) for _ in range(rng.randint(1, most))))


def _gets_far(rng: Random) -> Move:
    return GetsFar(draws.some_dispatch(rng), rng.randint(1, 3), rng.randrange(4))


def _fails_at_once(rng: Random) -> Move:
    """A job that may not be tried again reaches its node, and fails there."""
    dispatch = replace(draws.some_dispatch(rng), again=None, limits=Limits(max_retry=0))
    return Both(GetsFar(dispatch, 1, 0), Said((say.Report("fail", say.Aim("live", -1, "right"), (("reason", "no"),)),)))


def _all_accept(rng: Random) -> Move:
    return AllAccept(rng.choice(("ack", "started", "deliver")))


def _twice(rng: Random) -> Move:
    return Twice(forgetful=rng.random() < 0.3)


def _passes(rng: Random, ms: int | None) -> Move:
    moment = rng.choice((0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6, -1))
    awake = rng.choice(("", "quiet", "quiet", "running", "running_jobs"))
    return Passes(ms, moment, rng.choice((-1, 0, 0, 1)), awake, rng.choice((0, 0, 1, 100, 100)))


def _restarts(rng: Random) -> Move:
    return Restarts(rng.randrange(4), draws.some_register(rng))


def _lost_at_work(rng: Random) -> Move:
    return Both(AllAccept("started"), _lost(rng))


def _lost(rng: Random) -> Move:
    back = draws.some_register(rng) if rng.random() < 0.3 else None
    offset = rng.choice((-1, 0, 0, 0, 1))
    return Lost(rng.randrange(4), rng.choice(PARTINGS), offset, back, rng.choice((1, 100, 100)))


#: What happens, and how often compared with the rest.
_KINDS: Final[tuple[tuple[int, Callable[[Random], Move]], ...]] = (
    (8, _said(draws.some_join)),
    (8, _said(draws.some_register)),
    (6, _said(draws.some_beat)),
    (3, _said(draws.some_intent)),
    (3, _said(draws.some_limit)),
    (4, _said(draws.some_fault, most=2)),
    (2, _said(draws.some_leave)),
    (3, _said(draws.some_disconnect)),
    (10, _said(draws.some_dispatch, most=4)),
    (10, _gets_far),
    (3, _fails_at_once),
    (6, _all_accept),
    (16, _said(draws.some_progress)),
    (12, _said(draws.some_report)),
    (5, _said(draws.some_cancel, draws.some_release)),
    (5, _said(draws.some_reap, draws.some_relay, most=3)),
    (10, _said(draws.anything, most=6)),
    (6, _twice),
    (6, lambda rng: _passes(rng, rng.randint(1, 100))),
    (12, lambda rng: _passes(rng, None)),
    (1, lambda rng: _passes(rng, rng.choice((_HOUR_MS, 30 * _HOUR_MS)))),
    (5, _restarts),
    (3, _lost),
    (4, _lost_at_work),
)


def _move(number: int) -> Move:
    """The move of this number. Hypothesis chooses and shrinks the list of moves; inside a move the dice are our own.

    So that things happen as often as `_KINDS` says: of separate rules Hypothesis switches half off in an average run,
    and of what strategies drew it prefers what it drew before. Most outcomes of a whole run were then never seen.
    """
    rng = Random(number)
    (kind,) = rng.choices([kind for _, kind in _KINDS], [weight for weight, _ in _KINDS])
    return kind(rng)


#: Below 2^24 Hypothesis draws numbers evenly.
MOVES: Final = st.integers(0, 2**24 - 1).map(_move)
