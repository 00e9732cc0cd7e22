"""Nodes and jobs to play with: made by the flows themselves, with every random choice fixed."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Past, PastAttempt
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.flows.started import started
from tests.support.world import CELL, EPOCH_MS

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
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
    """The name under which a cell knows a capability."""
    packed = msgspec.msgpack.encode((served, tts, services or [], labels or [], public))
    return hashlib.sha1(packed, usedforsecurity=False).hexdigest()


def seed_for(number: int) -> int:
    """The seed from which the next number that is drawn is this one."""
    return (number - INCREMENT) * pow(MULTIPLIER, -1, MODULUS) % MODULUS


def past(*attempts: tuple[int, str, str, int, State], **counted: Any) -> Past:
    """What happened to a job: attempt, node, end, when, and what that led to."""
    return Past(attempts=[PastAttempt(*attempt) for attempt in attempts], **counted)
