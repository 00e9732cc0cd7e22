"""Nodes and jobs to play with: made by the flows themselves, with every random choice fixed."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.needs import LACKS, MUTE
from lingua_scheduler.core.records import Event, Past, PastAttempt
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.flows.started import started
from tests.support.cells import GONE, HELD
from tests.support.world import CELL, EPOCH_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingua_scheduler.core.cell import Cell
    from lingua_scheduler.core.job_state import State
    from tests.support.cells import Changes
    from tests.support.world import World

#: The moment at which every test begins.
T0: Final = EPOCH_MS

A, B, C, D = f"{CELL}.a", f"{CELL}.b", f"{CELL}.c", f"{CELL}.d"

ONE_TRY: Final = Limits(max_retry=0)
ONE_SECOND: Final = Limits(timeout_ms=1_000)

#: The generator from which a job's choices are drawn.
MULTIPLIER, INCREMENT, MODULUS = 1664525, 1013904223, 2**32

#: What a node says of itself unless a test wants it otherwise: it serves en:zh and nothing else.
PLAIN: Final[dict[str, Any]] = {
    "semantic_langs": ["en", "zh"],
    "nmt_pairs": [["en", "zh"]],
    "max_concurrent_jobs": 2,
}

#: As many languages as a node may name.
LANGUAGES: Final = (  # noqa: SIM905 - 64 lines are not easier to read
    "af am ar az be bg bn ca cs cy da de el en es et eu fa fi fr ga gl gu he hi hu hy id is it ja ka kk km kn ko lo "
    "lt lv mk ml mn mr ms my ne nl pa pl pt ro ru si sk sl sq sv sw ta te th tr uk ur"
).split()


async def join(world: World, node_id: str = "n1", **said: Any) -> Registered:
    """Register a node. Its epoch ends in its name."""
    answer = await register(world.engine, CELL, node_id, **(PLAIN | {"nonce": node_id} | said))
    assert isinstance(answer, Registered), answer
    return answer


async def place(world: World, job_id: str = A, **asked: Any) -> Placed:
    """Dispatch a job."""
    answer = await dispatch(world.engine, job_id, "s1", "en", "zh", **({"seed": 1} | asked))
    assert isinstance(answer, Placed), answer
    return answer


async def sweep(world: World) -> Settled:
    """Settle what is overdue."""
    answer = await reap(world.engine, CELL)
    assert isinstance(answer, Settled), answer
    return answer


async def wait(world: World, timeouts: Mapping[str, int], pair: str = "en:zh") -> None:
    """Jobs with these timeouts whose node left when no other had room for them: they wait."""
    src, tgt = pair.split(":")
    await join(world, "pit", semantic_langs=[src, tgt], nmt_pairs=[[src, tgt]], max_concurrent_jobs=len(timeouts))
    for job_id, timeout_ms in timeouts.items():
        limits = Limits(timeout_ms=timeout_ms)
        answer = await dispatch(world.engine, job_id, "s1", src, tgt, seed=1, limits=limits)
        assert isinstance(answer, Placed), answer
        assert answer.node_id == "pit", answer
    await leave(world.engine, CELL, "pit")
    jobs = (await world.cell()).jobs
    assert {jobs[job_id].state for job_id in timeouts} == {"RETRYING"}, jobs


async def keep_alive(world: World, *node_ids: str) -> None:
    """Let these nodes give a sign of life."""
    await asyncio.gather(*(heartbeat(world.engine, CELL, node_id) for node_id in node_ids))


async def bring(world: World, state: State, job_id: str = A, **asked: Any) -> Placed:
    """Dispatch a job and take its first attempt into `state`, all at this moment."""
    limits = {"FAILED": ONE_TRY, "EXPIRED": ONE_SECOND}.get(state, Limits())
    placed = await place(world, job_id, **({"limits": limits} | asked))
    attempt = (world.engine, job_id, 1, placed.node_id)
    if state in {"DISPATCHED", "RUNNING"}:
        await deliver(*attempt)
    if state in {"ACCEPTED", "RUNNING"}:
        await ack(*attempt)
    if state == "RUNNING":
        await started(*attempt)
    if state == "FINISHED":
        await done(*attempt)
    if state in {"RETRYING", "FAILED"}:
        await fail(*attempt, reason="broken")
    if state == "CANCELLED":
        await cancel(world.engine, job_id)
    if state == "EXPIRED":
        world.now_ms += 1_000
        await sweep(world)
    found = (await world.cell()).jobs[job_id].state
    assert found == state, found
    return placed


def code_of(answer: object) -> str:
    """The code of a refusal; "" if it is none."""
    return answer.code if isinstance(answer, Refusal) else ""


def signature(
    served: list[str],
    tts: list[str] | bool = False,
    services: list[tuple[str, bool]] | None = None,
    labels: list[tuple[str, str]] | None = None,
    *,
    public: bool = True,
) -> str:
    """The name under which a cell knows a capability that nothing is marked in."""
    packed = msgspec.msgpack.encode((served, tts, services or [], labels or [], public))
    return hashlib.sha1(packed, usedforsecurity=False).hexdigest()


def mute(*groups: int) -> list[int]:
    """Groups under a pair: their nodes have everything, but say of no language that they speak it."""
    return [LACKS * group + MUTE for group in groups]


def seed_for(number: int) -> int:
    """The seed from which the next number that is drawn is this one."""
    return (number - INCREMENT) * pow(MULTIPLIER, -1, MODULUS) % MODULUS


def past(*attempts: tuple[int, str, str, int, State] | tuple[int, str, str, int, State, int], **counted: Any) -> Past:
    """What happened to a job: attempt, node, cause, when, and what that led to. The next number only if it is odd."""
    return Past(attempts=[_past_attempt(*attempt) for attempt in attempts], **counted)


def _past_attempt(
    attempt: int, node_id: str, cause: str, at_ms: int, state: State, following: int | None = None
) -> PastAttempt:
    usual = attempt + (state == "RETRYING")
    return PastAttempt(attempt, node_id, cause, at_ms, state, usual if following is None else following)


def queued(job_id: str, deadline_at_ms: int, pair: str = "en:zh") -> str:
    """A job's place among those who wait for the same pair."""
    return f"w{pair}:{deadline_at_ms:015}:{job_id}"


def served(
    job_id: str, node_id: str, epoch: str, now: int = T0 + 7, *, deadline: int = T0 + 60_000, pair: str = "en:zh"
) -> Changes:
    """A job that waited gets its second attempt: here, and now. What that does to the node is not said."""
    fields = {"state": "RESERVED", "attempt": 2, "node": node_id, "epoch": epoch, "reserved_at_ms": now}
    return {
        "jobs": {job_id: fields},
        "leases": {f"{node_id}:{job_id}:2": HELD},
        "queue": {queued(job_id, deadline, pair): GONE},
        "due": {f"j:{job_id}": now + 5_000},
        "outbox": {Event("reserved", job_id, 2, node_id, epoch, "", now): now},
    }


#: What clients, replicas, Sentinels and servers of a Cluster say to a server while nobody asks for anything.
_OF_CONNECTIONS: Final = {
    f"cmdstat_{name}"
    for name in (
        "auth",
        "client",
        "cluster",
        "info",
        "ping",
        "psync",
        "publish",
        "replconf",
        "role",
        "script",
        "select",
    )
}


async def calls(world: World) -> Counter[str]:
    """How often each command was executed so far, inside scripts too; but not those of connections, also of others."""
    lines = (await world.engine.command("INFO", "commandstats", cell=CELL)).decode().splitlines()
    return Counter(
        {
            line.split(":")[0].removeprefix("cmdstat_"): int(line.split("calls=")[1].split(",")[0])
            for line in lines
            if line.startswith("cmdstat_") and line.split(":")[0].split("|")[0] not in _OF_CONNECTIONS
        }
    )


def waiting(cell: Cell) -> list[str]:
    """Who waits: the places by pair, without the lines of those who could serve them."""
    return [place for place in cell.queue if place.startswith("w")]


def nodes_of(cell: Cell, *job_ids: str) -> list[str]:
    """Who has these jobs, "" for one that waits."""
    jobs = [cell.jobs[job_id] for job_id in job_ids]
    return ["" if job.state == "RETRYING" else job.node for job in jobs]
