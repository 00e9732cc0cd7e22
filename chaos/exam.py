"""After the storm, one fault at a time, under load: each has a bound in which all must be well again (L3 to L6)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from chaos.engines import asleep

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chaos.cast import Member, Stage
    from chaos.look import Look

#: What a busy machine may take longer than a bound of the product.
TOLERANCE_S: Final = 10.0
#: L3, L4, L5.
MOVES_S: Final = 1.0
INHERITS_S: Final = 2.0
SETTLES_S: Final = 30.0
_POLL_S: Final = 0.02
#: Somebody has something in work by then.
_BUSY_S: Final = 10.0


class Exam:
    """Takes the stage through its trials. `took_s` says how long each took at most."""

    def __init__(self, stage: Stage, look: Look) -> None:
        self._stage, self._look = stage, look
        self.took_s: dict[str, float] = {}

    async def within(self, what: str, bound_s: float, is_left: Callable[[], Awaitable[str]]) -> None:
        """Wait until nothing is left of something; what takes longer is a violation."""
        begun = time.monotonic()
        left = await until_nothing(is_left, bound_s + TOLERANCE_S)
        took_s = time.monotonic() - begun
        self.took_s[what] = round(max(took_s, self.took_s.get(what, 0.0)), 2)
        if left:
            self._look.left(what, f"not within {bound_s:g} s and {TOLERANCE_S:g} s more: {left}")

    async def fleet_is_back(self) -> None:
        """L5: all nodes serve. Whom a poisoned job took down when the storm was over already is started again."""

        async def left() -> str:
            for node in self._stage.nodes:
                await node.revive()
            return await self._look.unwell(len(self._stage.nodes))

        await self.within("L5 fleet back", SETTLES_S, left)

    async def take(self) -> None:
        """All of them."""
        for _ in range(self._stage.scale.kills):
            await self._a_node_is_killed()
        await self._an_instance_is_killed()
        await self._an_instance_dozes()
        await self._all_instances_are_restarted()
        for link in list(self._stage.for_nodes.links):
            link.reset()
        await self.fleet_is_back()

    async def _a_node_is_killed(self) -> None:
        """L3: its work is with others soon."""
        found = await self._busy()
        if found is None:
            return
        node, jobs = found
        self._stage.pen.write("exam", node=node.node_id, what_is="a node is killed", jobs=jobs)
        if node.process is not None:
            await node.process.kill()

        async def left() -> str:
            stays = [job for job in jobs if not await self._look.has_moved(job, node.node_id)]
            return f"{stays} are still with {node.node_id}" if stays else ""

        await self.within("L3 work moved", MOVES_S, left)
        await node.revive()
        await self.fleet_is_back()

    async def _busy(self) -> tuple[Member, list[str]] | None:
        """A node that says what it does, and has something to do."""
        until = time.monotonic() + _BUSY_S
        while time.monotonic() < until:
            ledgers = await self._look.nodes()
            for node in self._stage.nodes:
                held = ledgers[node.node_id].leases if node.node_id in ledgers else []
                jobs = [lease.name.split(":")[1] for lease in held if not lease.fenced_at_ms]
                if jobs and node.kind in {"ours", "sdk"}:
                    return node, jobs
            await asyncio.sleep(_POLL_S)
        return None

    async def _an_instance_is_killed(self) -> None:
        """L4: its letters are somebody else's, and it is struck out."""
        instance = self._stage.instances[0]
        self._stage.pen.write("exam", what_is="an instance is killed", instance=instance.name)
        name = instance.instance_id

        async def left() -> str:
            letters = await self._look.letters()
            return f"{name} still has {letters[name]} letters" if name in letters else ""

        async with instance.busy:
            await instance.kill()
            await self.within("L4 mail taken over", self._stage.scale.presence_ttl_ms / 1000 + INHERITS_S, left)
            await instance.start()
        await self.fleet_is_back()

    async def _an_instance_dozes(self) -> None:
        """L6: for less than its presence lasts. No node is fenced for it; one that a poisoned job took down may be."""
        instance = self._stage.instances[-1]
        lives = {node.node_id: node.lives for node in self._stage.nodes}
        before = await self._epochs()
        if instance.process is not None:
            await asleep([instance.process.pid], self._stage.scale.presence_ttl_ms / 2000)
        await self.fleet_is_back()
        alive = {node.node_id for node in self._stage.nodes if node.lives == lives[node.node_id]}
        epochs = {node: epoch for node, epoch in (await self._epochs()).items() if node in alive}
        fenced = sorted(node for node, epoch in epochs.items() if before.get(node, epoch) != epoch)
        if fenced:
            self._look.left("L6 fenced", f"{instance.name} dozed, and {fenced} were given up")

    async def _all_instances_are_restarted(self) -> None:
        """One after the other, by SIGTERM, under load: nobody who speaks notices."""
        self._stage.pen.write("restart_begins")
        for instance in self._stage.instances:
            async with instance.busy:
                await instance.end()
                await instance.start()
            await self.fleet_is_back()
        self._stage.pen.write("restart_ends")

    async def _epochs(self) -> dict[str, str]:
        return {node_id: ledger.record.epoch for node_id, ledger in (await self._look.nodes()).items()}


async def until_nothing(is_left: Callable[[], Awaitable[str]], patience_s: float) -> str:
    """Look until nothing is left; what is, when patience ends."""
    until = time.monotonic() + patience_s
    while True:
        left = await is_left()
        if not left or time.monotonic() > until:
            return left
        await asyncio.sleep(_POLL_S)
