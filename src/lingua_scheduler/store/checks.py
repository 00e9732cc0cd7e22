"""Is the engine that a URL names fit to keep a fleet? Asked once, at the start.

Refused is what would break a promise later, when nobody looks: keys that vanish, a server that takes no writes, a
script that may not run. What may be meant so, or is hidden from us, as managed services hide it, is a warning.
"""

from __future__ import annotations

import logging
import re
import secrets
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, EngineUnfit, ScriptFailed
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.tables import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lingua_scheduler.store.address import Address
    from lingua_scheduler.store.engine import Engine

#: By the field of INFO that has the version. Valkey names one of Redis too, for clients that know no other.
_OLDEST: Final = {"valkey_version": ("Valkey", (8, 0)), "redis_version": ("Redis", (7, 0))}
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")

#: A birth is never 0, and exact in Lua.
_BIRTH_BITS: Final = 53

#: A command that is several, as XGROUP is, is named with the one that is meant.
_CALLED: Final = re.compile(r"""redis\.p?call\(\s*["']([A-Z]+)["'](?:,\s*["'](CREATE)["'])?""")
#: What is asked for without a script: whether a letter has come.
_PLAIN: Final = "XREAD"
_ROOMS: Final = ("flows", "flows/shared", "views", "store")

log = logging.getLogger(__name__)


class _Denied(Answer, frozen=True, tag="DENIED"):
    commands: list[str]


class _Schema(Answer, frozen=True, tag="SCHEMA"):
    written: int
    birth: int


_RIGHTS: Final = Face("store/rights", _Denied)
_SCHEMA: Final = Face("store/schema", _Schema)


async def check_engine(engine: Engine, address: Address, cell: str) -> None:
    """`EngineUnfit` if the engine cannot keep a cell safely; a line in the log for what is only doubtful."""
    info = await _info(engine)
    if info is None:
        log.warning("%s forbids INFO: its version, its memory policy and its persistence are not known", address)
    elif why := why_unfit(info):
        raise EngineUnfit(f"{address} {why}")
    elif info.get("aof_enabled") != "1":
        log.warning("%s %s; CONFIG SET appendonly yes", address, await _what_is_lost(engine))
    await _check_rights(engine, address, cell)


async def check_schema(engine: Engine, cell: str) -> int:
    """`EngineUnfit` if a release that lays records out differently wrote this cell; a new cell is marked as ours.

    The answer is the cell's birth: whoever knows another one knew a cell that is gone.
    """
    answer = await _SCHEMA(engine, cell, pack((SCHEMA, secrets.randbits(_BIRTH_BITS) | 1)))
    assert isinstance(answer, _Schema)  # noqa: S101 - it refuses nothing
    if answer.written != SCHEMA:
        raise EngineUnfit(
            f"cell {cell} under {engine.prefix} has records of schema {answer.written}, and this release knows only "
            f"schema {SCHEMA}: give it another engine.key_prefix, or run the release that wrote the cell"
        )
    return answer.birth


def why_unfit(info: Mapping[str, str]) -> str:
    """What must be changed before an engine that says this of itself can be used; "" if nothing."""
    for field, (name, oldest) in _OLDEST.items():
        if found := _VERSION.match(info.get(field, "")):
            if (int(found[1]), int(found[2])) < oldest:
                return f"is {name} {info[field]}: Valkey 8.0 or newer, or Redis 7.0 or newer, is needed"
            break
    if "sentinel" in {info.get("server_mode"), info.get("redis_mode")}:
        return "is a Sentinel, which keeps no data: give the URL of the server that it watches"
    if info.get("role") == "slave":
        primary = f"{info.get('master_host')}:{info.get('master_port')}"
        return f"is a replica, which takes no writes: give the URL of its primary, {primary}"
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory", "0") != "0" and policy != "noeviction":
        return (
            f"drops keys when its memory is full (maxmemory-policy is {policy}), and with them nodes and jobs: "
            "CONFIG SET maxmemory-policy noeviction"
        )
    return ""


def used_commands() -> list[str]:
    """Every command that this release gives, but for those that load and run the scripts."""
    package = files("lingua_scheduler")
    scripts = [file for room in _ROOMS for file in (package / room).iterdir() if file.name.endswith(".lua")]
    called = (found for file in scripts for found in _CALLED.findall(file.read_text(encoding="utf-8")))
    return sorted({_PLAIN, *("|".join(filter(None, words)) for words in called)})


async def _ask(engine: Engine, *command: str) -> Any:  # noqa: ANN401 - whatever it answers
    """The reply; None if the ACL forbids the command, or the service has taken it away."""
    try:
        return await engine.command(*command)
    except ScriptFailed:
        return None
    except DependencyDown as error:
        if error.reason == "NOPERM":
            return None
        raise


async def _info(engine: Engine) -> dict[str, str] | None:
    text: bytes | None = await _ask(engine, "INFO")
    if text is None:
        return None
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


async def _what_is_lost(engine: Engine) -> str:
    """What the death of an engine without an append-only file costs."""
    reply: list[bytes] | None = await _ask(engine, "CONFIG", "GET", "save")
    if not reply:
        return "has no append-only file and forbids CONFIG GET: what is lost when it dies is not known"
    if reply[1]:
        return "keeps snapshots only: when it dies, what came after the last one is lost"
    return "keeps nothing on disk: when it dies, every node and job is forgotten"


async def _check_rights(engine: Engine, address: Address, cell: str) -> None:
    commands = used_commands()
    try:
        answer = await _RIGHTS(engine, cell, pack(commands))
    except DependencyDown as error:
        if error.reason != "NOPERM":
            raise
        why = error.detail
    except ScriptFailed as error:  # MOVED is one: a node of a Cluster that has other cells
        raise EngineUnfit(f"{address} cannot run the scripts: {error}") from None
    else:
        if not (isinstance(answer, _Denied) and answer.commands):
            return
        why = f"it may not run the command {', '.join(answer.commands)}"
    user = address.username or "default"
    rights = [f"+{command.lower()}" for command in ("EVALSHA", "SCRIPT|LOAD", *commands)]
    wanted = " ".join(rights) if " command" in why else f"~{engine.prefix}:*"
    raise EngineUnfit(f"{address} gives the user {user} too few rights ({why}): ACL SETUSER {user} {wanted}")
