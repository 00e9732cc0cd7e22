"""What the benches measure with: a server of their own, a fleet of any size, complete cycles."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.new_ids import new_job_id
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import USUAL_WANTED, Wanted
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.register import register
from lingua_scheduler.front.ask import Ask
from lingua_scheduler.front.submit import Submitter
from lingua_scheduler.store.scripts import Script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.store.engine import Engine

CELL: Final = "c0"
GROUPS: Final = 8
#: The session whose jobs wait.
PATIENT: Final = "patient"
BODY: Final = '{"audio_ref": "blob://0192f0c1", "pipeline": {"use_asr": true, "use_nmt": true}}'
RESULT: Final = '{"text_asr": "good morning", "text_translated": "早上好", "tts_audio": "blob://0192f0c2"}'

_NOOP: Final = "#!lua\nlocal answers = {}\nfor i = 3, #ARGV do\n  answers[#answers + 1] = 'x'\nend\nreturn answers\n"
NOOP: Final = Script("noop", _NOOP, hashlib.sha1(_NOOP.encode(), usedforsecurity=False).hexdigest(), (), -1)


async def enrol(engine: Engine, number: int, slots: int) -> None:
    """Register `number` nodes of eight kinds, all of which serve en:zh."""
    for first in range(0, number, 500):
        answers = await asyncio.gather(
            *(
                register(
                    engine,
                    CELL,
                    f"node-{n}",
                    semantic_langs=["en", "zh"],
                    labels={"kind": str(n % GROUPS)},
                    max_concurrent_jobs=slots,
                    nonce=f"n{n}",
                )
                for n in range(first, min(first + 500, number))
            )
        )
        if refused := next((answer for answer in answers if isinstance(answer, Refusal)), None):
            raise RuntimeError(refused.detail)


async def place(engine: Engine, wanted: Wanted = USUAL_WANTED) -> tuple[str, Placed]:
    """One job on its node."""
    job_id = new_job_id(CELL)
    placed = await dispatch(engine, job_id, "session-1", "en", "zh", body=BODY, wanted=wanted)
    if not isinstance(placed, Placed):
        raise RuntimeError(placed)  # noqa: TRY004 - a bench that is refused has measured nothing
    return job_id, placed


async def submit(engine: Engine) -> tuple[str, Placed]:
    """One job on its node, under a request id."""
    ask = Ask("session-1", "en", "zh", BODY)
    submitted = await Submitter(engine, CELL).submit(ask, request_id=new_job_id(CELL))
    if isinstance(submitted, Refusal):
        raise RuntimeError(submitted)  # noqa: TRY004
    return submitted.job_id, submitted.placed


async def wait(engine: Engine, number: int) -> None:
    """One more node for the same pair, which is full, and so many jobs that wait for just this kind of node."""
    full = {"kind": "full"}
    await register(engine, CELL, "full", semantic_langs=["en", "zh"], labels=full, max_concurrent_jobs=1)
    for n in range(number + 1):
        limits = Limits(timeout_ms=86_400_000, ack_ms=86_400_000)
        wanted = Wanted(wait_ms=60_000, labels=full)
        found = await dispatch(engine, new_job_id(CELL), PATIENT, "en", "zh", limits=limits, wanted=wanted)
        if isinstance(found, Refusal) or isinstance(found, Placed) != (n == 0):
            raise RuntimeError(found)


async def finish(engine: Engine, job_id: str, placed: Placed) -> None:
    """The job's end."""
    ended = await done(engine, job_id, placed.attempt_id, placed.node_id, placed.epoch, result=RESULT)
    if isinstance(ended, Refusal):
        raise RuntimeError(ended.detail)  # noqa: TRY004


async def cycle(engine: Engine) -> None:
    """A complete job: dispatch, deliver, ack, done."""
    job_id, placed = await place(engine)
    await deliver(engine, job_id, placed.attempt_id, placed.node_id, placed.epoch)
    await ack(engine, job_id, placed.attempt_id, placed.node_id, placed.epoch)
    await finish(engine, job_id, placed)


async def four_noops(engine: Engine) -> None:
    """As many round trips as a cycle, and nothing in them."""
    for _ in range(4):
        await engine.run(NOOP, CELL, (b"x",))


async def at_once(work: Callable[[], Awaitable[None]], number: int, in_flight: int) -> None:
    """Do `work` `number` times, `in_flight` at a time."""

    async def lane() -> None:
        for _ in range(number // in_flight):
            await work()

    await asyncio.gather(*(lane() for _ in range(in_flight)))
