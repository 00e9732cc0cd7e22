"""The state machine: every flow, in any order, at any time, against a real engine and the model at once."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from lingua_scheduler.core.audit import audit_cell
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.heartbeat import Beaten
from lingua_scheduler.flows.register import Registered
from lingua_scheduler.flows.relay import Taken
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import CELL_KEY_NAMES, cell_key
from lingua_scheduler.store.scripts import ORDER
from tests.property import draws
from tests.property import messages as say
from tests.property.differences import differences
from tests.property.model import Model
from tests.property.moves import MOVES, AllAccept, Lost
from tests.property.outcomes import FACES, FLOWS
from tests.property.steps import check_step
from tests.support.world import CELL, EPOCH_MS, World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.core.cell import Cell
    from tests.property.messages import Message, Op
    from tests.property.moves import Move
    from tests.property.outcomes import Outcomes


class Arena(World):
    """A world whose cell is emptied after every example; the connection stays."""

    async def open(self, url: str, rules: Rules = Rules(), *, max_batch: int = 64) -> None:  # noqa: B008 - frozen
        """With more patience than the product has: a slow machine is not what is tested here."""
        self.rules = rules
        packed = msgspec.msgpack.encode(rules)
        prefix = f"test:{secrets.token_hex(6)}"
        self.engine = await Engine.connect(
            url, prefix, packed, lambda: self.now_ms, max_batch=max_batch, timeout_ms=60_000, patience_ms=60_000
        )

    async def clear(self) -> None:
        engine = self.engine
        await engine.command("UNLINK", *(cell_key(engine.prefix, CELL, name) for name in CELL_KEY_NAMES))

    async def load(self) -> None:
        """Load every script: while some are missing, calls of one tick may overtake each other (see `Engine`)."""
        sources = [face.script.source for face in FACES.values()]
        await asyncio.gather(*(self.engine.command("SCRIPT", "LOAD", source) for source in sources))

    async def warm_up(self) -> None:
        """Call every flow once (a registration begins every example anyway), so that the client knows every script."""
        about = say.Aim("ghost", 0, "")
        extra = {"fail": (("reason", ""),)}
        calls: list[Message] = [
            say.Report(flow, about, extra.get(flow, ()))
            for flow in ("deliver", "undeliver", "ack", "started", "stopped", "done", "fail")
        ]
        calls += [say.Intend(flow, "n1") for flow in ("drain", "resume", "evict", "leave", "heartbeat")]
        calls += [say.Fault("n1", "", "asr"), say.Limit("n1", 1)]
        calls += [say.OfJob("cancel", 0, ""), say.OfJob("release", 0, ""), say.Disconnect("n1", "s1", "closed")]
        calls += [say.Reap(1), say.Relay(1, "none"), say.Dispatch(None, 0, Limits(), 0, "")]
        situation = say.Situation(Model(CELL, self.rules, EPOCH_MS))
        for op in (call.op(situation) for call in calls):
            await FLOWS[op.flow](self.engine, **op.named)
        await self.clear()


class CellMachine(RuleBasedStateMachine):
    """After every step: each answer and each key as the model says, and no invariant broken."""

    def __init__(self, runner: asyncio.Runner, world: Arena, outcomes: Outcomes) -> None:
        super().__init__()
        self.loop = runner.get_loop()
        self.outcomes = outcomes
        self.world = world
        world.now_ms = EPOCH_MS
        self.model = Model(CELL, world.rules, EPOCH_MS)
        self.now = say.Situation(self.model)
        self.last: list[Op] = []
        self.broken = False
        self.flush_first = False
        self.cell = self.run(self.world.cell())

    def run(self, what: Any) -> Any:
        return self.loop.run_until_complete(what)

    # One step.

    def tell(self, *messages: Message) -> None:
        """Send messages in one tick."""
        self.perform([message.op(self.now) for message in messages])

    def perform(self, ops: Sequence[Op]) -> None:
        if not ops:
            return
        for op in ops:
            note(f"    {self.model.now - EPOCH_MS:>9} ms  {op}")
        self.broken = True
        answers, after = self.run(self._send(ops))
        behind = self.model.behind
        expected = self._expect(ops)
        self.outcomes.seen["dispatch", "OVERDUE"] += self.model.behind - behind
        for op, answer, wanted in zip(ops, answers, expected, strict=True):
            assert _agree(answer, wanted), f"{op}\n  answered {answer!r}\n  expected {wanted!r}"
            self.outcomes.answered(op.flow, answer)
            if isinstance(answer, Taken):
                taken = dict.fromkeys((*self.now.taken, *answer.events))
                self.now.taken = tuple(event for event in taken if event in self.model.outbox)
        self._check(ops, answers, after)
        self.last = list(ops)
        self.broken = False

    async def _send(self, ops: Sequence[Op]) -> tuple[list[Any], Cell]:
        """The answers, and the cell after them."""
        engine = self.world.engine
        flushed = engine.command("SCRIPT", "FLUSH") if self.flush_first else None
        calls = [asyncio.ensure_future(FLOWS[op.flow](engine, **op.named)) for op in ops]
        sent_again = flushed is not None or (self.model.overdue() and any(op.flow == "dispatch" for op in ops))
        if not sent_again:
            # The next tick is behind all of them, and saves a round trip.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            cell = await self.world.cell()
            return await asyncio.gather(*calls), cell
        answers = await asyncio.gather(*calls)
        if flushed is not None:
            await flushed
            await self.world.load()
            self.flush_first = False
        return answers, await self.world.cell()

    def _expect(self, ops: Sequence[Op]) -> list[Any]:
        flows = list(dict.fromkeys(op.flow for op in ops))
        flows.sort(key=lambda flow: ORDER.index(flow) if flow in ORDER else -1)
        expected: dict[int, Any] = {}
        for flow in flows:
            self.model.is_deaf = None
            for number, op in enumerate(ops):
                if op.flow == flow:
                    expected[number] = getattr(self.model, flow)(**op.named)
                    self.model.serve()
        return [expected[number] for number in range(len(ops))]

    def _check(self, ops: Sequence[Op], answers: Sequence[Any], after: Cell) -> None:
        assert after.room.keys() <= after.groups.keys(), f"room is kept for {after.room.keys() - after.groups.keys()}"
        bare = msgspec.structs.replace(after, room={group: number for group, number in after.room.items() if number})
        wrong = differences(bare, self.model.expected())
        assert not wrong, "\n".join(wrong)
        violations = list(audit_cell(after, overdue_ms=10**15))
        assert not violations, "\n".join(map(str, violations))
        check_step(self.cell, after, ops, answers, self.model)
        self.outcomes.changed(self.cell, after)
        self.cell = after

    # What may happen.

    @initialize(number=st.integers(1, 4), seed=st.integers(0, 999))
    def some_nodes_join(self, number: int, seed: int) -> None:
        rng = Random(seed)
        self.tell(*(draws.some_join(rng) for _ in range(number)))

    @rule(move=MOVES)
    def step(self, move: Move) -> None:
        move.play(self)

    def pass_time(self, to: int) -> None:
        note(f"    {to - EPOCH_MS:>9} ms  …")
        self.model.now = self.world.now_ms = max(to, self.model.now)

    # The end: nothing but the counts may outlive what it was about.

    def teardown(self) -> None:
        try:
            if not self.broken:
                self._come_to_rest()
        finally:
            self.run(self.world.clear())

    def _come_to_rest(self) -> None:
        """S16: whether everybody says goodbye or time alone ends it all."""
        if self.now.serial % 2:
            self.tell(*(say.OfJob("cancel", number, "any") for number in range(len(self.model.jobs))))
            self.tell(*(say.Leave(node_id, "") for node_id in self.model.nodes))
        for _ in range(20):
            if self.model.due():
                self.pass_time(max(self.model.moments(), default=self.model.now))
                self.tell(say.Reap(10_000))
        assert not self.model.due(), self.model.due()
        self.pass_time(self.model.now + self.model.rules.relay_lease_ms)
        self.tell(say.Relay(10_000, "none"))
        self.tell(say.Relay(0, "all"))
        kept = {name: number for name, number in self.cell.counts.items() if number}
        assert self.run(self.world.keys()) == bool(kept), "only the counts may outlive it"


def _agree(answer: Any, wanted: Any) -> bool:
    """Whether an answer is the expected one, prose apart; what is missing for a pair is more than prose."""
    if isinstance(answer, Refusal) and isinstance(wanted, Refusal):
        same = (answer.code, answer.breakdown) == (wanted.code, wanted.breakdown)
        return same and wanted.detail in {"", answer.detail}
    if isinstance(answer, Registered):
        assert bool(answer.pairs) or answer.warnings, "a node without a pool is told what is missing"
        answer = msgspec.structs.replace(answer, warnings=[])
    if isinstance(answer, Beaten):
        answer = msgspec.structs.replace(answer, warnings=[])
    return bool(answer == wanted)


class CrowdMachine(CellMachine):
    """More jobs on more slots than one look of the sweep, or one dispatch, may settle."""

    @initialize(jobs=st.integers(100, 150), seed=st.integers(0, 999))
    def a_crowd_comes(self, jobs: int, seed: int) -> None:
        rng = Random(seed)
        for node_id, slots in (("n1", 160), ("n10", 40)):
            self.tell(replace(draws.some_join(rng), node=node_id, said=0, max=slots, connection="s1"))
        some = [draws.some_dispatch(rng) for _ in range(jobs)]
        self.tell(*(replace(dispatch, again=None, languages=0, limits=Limits()) for dispatch in some))

    @rule(seed=st.integers(0, 999), ms=st.sampled_from((5_000, 45_000, 60_000, 3_600_000)))
    def much_is_overdue(self, seed: int, ms: int) -> None:
        self.pass_time(self.model.now + ms)
        self.tell(draws.some_dispatch(Random(seed)))

    @rule(limit=st.sampled_from((1, 70, 200)))
    def the_great_node_is_lost(self, limit: int) -> None:
        AllAccept("ack").play(self)
        Lost(pick=0, how="closed", offset=0, back=None, limit=limit).play(self)
