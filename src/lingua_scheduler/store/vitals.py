"""How far away the engine is, what time it is there, and whether hints arrive: what `lingua doctor` measures."""

from __future__ import annotations

import asyncio
import secrets
import time
from statistics import median
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.clock import wall_ms
from lingua_scheduler.core.errors import DependencyDown, ScriptFailed
from lingua_scheduler.store.channel import Ear
from lingua_scheduler.store.checks import allow, ask_everywhere
from lingua_scheduler.store.finding import Finding, Level

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from lingua_scheduler.store.address import Place
    from lingua_scheduler.store.engine import Engine

_PINGS: Final = 7
#: An utterance takes ten calls, most of them one after the other.
_SLOW_MS: Final = 10.0
_CLOCKS_APART_MS: Final = 1000
_HINT_S: Final = 1.0


async def measure_round_trips(engine: Engine) -> AsyncIterator[Finding]:
    """The median of a few PINGs to each server."""
    took: dict[str, list[float]] = {}

    async def time_one(server: str, answer: asyncio.Future[bytes], began: float) -> None:
        await answer
        took.setdefault(server, []).append((time.perf_counter() - began) * 1000)

    for _ in range(_PINGS):
        began = time.perf_counter()
        await asyncio.gather(*(time_one(*one, began) for one in engine.everywhere("PING").items()))
    for server, times in took.items():
        yield judge_round_trips(times).at(server)


def judge_round_trips(times: list[float]) -> Finding:
    """Whether a server that answered in so many milliseconds is near enough."""
    said = f"answers in {median(times):.1f} ms (median of {len(times)} PINGs; the longest took {max(times):.1f} ms)"
    if median(times) < _SLOW_MS:
        return Finding("round trip", Level.OK, said)
    fix = "let instances run near the engine, or see what keeps it busy: SLOWLOG GET"
    return Finding("round trip", Level.WARNING, said, fix=fix)


async def compare_clocks(engine: Engine, place: Place, clock: Callable[[], int] = wall_ms) -> AsyncIterator[Finding]:
    """The engine's clock is the only one that the scheduler goes by; people who read logs have that of the machine."""
    began = clock()
    times = await ask_everywhere(engine, "TIME")
    here = (began + clock()) // 2
    for server, answer in times.items():
        if answer is None:
            yield Finding("clock", Level.HINT, "forbids TIME", server, allow(place, "+time"))
            continue
        ahead = int(answer[0]) * 1000 + int(answer[1]) // 1000 - here
        said = f"has a clock that is {abs(ahead)} ms {'ahead of' if ahead >= 0 else 'behind'} this machine's"
        if abs(ahead) < _CLOCKS_APART_MS:
            yield Finding("clock", Level.OK, said, server)
        else:
            fix = "let both follow the same time (NTP): deadlines go by the engine's, logs by the machine's"
            yield Finding("clock", Level.WARNING, said, server, fix)


async def try_hints(engine: Engine, url: str, place: Place) -> Finding:
    """Say a word to ourselves by Pub/Sub, as instances do with what may be lost."""
    channel = f"{engine.prefix}:hints:doctor-{secrets.token_hex(8)}"
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    why = f"nothing was heard within {_HINT_S:g} s"
    async with Ear(engine, url, lambda word: None if heard.done() else heard.set_result(word), channel) as ear:
        try:
            await ear.listens()
            await engine.command("PUBLISH", channel, b"?", cell=channel)
            async with asyncio.timeout(_HINT_S):
                await heard
        except TimeoutError:
            pass
        except (ScriptFailed, DependencyDown) as error:
            why = str(error)
        else:
            return Finding("hints", Level.OK, "carries hints between instances (PUBLISH and SUBSCRIBE)", str(place))
    said = f"carries no hints between instances ({why}): sessions whose node is elsewhere miss partial results"
    fix = allow(place, "+publish", "+subscribe", f"&{engine.prefix}:hints:*")
    return Finding("hints", Level.HINT, said, str(place), fix)
