"""The engine's language: how a command is written, and what an error reply means."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

import hiredis

from lingua_scheduler.core.errors import DependencyDown, LinguaError, ScriptFailed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

    from lingua_scheduler.store.scripts import Script

    #: Makes the error of one caller. No two share an instance: each raise would write into its traceback.
    Failure = Callable[[], LinguaError]

#: First words of replies by which the engine says that it executed nothing, and why.
REFUSALS: Final = frozenset(
    {
        "BUSY",
        "CLUSTERDOWN",
        "DENIED",
        "LOADING",
        "MASTERDOWN",
        "MAXCLIENTS",
        "MISCONF",
        "NOAUTH",
        "NOPERM",
        "NOREPLICAS",
        "NOSCRIPT",
        "OOM",
        "READONLY",
        "TRYAGAIN",
        "WRONGPASS",
    }
)

#: Only an error from within a script carries this, whatever its first word. It may have written before.
_INSIDE: Final = re.compile(r"@user_script:(?P<line>\d+)")


def encode(*args: bytes | str | int) -> bytes:
    """A command as it travels."""
    data: bytes = hiredis.pack_command(args)  # type: ignore[arg-type]  # hiredis says "a tuple of one"
    return data


def first_word(message: str) -> str:
    """`LOADING` of `LOADING Valkey is loading the dataset in memory`."""
    if message.startswith("ERR max number of clients"):
        return "MAXCLIENTS"
    return message.partition(" ")[0]


def failure_of_script(script: Script, message: str) -> Failure:
    """What a caller of `script` is told when the engine answered with an error."""
    inside = _INSIDE.search(message)
    if inside:
        number = int(inside["line"])
        return partial(ScriptFailed, f"{script.name}, line {number} `{script.line(number)}`: {message}")
    if first_word(message) in REFUSALS:
        return partial(DependencyDown, first_word(message), message)
    return partial(ScriptFailed, f"{script.name}: {message}")


def failure_of_command(message: str) -> Failure:
    """What the caller of a plain command is told when the engine answered with an error."""
    if first_word(message) in REFUSALS and not _INSIDE.search(message):
        return partial(DependencyDown, first_word(message), message)
    return partial(ScriptFailed, message)


def fail(future: asyncio.Future[Any], failure: Failure) -> None:
    """Tell a caller, unless it has left; one that never looks is no reason for a line in the log."""
    if not future.done():
        future.set_exception(failure())
        future.exception()
