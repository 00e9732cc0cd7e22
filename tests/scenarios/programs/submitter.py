"""A process that submits every request of a list, in an order of its own, and prints what each became."""

from __future__ import annotations

import asyncio
import random
import sys

import msgspec

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.front.ask import Ask
from lingua_scheduler.front.submit import Submitter
from lingua_scheduler.store.engine import Engine

CELL = "c0"
REQUESTS = 300
IN_FLIGHT = 8


def ask_of(number: int) -> Ask:
    return Ask("s1", "en", "zh", body=f"utterance {number}", utterance_index=number)


async def submit_all(engine: Engine, seed: int) -> dict[str, str]:
    """Request id → job id."""
    numbers = list(range(REQUESTS))
    random.Random(seed).shuffle(numbers)
    submitter, found = Submitter(engine, CELL), {}

    async def lane() -> None:
        while numbers:
            number = numbers.pop()
            answer = await submitter.submit(ask_of(number), principal="storm", request_id=f"r{number}")
            if isinstance(answer, Refusal):
                raise RuntimeError(answer.detail)  # noqa: TRY004 - there is room for all
            found[f"r{number}"] = answer.job_id
            print(f"r{number} {answer.job_id}", flush=True)  # noqa: T201

    await asyncio.gather(*(lane() for _ in range(IN_FLIGHT)))
    return found


async def main(url: str, prefix: str, seed: int) -> None:
    async with await Engine.connect(url, prefix, msgspec.msgpack.encode(Rules())) as engine:
        await submit_all(engine, seed)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
