"""One run: everybody comes, the nemesis does its worst, everybody goes, and the checker speaks."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from chaos.callers import Callers
from chaos.cast import Stage
from chaos.checker import Expect, Violation, check
from chaos.engines import open_engine
from chaos.exam import SETTLES_S, TOLERANCE_S, Exam, until_nothing
from chaos.history import Event, Pen, read_history
from chaos.leave import MARK, end_all
from chaos.look import forget_all, looking
from chaos.nemesis import Nemesis
from chaos.network import Network
from chaos.plan import plan_of
from chaos.processes import start_leaver

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.look import Look
    from chaos.plan import EngineKind
    from chaos.scale import Scale

Mode = Literal["safety", "liveness"]

_SWEEP_MS: Final = 200
_PRIMARIES_S: Final = 0.25


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    events: list[Event]
    violations: list[Violation]
    #: What contradicts something that was confirmed before a fail-over.
    forgotten: list[Violation]
    faults: dict[str, int]
    looks: int
    took_s: float
    #: After the faults stopped: how long what took.
    calm_s: dict[str, float] = field(default_factory=dict)


class Run:
    """`await Run(…).play()`. Whatever happens, no process of it is left."""

    def __init__(
        self,
        *,
        seed: int,
        engine: EngineKind,
        scale: Scale,
        lasts_s: float,
        mode: Mode,
        say: Callable[[str], None] = lambda _text: None,
        keep: Path | None = None,
        exam: bool = True,
    ) -> None:
        """`keep`: a folder for the history and the logs, which stays; otherwise they go with the run.

        `exam`: after the storm, one fault at a time, each with its bound.
        """
        self._seed, self._engine, self._scale, self._lasts_s, self._mode = seed, engine, scale, lasts_s, mode
        self._say, self._keep, self._has_exam = say, keep, exam
        self._calm_s: dict[str, float] = {}

    async def play(self) -> Outcome:
        """From the first process to the last word of the checker."""
        token, begun = secrets.token_hex(8), time.monotonic()
        folder = self._keep or Path(tempfile.mkdtemp(prefix="lingua-chaos-"))
        (folder / "history").mkdir(parents=True, exist_ok=True)
        before = os.environ.get(MARK)
        leaver = await start_leaver(token, None if self._keep else folder)
        os.environ[MARK] = token
        try:
            outcome = await self._play(folder)
        finally:
            if before is None:
                del os.environ[MARK]
            else:
                os.environ[MARK] = before
            await asyncio.shield(asyncio.to_thread(end_all, token, (os.getpid(),)))
            if leaver.stdin is not None:
                leaver.stdin.close()
            await asyncio.shield(leaver.wait())
        outcome.took_s = time.monotonic() - begun
        return outcome

    async def _play(self, folder: Path) -> Outcome:
        pen = Pen(folder / "history", "director")
        async with AsyncExitStack() as stack:
            stack.callback(pen.close)
            engine = await stack.enter_async_context(open_engine(self._engine, folder, self._scale.instances))
            stage = Stage(self._seed, self._scale, folder, pen, engine)
            stage.for_nodes = await stack.enter_async_context(Network(f"{self._seed}/nodes"))
            stage.for_callers = await stack.enter_async_context(Network(f"{self._seed}/callers"))
            look = await stack.enter_async_context(looking(engine.url, self._scale, pen))
            follow_s = 2 * self._scale.timeout_ms / 1000
            callers = Callers(pen, stage.for_callers.http, f"{self._seed}/callers", self._scale.asks_every_s, follow_s)
            stack.push_async_callback(callers.close)
            nemesis = Nemesis(stage, callers)
            stack.push_async_callback(nemesis.stop)
            await self._begin(stage, look)
            callers.start(self._scale.callers)
            looking_on = asyncio.create_task(look.keep_looking())
            stack.callback(looking_on.cancel)
            stack.callback(asyncio.create_task(_watch_primaries(stage)).cancel)
            plan = plan_of(self._seed, self._engine, self._scale, self._lasts_s)
            self._say(f"everybody is here; {len(plan)} faults in {self._lasts_s:g} s")
            begun = time.monotonic()
            await nemesis.run(plan)
            await asyncio.sleep(max(0.0, begun + self._lasts_s - time.monotonic()))
            if self._mode == "liveness":
                await self._calm_down(stage, nemesis, callers, look)
                looking_on.cancel()
                await self._leave(stage, look)
            else:
                await self._stop_short(stage, nemesis, callers, look)
        if nemesis.failures:
            raise ExceptionGroup("the nemesis could not do its work", nemesis.failures)
        expect = Expect(is_over=self._mode == "liveness", may_forget=self._engine != "embedded")
        events = read_history(folder / "history")
        violations, forgotten = check(events, expect)
        return Outcome(events, violations, forgotten, nemesis.done, look.looks, 0.0, self._calm_s)

    async def _begin(self, stage: Stage, look: Look) -> None:
        """Instances, nodes, sessions, in this order; nothing goes wrong before they are there."""
        await asyncio.gather(*(instance.start() for instance in stage.instances))
        for node in stage.nodes:
            await node.start()
        await stage.start_crowds()
        left = await until_nothing(lambda: look.unwell(len(stage.nodes)), SETTLES_S + TOLERANCE_S)
        if left:
            raise RuntimeError(f"the fleet did not come together: {left}")

    async def _calm_down(self, stage: Stage, nemesis: Nemesis, callers: Callers, look: Look) -> None:
        """The faults stop. From here on time counts."""
        self._say("no more faults: everything is mended, and must come to its end")
        await nemesis.heal()
        stage.pen.write("calm")
        scale, exam = self._scale, Exam(stage, look)
        self._calm_s = exam.took_s
        await exam.fleet_is_back()
        if self._has_exam:
            self._say("one fault at a time, each with its bound")
            await exam.take()
        stage.pen.write("nothing_more")
        stage.hush_crowds()
        callers.hush()
        end_s = (scale.timeout_ms + _SWEEP_MS) / 1000
        await exam.within("L2 all answered", end_s, lambda: _still_talking(stage, callers))
        bound_s = (scale.limbo_ms + _SWEEP_MS) / 1000
        await exam.within("S4 nothing under way", bound_s, look.unfinished)
        await look.audit_whole(int(1000 * TOLERANCE_S))
        await look.write_jobs()

    async def _leave(self, stage: Stage, look: Look) -> None:
        """Everybody goes as he should, and nothing is left behind."""
        await asyncio.gather(*(node.end() for node in stage.nodes))
        for instance in stage.instances:
            await instance.end()
        await look.strike_all()
        for key in await look.immortal():
            look.left("S16 immortal", f"{key} has no end, and nobody who would remove it")
        await forget_all(stage.engine.url, self._scale, look)

    async def _stop_short(self, stage: Stage, nemesis: Nemesis, callers: Callers, look: Look) -> None:
        """Safety only: everything is stopped where it stands, and the engine is looked at."""
        await nemesis.stop()
        await callers.close()
        for process in (*stage.crowds, *(node.process for node in stage.nodes)):
            if process is not None:
                await process.kill()
        for instance in stage.instances:
            await instance.kill()
        await stage.engine.well()
        await look.write_jobs()


async def _watch_primaries(stage: Stage) -> None:
    """Write down when others answer for the data."""
    known = await stage.engine.primaries()
    while True:
        await asyncio.sleep(_PRIMARIES_S)
        now = await stage.engine.primaries()
        if now != known:
            stage.pen.write("failed_over", primaries=now)
            known = now


async def _still_talking(stage: Stage, callers: Callers) -> str:
    """Who waits for an answer."""
    up = [crowd.pid for crowd in stage.crowds if crowd.is_up]
    for crowd in stage.crowds:
        if crowd.pid not in up and await crowd.wait():
            raise RuntimeError(f"a crowd broke down, see {stage.folder / 'crowds.log'}")
    waiting = len(up) + callers.waiting
    return f"{len(up)} crowds and {callers.waiting} callers wait for answers" if waiting else ""
