"""A process with some of the simulated nodes: `python -m lingua_scheduler.operate.demo.host`.

It says what happens on standard output, an object on a line. On its standard input it is told whom to kill, a name on a
line. It drains its nodes on SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import random
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.operate import leash
from lingua_scheduler.operate.demo.plan import fleet_of
from lingua_scheduler.operate.demo.simulation import Died, translate
from lingua_scheduler.sdk import Node

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.operate.demo.plan import Member
    from lingua_scheduler.sdk import Job

    Translate = Callable[..., Any]
    Tell = Callable[..., None]

#: Nodes join one after the other, as machines come up.
_JOIN_S: Final = 0.06
_DRAIN_S: Final = 5.0
_DEAD_S: Final = (2.0, 4.0)


class Life:
    """One node, from when it joins until it is sent home; in between it may die a few times."""

    def __init__(self, member: Member, url: str, translate: Translate, tell: Tell) -> None:
        self._member = member
        self._url = url
        self._translate = partial(translate, slowness=member.slowness)
        self._tell = tell
        self._rng = random.Random(member.node_id)
        self._over = asyncio.Event()
        self._is_dead = False
        self._busy = 0
        self._node = self._new_node()

    async def live(self, after_s: float) -> None:
        """Serve until `drain`, or until the operator sends it away."""
        await self._pause(after_s)
        while not self._over.is_set():
            joining = asyncio.create_task(self._say_joined())
            try:
                await self._node.run()
            finally:
                joining.cancel()
            if not self._is_dead:
                return
            await self._pause(self._rng.uniform(*_DEAD_S))
            self._is_dead, self._node = False, self._new_node()

    def drain(self) -> None:
        """No new job; those that are here may end."""
        self._over.set()
        self._node.drain()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    async def _say_joined(self) -> None:
        await self._node.joined()
        self._tell(event="joined", node_id=self._member.node_id)

    def _new_node(self) -> Node:
        member = self._member
        node = Node(
            semantic=member.languages,
            asr=member.languages,
            tts=member.languages,
            pairs=[(src, tgt) for src in member.languages for tgt in member.languages if src != tgt],
            max_jobs=member.slots,
            node_id=member.node_id,
            url=self._url,
            load_fn=lambda: self._busy / member.slots,
            drain_s=_DRAIN_S,
        )
        node.job(self._work)
        return node

    async def _work(self, job: Job) -> object:
        self._busy += 1
        try:
            return await self._translate(job)
        except Died:
            self.die()
            return await asyncio.Event().wait()
        finally:
            self._busy -= 1

    def die(self) -> None:
        """Without a word: its socket breaks, and with it whatever it was at."""
        if not (self._is_dead or self._over.is_set()):
            self._is_dead = True
            self._tell(event="died", node_id=self._member.node_id, jobs=self._busy)
            self._node.stop()


def tell(**what: object) -> None:
    """To whoever started us."""
    print(json.dumps(what), flush=True)  # noqa: T201 - that is how it hears of it


async def run(arguments: argparse.Namespace) -> None:
    """All nodes of this process, until SIGTERM."""
    members = fleet_of(arguments.seed, arguments.nodes)[arguments.first :: arguments.step]
    does = partial(translate, seed=arguments.seed, failure_rate=arguments.failure_rate)
    lives = [Life(member, arguments.url, does, tell) for member in members]

    def drain() -> None:
        for life in lives:
            life.drain()

    def kill(node_id: str) -> None:
        for member, life in zip(members, lives, strict=True):
            if member.node_id == node_id:
                life.die()

    loop = asyncio.get_running_loop()
    leash.hold(lambda node_id: loop.call_soon_threadsafe(kill, node_id))
    loop.add_signal_handler(signal.SIGTERM, drain)
    async with asyncio.TaskGroup() as group:
        for number, life in enumerate(lives):
            group.create_task(life.live(number * _JOIN_S))


def main() -> None:
    """What the command line says: the whole fleet, and which part of it lives here."""
    # That attempts fail is what they are meant to do.
    logging.getLogger("lingua.node").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--failure-rate", type=float, required=True)
    parser.add_argument("--nodes", type=int, required=True, help="of the whole fleet")
    parser.add_argument("--first", type=int, required=True, help="the first that lives here")
    parser.add_argument("--step", type=int, required=True, help="from one to the next")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
