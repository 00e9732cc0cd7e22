"""Is the engine that a URL names fit to keep a fleet? Asked once, at the start, and by `lingua doctor`.

Unfit is what would break a promise later, when nobody looks: keys that vanish, a server that takes no writes, a
script that may not run. What may be meant so, or is hidden from us, as managed services hide it, is a warning.
A check yields findings; who starts refuses and warns by them, the doctor shows them all.
"""

from __future__ import annotations

import re
import secrets
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, EngineUnfit, ScriptFailed
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.address import Cluster, Sentinels
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.finding import Finding, Level
from lingua_scheduler.store.keys import DIRECTORY
from lingua_scheduler.store.tables import SCHEMA

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from typing import Any

    from lingua_scheduler.store.address import Address, Place
    from lingua_scheduler.store.assurance import Replication
    from lingua_scheduler.store.engine import Engine

#: By the field of INFO that has the version. Valkey names one of Redis too, for clients that know no other.
_OLDEST: Final = {"valkey_version": ("Valkey", (8, 0)), "redis_version": ("Redis", (7, 0))}
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")

#: A birth is never 0, and exact in Lua.
_BIRTH_BITS: Final = 53

#: A command that is several, as XGROUP and XINFO are, is named with the one that is meant.
_CALLED: Final = re.compile(r"""redis\.p?call\(\s*["']([A-Z]+)["'](?:,\s*["'](CREATE|CONSUMERS|DELCONSUMER)["'])?""")
#: What is asked for without a script: whether a letter has come.
_PLAIN: Final = "XREAD"
_CLUSTER_ADVICE: Final = "give its URL as redis+cluster://host:port, with some servers of the Cluster"
_SENTINEL_ADVICE: Final = (
    "give redis+sentinel://host:port/name, with all Sentinels and the name of the primary that they watch"
)

_NEWER_FIX: Final = "run that release, or give this one another engine.key_prefix; nothing was changed"
_OLDER_FIX: Final = (
    "stop all of that release, and give this one another engine.key_prefix or an empty engine; "
    "nothing was changed, and that release can go on with what it has (docs/operate.md, Upgrade)"
)
_REPLICAS_FIX: Final = 'give it replicas, or set engine.replicas or engine.durability = "default"'
_UNWATCHED: Final = "forbids INFO, without which nobody knows whether a replica has what the primary had"

_ROOMS: Final = ("flows", "flows/shared", "views", "store")

log = get_log(__name__)


class _Denied(Answer, frozen=True, tag="DENIED"):
    commands: list[str]


class _Schema(Answer, frozen=True, tag="SCHEMA"):
    written: int
    birth: int


class _Shape(Answer, frozen=True, tag="SHAPE"):
    written: int


_SHAPE: Final = Face("store/shape", _Shape)
_RIGHTS: Final = Face("store/rights", _Denied)
_SCHEMA: Final = Face("store/schema", _Schema)


async def check_engine(engine: Engine, place: Place, cell: str, replication: Replication | None = None) -> None:
    """`EngineUnfit` if the engine cannot keep a cell safely; a line in the log for what is only doubtful."""
    async for finding in examine(engine, place, cell, replication):
        if finding.level is Level.UNFIT:
            raise EngineUnfit(str(finding))
        if finding.level is Level.WARNING:
            log.warning("check", reason=finding)


async def examine(
    engine: Engine, place: Place, cell: str, replication: Replication | None = None
) -> AsyncIterator[Finding]:
    """What the servers say of themselves, and what they let us do.

    Of a Cluster every primary is looked at: each has cells, or will have some. `replication`: what is promised must be
    on replicas.
    """
    infos = await ask_everywhere(engine, "INFO")
    savings = await ask_everywhere(engine, "CONFIG", "GET", "save")
    for server, info in infos.items():
        if info is None:
            said = (
                "forbids INFO: its version, memory policy and persistence, and what a fail-over forgot, are not known"
            )
            yield Finding("version", Level.WARNING, said, server, allow(place, "+info"))
            if replication is not None:
                yield Finding("replicas", Level.UNFIT, _UNWATCHED, server, allow(place, "+info"))
            continue
        fields = _fields(info)
        if replication is not None:
            yield _replicas(fields, replication.replicas).at(server)
        for finding in (*findings_in(fields, place), _persistence(fields, savings.get(server))):
            yield finding.at(server)
    commands = used_commands(replicated=replication is not None)
    for server, each in engine.one_cell_each(cell).items():
        yield (await _rights(engine, each, _login(place).username or "default", commands)).at(server)


async def check_schema(engine: Engine, cell: str) -> int:
    """`EngineUnfit` if a release that lays records out differently wrote here; a new cell is marked as ours.

    The answer is the cell's birth: whoever knows another one knew a cell that is gone. Nothing is marked before all
    is known to be right, so whoever is refused has changed nothing.
    """
    _refuse(judge_schema(engine.prefix, "", await read_shape(engine)))
    answer = await _SCHEMA(engine, cell, pack((SCHEMA, secrets.randbits(_BIRTH_BITS) | 1)))
    assert isinstance(answer, _Schema)  # noqa: S101 - it refuses nothing
    _refuse(judge_schema(engine.prefix, cell, answer.written))
    _refuse(judge_schema(engine.prefix, "", await read_shape(engine, SCHEMA)))
    return answer.birth


async def read_shape(engine: Engine, offered: int = 0) -> int:
    """Which layout all records under the prefix have; if nobody has said so, the one that is offered."""
    answer = await _SHAPE(engine, DIRECTORY, pack((offered,)))
    assert isinstance(answer, _Shape)  # noqa: S101 - it refuses nothing
    return answer.written


def _refuse(finding: Finding) -> None:
    if finding.level is Level.UNFIT:
        raise EngineUnfit(str(finding))


def judge_schema(prefix: str, cell: str, written: int) -> Finding:
    """Whether this release knows the shape of a cell, or of all that is under the prefix; 0: nobody has begun yet."""
    where = f"cell {cell} under {prefix}" if cell else f"the directory under {prefix}"
    if written == 0:
        return Finding("schema", Level.OK, "is not begun yet", where)
    if written == SCHEMA:
        return Finding("schema", Level.OK, f"has records of schema {SCHEMA}, as this release writes them", where)
    by, fix = ("a newer", _NEWER_FIX) if written > SCHEMA else ("an older", _OLDER_FIX)
    said = f"has records of schema {written} by {by} release, and this release knows only schema {SCHEMA}"
    return Finding("schema", Level.UNFIT, said, where, fix)


def findings_in(info: Mapping[str, str], place: Place) -> Iterator[Finding]:
    """What a server's own words mean for us: how old it is, what it is, and whether it keeps what it has."""
    yield _version(info)
    yield _kind(info, place)
    yield _memory(info)


def _version(info: Mapping[str, str]) -> Finding:
    for field, (name, oldest) in _OLDEST.items():
        if found := _VERSION.match(info.get(field, "")):
            said = f"is {name} {info[field]}"
            if (int(found[1]), int(found[2])) < oldest:
                return Finding(
                    "version", Level.UNFIT, said, fix="Valkey 8.0 or newer, or Redis 7.0 or newer, is needed"
                )
            return Finding("version", Level.OK, said)
    return Finding("version", Level.OK, "does not say its version")


def _kind(info: Mapping[str, str], place: Place) -> Finding:
    is_cluster = isinstance(place, Cluster)
    if info.get("cluster_enabled") == "1" and not is_cluster:
        said, fix = "is a server of a Cluster, which keeps only some of the cells", _CLUSTER_ADVICE
    elif "sentinel" in {info.get("server_mode"), info.get("redis_mode")}:
        said, fix = "is a Sentinel, which keeps no data", _SENTINEL_ADVICE
    elif info.get("role") == "slave":
        primary = f"{info.get('master_host')}:{info.get('master_port')}"
        said, fix = "is a replica, which takes no writes", f"give the URL of its primary, {primary}"
    else:
        watched = ", which Sentinels watch" if isinstance(place, Sentinels) else ""
        return Finding("kind", Level.OK, "is a primary of a Cluster" if is_cluster else f"is a primary{watched}")
    return Finding("kind", Level.UNFIT, said, fix=fix)


def _memory(info: Mapping[str, str]) -> Finding:
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory", "0") == "0":
        return Finding("memory", Level.OK, "drops no keys (maxmemory is not set)")
    if policy == "noeviction":
        return Finding("memory", Level.OK, "drops no keys (maxmemory-policy is noeviction)")
    said = f"drops keys when its memory is full (maxmemory-policy is {policy}), and with them nodes and jobs"
    return Finding("memory", Level.UNFIT, said, fix="CONFIG SET maxmemory-policy noeviction")


def _persistence(info: Mapping[str, str], saving: list[bytes] | None) -> Finding:
    if info.get("aof_enabled") == "1":
        return Finding("persistence", Level.OK, "keeps an append-only file")
    return Finding("persistence", Level.WARNING, _what_is_lost(saving), fix="CONFIG SET appendonly yes")


def _replicas(info: Mapping[str, str], wanted: int) -> Finding:
    """A replica may be on its way; until then nobody is promised anything, and all are told so: only a warning."""
    there = int(info.get("connected_slaves", "0"))
    if there >= wanted:
        return Finding("replicas", Level.OK, f"has {there} replicas, and {wanted} must have what is acknowledged")
    said = f"has {there} replicas, and {wanted} must have what is acknowledged: until then every outcome is unknown"
    return Finding("replicas", Level.WARNING, said, fix=_REPLICAS_FIX)


def used_commands(*, replicated: bool = False) -> list[str]:
    """Every command that this release gives, but for those that load and run the scripts."""
    package = files("lingua_scheduler")
    scripts = [file for room in _ROOMS for file in (package / room).iterdir() if file.name.endswith(".lua")]
    called = (found for file in scripts for found in _CALLED.findall(file.read_text(encoding="utf-8")))
    return sorted({_PLAIN, *(["WAIT"] if replicated else []), *("|".join(filter(None, words)) for words in called)})


async def ask_everywhere(engine: Engine, *command: str) -> dict[str, Any]:
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


async def _rights(engine: Engine, cell: str, user: str, commands: list[str]) -> Finding:
    try:
        answer = await _RIGHTS(engine, cell, pack(commands))
    except DependencyDown as error:
        if error.reason != "NOPERM":
            raise
        why = error.detail
    except ScriptFailed as error:
        # A server of a Cluster that has other cells, and forbids INFO.
        advice = _CLUSTER_ADVICE if "MOVED" in str(error) else ""
        return Finding("rights", Level.UNFIT, f"cannot run the scripts: {error}", fix=advice)
    else:
        if not (isinstance(answer, _Denied) and answer.commands):
            return Finding("rights", Level.OK, f"lets the user {user} do all that the scripts do")
        why = f"it may not run the command {', '.join(answer.commands)}"
    rights = [f"+{command.lower()}" for command in ("EVALSHA", "SCRIPT|LOAD", *commands)]
    wanted = " ".join(rights) if " command" in why else f"~{engine.prefix}:*"
    said = f"gives the user {user} too few rights ({why})"
    return Finding("rights", Level.UNFIT, said, fix=f"ACL SETUSER {user} {wanted}")


def allow(place: Place, *rights: str) -> str:
    """The command that gives the user of this URL more rights."""
    return " ".join(("ACL SETUSER", _login(place).username or "default", *rights))


def _login(place: Place) -> Address:
    """What logs in where the cells are."""
    if isinstance(place, Cluster):
        return place.seeds[0]
    return place.primary if isinstance(place, Sentinels) else place
