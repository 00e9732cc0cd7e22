"""The command line of a node: `python my_node.py check | dev | start`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from lingua_scheduler.sdk._address import DEFAULT_URL, Address
from lingua_scheduler.sdk._tracing import begin_traces
from lingua_scheduler.sdk.client_errors import Refused
from lingua_scheduler.sdk.nodes.check import Checker, hum, lines_of, read_wav
from lingua_scheduler.sdk.nodes.logs import JsonLines, Lines, write_logs
from lingua_scheduler.sdk.nodes.reload import UNDER_RELOAD, become_reloader, can_reload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from lingua_scheduler.sdk.nodes.node import Node

#: Something broke.
_BROKEN: Final = 1
#: What a person can mend.
_WRONG: Final = 2
#: Nobody wanted to wait.
_AT_ONCE: Final = 130
_LOOK_S: Final = 0.5
#: What a handler has left behind may take so long to end, once the node has.
_LEAVE_S: Final = 3.0

log: Final = logging.getLogger("lingua.node")


def main(node: Node, arguments: Sequence[str] | None = None) -> int:
    """The exit code. What a person can mend is one line, and 2."""
    said = _parser().parse_args(arguments)
    try:
        _ = node.handler
        if said.command == "check":
            return _check(node, said.audio, as_json=said.json)
        if said.url:
            node.address = Address.parse(said.url)
        if said.command == "dev":
            return _dev(node, reloads=said.reload)
        write_logs(JsonLines())
        begin_traces()
        return asyncio.run(_serve(node))
    except (ValueError, OSError) as error:
        if error is node.setup_error:
            raise
        return _say_wrong(error)


def _say_wrong(error: Exception) -> int:
    text = f"the scheduler refuses: {error}" if isinstance(error, Refused) else str(error)
    print(f"{Path(sys.argv[0]).name}: {text}", file=sys.stderr)  # noqa: T201 - for a person
    return _WRONG


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="A node for Lingua Scheduler.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="check | dev | start")
    check = commands.add_parser("check", help="try the handler on sample audio, without a scheduler")
    check.add_argument("--audio", type=Path, metavar="FILE", help="a wav file (mono, 16 bits) instead of a hum")
    check.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    dev = commands.add_parser("dev", help="join the scheduler on this machine; start again when a file changes")
    dev.add_argument("--no-reload", dest="reload", action="store_false", help="do not look at the files")
    start = commands.add_parser("start", help="join the scheduler and serve: JSON logs, SIGTERM drains")
    for one in (dev, start):
        one.add_argument("--url", help=f"where the scheduler is [default: LINGUA_URL, else {DEFAULT_URL}]")
    return parser


def _check(node: Node, file: Path | None, *, as_json: bool) -> int:
    audio, sample_rate = (hum(), 16_000) if file is None else read_wav(file)
    report = asyncio.run(Checker(node, audio, sample_rate).check())
    if as_json:
        print(json.dumps({"ok": report.is_ok, "max_jobs": node.max_jobs} | dataclasses.asdict(report)))  # noqa: T201
    else:
        print("\n".join(lines_of(report, node.max_jobs)))  # noqa: T201 - the answer
    return 0 if report.is_ok else 1


def _dev(node: Node, *, reloads: bool) -> int:
    if reloads and can_reload():
        become_reloader()
    write_logs(Lines())
    return asyncio.run(_serve(node))


async def _serve(node: Node) -> int:
    """Until it is told to end. The first signal drains, and ends a set-up; a second one stops at once."""
    serving = asyncio.create_task(node.run())

    def first() -> None:
        if node.has_begun:
            node.drain()
        else:
            serving.cancel()

    _on_signals(first)
    watching = asyncio.create_task(_end_with_reloader(node)) if os.environ.get(UNDER_RELOAD) else None
    code = _BROKEN
    try:
        code = await _outcome(node, serving)
    finally:
        if watching is not None:
            watching.cancel()
        _leave_soon(code)
    return code


async def _outcome(node: Node, serving: asyncio.Task[None]) -> int:
    """The exit code. Of an error in the set-up that somebody wrote here, its place counts."""
    try:
        await serving
    except asyncio.CancelledError:
        return 0
    except Exception as error:
        if error is node.setup_error:
            log.exception("the set-up failed")
            return _BROKEN
        if isinstance(error, Refused | ValueError | OSError):
            return _say_wrong(error)
        raise
    return 0


def _on_signals(first: Callable[[], None]) -> None:
    """Call it in the loop at the first signal. The second ends the process, also if a handler holds up the loop."""
    loop, signals = asyncio.get_running_loop(), 0

    def heard(_number: int, _frame: FrameType | None) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            _leave(_AT_ONCE)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(first)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, heard)


def _leave_soon(code: int) -> None:
    """Nobody waits for a handler that will not be cancelled, or for a thread that it has left."""
    leaving = threading.Timer(_LEAVE_S, _leave, [code])
    leaving.daemon = True
    leaving.start()


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


async def _end_with_reloader(node: Node) -> None:
    """A reloader that is killed cannot say so; nothing is left running."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(_LOOK_S)
    node.stop()
