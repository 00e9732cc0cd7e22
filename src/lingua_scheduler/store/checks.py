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
from lingua_scheduler.store.address import Cluster, Sentinels
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.tables import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lingua_scheduler.store.address import Address, Place
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
_CLUSTER_ADVICE: Final = "give its URL as redis+cluster://host:port, with some servers of the Cluster"

_ROOMS: Final = ("flows", "flows/shared", "views", "store")

log = logging.getLogger(__name__)


class _Denied(Answer, frozen=True, tag="DENIED"):
    commands: list[str]


class _Schema(Answer, frozen=True, tag="SCHEMA"):
    written: int
    birth: int


_RIGHTS: Final = Face("store/rights", _Denied)
_SCHEMA: Final = Face("store/schema", _Schema)


async def check_engine(engine: Engine, place: Place, cell: str) -> None:
    """`EngineUnfit` if the engine cannot keep a cell safely; a line in the log for what is only doubtful.

    Of a Cluster every primary is looked at: each has cells, or will have some.
    """
    infos = await _ask(engine, "INFO")
    savings = await _ask(engine, "CONFIG", "GET", "save")
    for server, info in infos.items():
        if info is None:
            log.warning("%s forbids INFO: its version, its memory policy and its persistence are not known", server)
            continue
        said = _fields(info)
        if why := why_misplaced(said, place) or why_unfit(said):
            raise EngineUnfit(f"{server} {why}")
        if said.get("aof_enabled") != "1":
            log.warning("%s %s; CONFIG SET appendonly yes", server, _what_is_lost(savings.get(server)))
    for server, each in engine.one_cell_each(cell).items():
        await _check_rights(engine, server, each, _login(place).username or "default")


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


def why_misplaced(info: Mapping[str, str], place: Place) -> str:
    """Which kind of URL this server needs; "" if its own is right."""
    if info.get("cluster_enabled") == "1" and not isinstance(place, Cluster):
        return f"is a server of a Cluster, which keeps only some of the cells: {_CLUSTER_ADVICE}"
    return ""


def why_unfit(info: Mapping[str, str]) -> str:
    """What must be changed before an engine that says this of itself can be used; "" if nothing."""
    for field, (name, oldest) in _OLDEST.items():
        if found := _VERSION.match(info.get(field, "")):
            if (int(found[1]), int(found[2])) < oldest:
                return f"is {name} {info[field]}: Valkey 8.0 or newer, or Redis 7.0 or newer, is needed"
            break
    if "sentinel" in {info.get("server_mode"), info.get("redis_mode")}:
        return (
            "is a Sentinel, which keeps no data: give redis+sentinel://host:port/name, with all Sentinels and the name "
            "of the primary that they watch"
        )
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


async def _ask(engine: Engine, *command: str) -> dict[str, Any]:
    """The reply of each server; None if its ACL forbids the command, or the service has taken it away."""
    replies = {}
    for server, answer in engine.everywhere(*command).items():
        try:
            replies[server] = await answer
        except ScriptFailed:
            replies[server] = None
        except DependencyDown as error:
            if error.reason != "NOPERM":
                raise
            replies[server] = None
    return replies


def _fields(info: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def _what_is_lost(saving: list[bytes] | None) -> str:
    """What the death of an engine without an append-only file costs, by what CONFIG GET save said."""
    if not saving:
        return "has no append-only file and forbids CONFIG GET: what is lost when it dies is not known"
    if saving[1]:
        return "keeps snapshots only: when it dies, what came after the last one is lost"
    return "keeps nothing on disk: when it dies, every node and job is forgotten"


async def _check_rights(engine: Engine, server: str, cell: str, user: str) -> None:
    commands = used_commands()
    try:
        answer = await _RIGHTS(engine, cell, pack(commands))
    except DependencyDown as error:
        if error.reason != "NOPERM":
            raise
        why = error.detail
    except ScriptFailed as error:
        # A server of a Cluster that has other cells, and forbids INFO.
        advice = f"; {_CLUSTER_ADVICE}" if "MOVED" in str(error) else ""
        raise EngineUnfit(f"{server} cannot run the scripts: {error}{advice}") from None
    else:
        if not (isinstance(answer, _Denied) and answer.commands):
            return
        why = f"it may not run the command {', '.join(answer.commands)}"
    rights = [f"+{command.lower()}" for command in ("EVALSHA", "SCRIPT|LOAD", *commands)]
    wanted = " ".join(rights) if " command" in why else f"~{engine.prefix}:*"
    raise EngineUnfit(f"{server} gives the user {user} too few rights ({why}): ACL SETUSER {user} {wanted}")


def _login(place: Place) -> Address:
    """What logs in where the cells are."""
    if isinstance(place, Cluster):
        return place.seeds[0]
    return place.primary if isinstance(place, Sentinels) else place
