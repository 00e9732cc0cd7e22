"""`lingua serve --workers N`: several instances on one port, for one machine.

The port is held by this process and handed to all of them; whoever is free takes the next caller. They know each other
as any instances do, by the engine. One that dies is started again; when this process ends, however that went, all end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from lingua_scheduler.front.ending import OVER_S
from lingua_scheduler.front.server import bind
from lingua_scheduler.logs import get_log
from lingua_scheduler.logs.output import write_logs
from lingua_scheduler.operate.serve import say_ready
from lingua_scheduler.operate.signals import end_on_signal, how_it_ended, on_hangup

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from lingua_scheduler.config import Settings

T = TypeVar("T")

#: A worker that dies is started again after so long; one that dies again and again, after twice as long each time.
_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0
#: A worker that served for so long has not died again and again.
_WELL_S: Final = 30.0
#: A worker that has not said anything for so long, and for as long as it may wait for its name, hangs.
_START_S: Final = 60.0
#: So much longer than a worker needs to end, it may take before it is ended.
_MARGIN_S: Final = 1.0

#: What is told of each worker.
_KEPT: Final = ("instance_id", "pid")

log = get_log(__name__)


class NotStarted(Exception):
    """A worker ended before it served, with this exit code; what was wrong, it has said itself."""


class Worker:
    """One of them, in whichever process it is by now."""

    def __init__(self, number: int, fd: int, arguments: list[str], settings: Settings) -> None:
        self._number = number
        self._fd = fd
        self._arguments = arguments
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> dict[str, Any]:
        """What it says when it serves."""
        named = self._settings.instance.id
        own = {} if named == "auto" else {"LINGUA_INSTANCE__ID": f"{named}-{self._number}"}
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "lingua_scheduler.operate.leash", "serve", "--json"),
            *(*self._arguments, "--listen-fd", str(self._fd)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | own,
            pass_fds=[self._fd],
            start_new_session=True,
        )
        line = await self._first_line(self._process)
        if not line:
            raise NotStarted(await self._process.wait())
        said: dict[str, Any] = json.loads(line)
        return said

    async def _first_line(self, process: asyncio.subprocess.Process) -> bytes:
        """What it says when it serves; nothing: it has ended, or takes so long that it was ended."""
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        instance = self._settings.instance
        # It may have to wait until whoever had its name is known to be gone.
        within_s = _START_S + (instance.presence_ttl_ms + instance.presence_beat_ms) / 1000
        try:
            async with asyncio.timeout(within_s):
                return await process.stdout.readline()
        except TimeoutError:
            detail = "it does not serve yet, and is ended"
            log.error("worker", number=self._number, seconds=within_s, detail=detail)  # noqa: TRY400 - no bug of ours
            with suppress(ProcessLookupError):
                process.kill()
            return b""

    async def keep(self) -> None:
        """See to it that it serves, for ever."""
        clock, pause_s = asyncio.get_running_loop().time, _PAUSE_S
        while self._process is not None:
            began = clock()
            code = await self._process.wait()
            pause_s = _PAUSE_S if clock() - began > _WELL_S else min(pause_s * 2, _LONGEST_PAUSE_S)
            log.error(
                "worker", number=self._number, reason=how_it_ended(code), detail="it starts again", seconds=pause_s
            )
            await asyncio.sleep(pause_s)
            try:
                await self.start()
            except NotStarted:
                pass
            except (OSError, ValueError) as error:
                # There is no process for it just now, or it ended in the middle of a word.
                detail = "it could not be started"
                log.error("worker", number=self._number, reason=error, detail=detail)  # noqa: TRY400 - no bug of ours

    def hang_up(self) -> None:
        """It reads the settings again."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGHUP)

    async def end(self, patience_s: float) -> None:
        """Let it drain; if that takes too long, end it."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(patience_s):
                await self._process.wait()
        finally:
            with suppress(ProcessLookupError):
                self._process.kill()


def patience_s(settings: Settings) -> float:
    """How long a worker may take to end: longer than it needs, however little answers."""
    return settings.server.drain_ms / 1000 + OVER_S + _MARGIN_S


def main(settings: Settings, number: int, arguments: list[str], *, as_json: bool) -> int:
    """Serve until a signal, by so many processes; `arguments` are what each of them is started with."""
    write_logs(settings.logs)
    try:
        asyncio.run(_serve(settings, number, arguments, as_json=as_json))
    except NotStarted as error:
        code: int = error.args[0]
        return abs(code)
    return 0


async def _start(workers: list[Worker]) -> list[dict[str, Any]]:
    """What they say. The first one alone: what is wrong with the settings or the store is said once."""
    first = await workers[0].start()
    return [first, *await asyncio.gather(*(worker.start() for worker in workers[1:]))]


async def _unless(over: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What comes of it; None: it was over before that."""
    working, waiting = asyncio.create_task(work), asyncio.create_task(over.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        working.cancel()
        waiting.cancel()
        await asyncio.wait((working, waiting))


def _hang_up(workers: list[Worker]) -> None:
    for worker in workers:
        worker.hang_up()


async def _serve(settings: Settings, number: int, arguments: list[str], *, as_json: bool) -> None:
    over = asyncio.Event()
    end_on_signal(over)
    with bind(settings.server.host, settings.server.port) as bound:
        workers = [Worker(place, bound.fileno(), arguments, settings) for place in range(1, number + 1)]
        keeping: list[asyncio.Task[None]] = []
        try:
            said = await _unless(over, _start(workers))
            if said is None:
                return
            keeping += [asyncio.create_task(worker.keep()) for worker in workers]
            shown = said[0] | {"pid": os.getpid(), "workers": [{k: one[k] for k in _KEPT} for one in said]}
            del shown["instance_id"]
            on_hangup(partial(_hang_up, workers))
            say_ready(shown, f"{number} workers", as_json=as_json)
            await over.wait()
            if sys.stderr.isatty():
                typer.echo(f"draining, {settings.server.drain_ms / 1000:g} s at most", err=True)
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*(worker.end(patience_s(settings)) for worker in workers), return_exceptions=True)
