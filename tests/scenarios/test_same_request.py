"""The same requests from two processes at once, one of which is killed: each is one job (S10)."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import sys
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import CELL_KEY_NAMES, cell_key, request_tag
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.cell import read_cell
from tests.scenarios.programs.submitter import CELL, REQUESTS, submit_all

if TYPE_CHECKING:
    from tests.support.servers import Server


async def start(server: Server, prefix: str, seed: int) -> asyncio.subprocess.Process:
    program = "tests.scenarios.programs.submitter"
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", program, server.url, prefix, str(seed), stdout=asyncio.subprocess.PIPE
    )


async def lines(process: asyncio.subprocess.Process, number: int = REQUESTS) -> list[tuple[str, str]]:
    """The first `number` lines that it prints, or all."""
    assert process.stdout is not None
    found: list[tuple[str, str]] = []
    while len(found) < number and (line := await process.stdout.readline()).endswith(b"\n"):
        request_id, job_id = line.decode().split()
        found.append((request_id, job_id))
    return found


async def test_the_same_requests_from_two_processes_are_one_job_each(server: Server) -> None:
    rng = random.Random(int(os.environ.get("LINGUA_STORM_SEED", "7")))
    prefix = f"test:{secrets.token_hex(6)}"
    async with await Engine.connect(server.url, prefix, msgspec.msgpack.encode(Rules())) as engine:
        joined = await register(engine, CELL, "n1", semantic_langs=["en", "zh"], max_concurrent_jobs=1024)
        assert isinstance(joined, Registered)
        victim, steady = await asyncio.gather(*(start(server, prefix, rng.randrange(1000)) for _ in range(2)))
        told = await lines(victim, rng.randrange(20, 150))
        victim.kill()
        told += await lines(victim)
        assert await victim.wait() == -signal.SIGKILL
        told += await lines(steady)
        assert await steady.wait() == 0
        jobs = await submit_all(engine, seed=1)

        assert len(jobs) == REQUESTS
        assert len(told) > REQUESTS
        assert all(jobs[request_id] == job_id for request_id, job_id in told)
        cell = await read_cell(engine, CELL)
        assert isinstance(cell, Cell)
        assert cell.jobs.keys() == set(jobs.values())
        assert await audit_whole(engine, CELL) == []
        claims = [cell_key(prefix, request_tag("storm", request_id), "claim") for request_id in jobs]
        await engine.command("UNLINK", *claims, *(cell_key(prefix, CELL, name) for name in CELL_KEY_NAMES))
