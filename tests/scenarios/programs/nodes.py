"""Nodes that hold what they are told to run, and write down what they hold: a history that no kill takes back.

Each line of HISTORY is `+ NODE JOB ATTEMPT`, written when the node begins with it, or `- …`, when it no longer works
on it. Over SOCKET come lines `run NODE JOB ATTEMPT` and `stop NODE JOB ATTEMPT`, from as many schedulers as there are;
to the one that said `run` go `have`, `started`, and `done`, `failed` or `stopped`, to the one that said `stop` goes
`stopped`. What is said to a scheduler that was killed is lost. Some attempts fail, some hang until they are stopped.

usage: python -m tests.scenarios.programs.nodes URL PREFIX SOCKET HISTORY SEED
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from dataclasses import dataclass, field

import msgspec

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.register import register
from lingua_scheduler.store.engine import Engine
from tests.scenarios.programs.dispatcher import CELL, RULES

NODES, SLOTS = 6, 3
BEAT_S = 0.05
FAILS, HANGS = 0.03, 0.01
#: Long enough that the storm is of work in hand when a scheduler dies, and that the cell, which the test reads whole
#: again and again, stays at a few thousand jobs however fast the machine is.
WORK_S = 0.15


@dataclass(slots=True)
class Node:
    """One node: what it holds, and what it must never begin again."""

    name: str
    history: int
    random: random.Random
    held: dict[tuple[str, int], asyncio.Task[None]] = field(default_factory=dict)
    givers: dict[tuple[str, int], asyncio.StreamWriter] = field(default_factory=dict)
    #: A stop may overtake its run, and a run may come twice: neither is a reason to work.
    seen: set[tuple[str, int]] = field(default_factory=set)

    def run(self, job_id: str, attempt: int, giver: asyncio.StreamWriter) -> None:
        key = (job_id, attempt)
        if key in self.seen:
            if key not in self.held:
                self._say("stopped", key, giver)
            return
        self.seen.add(key)
        self.givers[key] = giver
        self._note("+", key)
        self.held[key] = asyncio.create_task(self._work(key, giver))

    def stop(self, job_id: str, attempt: int, *hearers: asyncio.StreamWriter) -> None:
        key = (job_id, attempt)
        self.seen.add(key)
        told = set(hearers)
        if key in self.held:
            self.held[key].cancel()
            told.add(self._end(key))
        for hearer in told:
            self._say("stopped", key, hearer)

    async def _work(self, key: tuple[str, int], giver: asyncio.StreamWriter) -> None:
        dice = self.random.random()
        self._say("have", key, giver)
        if dice < FAILS:
            self._say("failed", key, self._end(key))
            return
        self._say("started", key, giver)
        await asyncio.sleep(3600 if dice > 1 - HANGS else self.random.uniform(0, WORK_S))
        self._say("done", key, self._end(key))

    def _end(self, key: tuple[str, int]) -> asyncio.StreamWriter:
        # First the work is over, then it is said: the slot may be given away the moment it is heard.
        self._note("-", key)
        del self.held[key]
        return self.givers.pop(key)

    def _note(self, what: str, key: tuple[str, int]) -> None:
        os.write(self.history, f"{what} {self.name} {key[0]} {key[1]}\n".encode())

    def _say(self, word: str, key: tuple[str, int], hearer: asyncio.StreamWriter) -> None:
        if not hearer.is_closing():
            hearer.write(f"{word} {self.name} {key[0]} {key[1]}\n".encode())


class Fleet:
    """All nodes behind one door."""

    def __init__(self, engine: Engine, history: int, seed: int) -> None:
        self._engine = engine
        names = [f"node-{number}" for number in range(NODES)]
        self.nodes = {name: Node(name, history, random.Random(f"{seed} {name}")) for name in names}

    async def join(self) -> None:
        for name in self.nodes:
            word = await register(self._engine, CELL, name, semantic_langs=["en", "zh"], max_concurrent_jobs=SLOTS)
            assert not isinstance(word, Refusal), word

    async def open_door(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hear a scheduler until it is gone."""
        try:
            while line := await reader.readline():
                word, name, job_id, attempt = line.decode().split()
                obey = self.nodes[name].run if word == "run" else self.nodes[name].stop
                obey(job_id, int(attempt), writer)
        except OSError:
            pass
        finally:
            writer.close()

    async def beat(self) -> None:
        """Say what is really held, and stop what should not be."""
        while True:
            for node in self.nodes.values():
                beaten = await heartbeat(self._engine, CELL, node.name, running=list(node.held))
                assert not isinstance(beaten, Refusal), beaten
                for job_id, attempt in beaten.cancel:
                    node.stop(job_id, attempt)
            await asyncio.sleep(BEAT_S)


async def main(url: str, prefix: str, socket: str, history: str, seed: int) -> None:
    fd = os.open(history, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    async with await Engine.connect(url, prefix, msgspec.msgpack.encode(RULES)) as engine:
        fleet = Fleet(engine, fd, seed)
        await fleet.join()
        async with await asyncio.start_unix_server(fleet.open_door, socket):
            print("joined", flush=True)  # noqa: T201 - the test waits for this line
            await fleet.beat()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])))
