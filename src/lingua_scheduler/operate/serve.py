"""`lingua serve`: one instance, from its first look at the settings to its last goodbye."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sys
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import typer
import uvloop

from lingua_scheduler.app import serve
from lingua_scheduler.config import ConfigError
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.seat import CONSOLE
from lingua_scheduler.front.auth import Auth
from lingua_scheduler.front.handlers.signing import SIGN_IN
from lingua_scheduler.front.origins import is_loopback
from lingua_scheduler.front.server import bind
from lingua_scheduler.logs import get_log
from lingua_scheduler.logs.output import write_logs
from lingua_scheduler.operate.signals import end_on_signal, first_of, on_hangup
from lingua_scheduler.store.address import parse_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.app import Serving
    from lingua_scheduler.config import Settings
    from lingua_scheduler.config.load import Loaded

#: So many new objects before the garbage collector looks for cycles. What a request leaves behind has none, so a look
#: is seldom worth it: Python's own 700 cost 7 % of an utterance.
_GARBAGE: Final = 20_000

log = get_log(__name__)


def main(
    loaded: Loaded, *, as_json: bool, listen_fd: int | None = None, again: Callable[[], Settings] | None = None
) -> int:
    """Serve until a signal. The exit code: 0 after a drain, 130 if nobody wanted to wait for it, 1 if it was no signal.

    `listen_fd` is a socket that somebody else has bound; `again` reads the settings once more.
    """
    write_logs(loaded.settings.logs)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        is_usurped = runner.run(_serve(loaded, as_json=as_json, listen_fd=listen_fd, again=again))
    return 1 if is_usurped else 0


def check_exposure(settings: Settings, *, insecure: bool) -> None:
    """Without tokens only this machine is let in, unless somebody insists, and then it is said aloud."""
    host = settings.server.host
    if Auth(settings.auth).has_tokens or is_loopback(host):
        return
    if not insecure:
        raise ConfigError(
            f"without tokens only this machine is served, and {host} is more than that: set auth.node_tokens, "
            "auth.session_tokens and auth.admin_tokens, or listen on 127.0.0.1, or insist with --insecure"
        )
    typer.echo(
        f"lingua: INSECURE: there are no tokens; whoever reaches {host} may register nodes, "
        "read every job and run the fleet",
        err=True,
    )


async def _serve(loaded: Loaded, *, as_json: bool, listen_fd: int | None, again: Callable[[], Settings] | None) -> bool:
    """Whether it ended because another process has its name."""
    settings, over = loaded.settings, asyncio.Event()
    end_on_signal(over)
    address = settings.server
    bound = bind(address.host, address.port) if listen_fd is None else socket.socket(fileno=listen_fd)
    bound.setblocking(False)
    with bound:
        async with serve(settings, bound, loaded.origins) as serving:
            _collect_seldom()
            if again is not None:
                on_hangup(partial(_read_levels, serving, again))
            say_ready(_about(serving) | await _link(serving), as_json=as_json)
            is_usurped = serving.app.is_usurped
            await first_of(over, is_usurped)
            if sys.stderr.isatty():
                wait_s = settings.server.drain_ms / 1000
                typer.echo(f"draining, {wait_s:g} s at most; once more, and it stops at once", err=True)
    return is_usurped.is_set()


def _read_levels(serving: Serving, again: Callable[[], Settings]) -> None:
    """SIGHUP: what the settings say of logs counts from now on. The rest is as it was at the start."""
    try:
        serving.desk.levels.begin_anew(again().logs)
    except ConfigError as error:
        log.warning("log_level", reason=error, detail="the settings cannot be read: all is as it was")


def _collect_seldom() -> None:
    """What is there by now stays until the end, and is not looked at again; the rest is looked at less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE)


def _about(serving: Serving) -> dict[str, Any]:
    settings, server, embedded = serving.app.settings, serving.server, serving.app.embedded
    return {
        "event": "ready",
        "url": server.url,
        "host": settings.server.host,
        "port": server.port,
        "store": str(parse_place(settings.engine.url)) if embedded is None else "embedded",
        "cell": serving.app.directory.first,
        "instance_id": serving.desk.instance_id,
        "pid": os.getpid(),
        "version": version("lingua-scheduler"),
    }


async def _link(serving: Serving) -> dict[str, str]:
    """Where whoever reads this signs in, once; nothing if nobody has to."""
    desk = serving.desk
    if not desk.auth.has_tokens:
        return {}
    link = await desk.seats.offer(CONSOLE, reads_only=False)
    return {} if isinstance(link, Refusal) else {"sign_in": f"{serving.server.url}{SIGN_IN}#{link}"}


def say_ready(said: dict[str, Any], more: str = "", *, as_json: bool) -> None:
    """The one line on standard output; for people, a second one if they have to sign in."""
    if as_json:
        line = json.dumps(said)
    else:
        url, more = said["url"], f"{more}; " if more else ""
        line = f"ready: {url} ({more}state engine: {said['store']}; dashboard: {url}/dashboard; Ctrl-C drains)"
        if "sign_in" in said:
            line += f"\nsign in, once: {said['sign_in']}"
    print(line, flush=True)  # noqa: T201 - the line is the contract
