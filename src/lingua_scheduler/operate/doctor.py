"""`lingua doctor`: what `lingua serve` looks at when it starts, and more, each with what mends it.

It changes nothing, unless it is told to remove what the original scheduler left.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import typer

from lingua_scheduler.app import reach_engine, replication_of
from lingua_scheduler.core.errors import DependencyDown, LinguaError
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.operate.visit import visit
from lingua_scheduler.store.address import parse_place
from lingua_scheduler.store.checks import allow, examine, judge_schema, read_shape
from lingua_scheduler.store.finding import Finding, Level
from lingua_scheduler.store.relics import PRESENCE, look_under, remove_old
from lingua_scheduler.store.vitals import compare_clocks, measure_round_trips, try_hints
from lingua_scheduler.views.dead_letters import read_dead_letters
from lingua_scheduler.views.instance import read_instance
from lingua_scheduler.views.instances import read_directory
from lingua_scheduler.views.schema import read_schema

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.config import Settings
    from lingua_scheduler.operate.ask import Operator
    from lingua_scheduler.store.address import Place
    from lingua_scheduler.store.engine import Engine

_EMBEDDED: Final = "the embedded engine"
_EXIT_CODES: Final = {Level.OK: 0, Level.HINT: 0, Level.WARNING: 1, Level.UNFIT: 2}
_VERDICTS: Final = ("all well", "it works, but see the warnings", "not fit: mend this first")
_REACH_FIX: Final = (
    "see that it runs and can be reached from here, and that engine.url (--store) names it, with user and password"
)
_START_FIX: Final = "see engine.data_dir and the engine.log in it, or name an engine of yours with engine.url (--store)"
_REST_FIX: Final = "look again; if it stays so, somebody else writes under our prefix: give another engine.key_prefix"
#: Where these are wrong, no script can be asked for the rest.
_GROUND: Final = frozenset({"version", "kind", "rights"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user said."""

    remove_old_keys: bool
    is_sure: bool
    as_json: bool


@dataclass(slots=True)
class Visit:
    """What was found."""

    store: str
    findings: list[Finding] = field(default_factory=list)
    old: Counter[str] = field(default_factory=Counter)

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[max(finding.level for finding in self.findings)]


def main(settings: Settings, wanted: Wanted) -> int:
    """Look, say what is found, and remove what is to be removed. The exit code: 0 well, 1 warnings, 2 not fit."""
    seen = asyncio.run(_visit(settings))
    if not wanted.as_json:
        for finding in seen.findings:
            _show(finding)
    removed = 0
    if wanted.remove_old_keys and seen.old and (wanted.is_sure or _confirmed(settings, seen.old.total())):
        removed = asyncio.run(_remove(settings))
        said = f"had {removed} keys of the original scheduler; they are removed"
        last = Finding("old keys", Level.OK, said, seen.store)
        seen.findings = [one for one in seen.findings if one.check != last.check] + [last]
        if not wanted.as_json:
            _show(last)
    typer.echo(json.dumps(_told(seen, removed)) if wanted.as_json else _VERDICTS[seen.exit_code])
    return seen.exit_code


def look_at(asked: Operator, *, as_json: bool) -> int:
    """Look at a running scheduler, as anybody who may ask it can. The exit code as above."""
    seen = Visit(asked.where)
    for finding in visit(asked):
        seen.findings.append(finding)
        if not as_json:
            _show(finding)
    typer.echo(json.dumps(_told(seen, 0)) if as_json else _VERDICTS[seen.exit_code])
    return seen.exit_code


def _show(finding: Finding) -> None:
    typer.echo(f"{finding.level.name.lower():8} {finding.check:12} {finding.where} {finding.said}")
    if finding.fix:
        typer.echo(f"{'':21} fix: {finding.fix}")


def _told(visit: Visit, removed: int) -> dict[str, Any]:
    return {
        "store": visit.store,
        "exit_code": visit.exit_code,
        "findings": [
            {"check": one.check, "level": one.level.name.lower(), "where": one.where, "said": one.said, "fix": one.fix}
            for one in visit.findings
        ],
        "old_keys": dict(visit.old),
        "removed": removed,
    }


def _confirmed(settings: Settings, number: int) -> bool:
    """Outside every event loop, so that Ctrl-C means no, as it should. So does nobody being there to answer."""
    question = f"Remove {number} keys of the original scheduler under {settings.engine.key_prefix}? It must be stopped."
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        typer.echo("nothing is removed", err=True)
        return False


async def _remove(settings: Settings) -> int:
    async with reach_engine(settings) as (engine, _):
        return await remove_old(engine, settings.cell.name)


async def _visit(settings: Settings) -> Visit:
    visit = Visit(_EMBEDDED)
    try:
        if settings.engine.url:
            visit.store = str(parse_place(settings.engine.url))
        async with reach_engine(settings) as (engine, embedded):
            await _look_around(visit, settings, engine, settings.engine.url if embedded is None else embedded.url)
    except LinguaError as error:
        visit.findings.append(_broken_off(visit, error))
    return visit


def _broken_off(visit: Visit, error: LinguaError) -> Finding:
    if visit.findings:
        return Finding("the rest", Level.UNFIT, f"was not looked at to the end ({error})", visit.store, _REST_FIX)
    if visit.store == _EMBEDDED:
        return Finding("connection", Level.UNFIT, f"does not start ({error})", _EMBEDDED, _START_FIX)
    return Finding("connection", Level.UNFIT, f"cannot be reached ({error})", visit.store, _REACH_FIX)


async def _look_around(visit: Visit, settings: Settings, engine: Engine, url: str) -> None:
    place, cell = parse_place(url), settings.cell.name
    visit.findings += [finding async for finding in examine(engine, place, cell, replication_of(settings))]
    visit.findings += [finding async for finding in measure_round_trips(engine)]
    visit.findings += [finding async for finding in compare_clocks(engine, place)]
    if any(one.check in _GROUND and one.level is Level.UNFIT for one in visit.findings):
        return
    visit.findings.append(await try_hints(engine, url, place))
    cells = {cell}
    try:
        under = await look_under(engine, cell)
    except DependencyDown as error:
        if error.reason != "NOPERM":
            raise
        said = "forbids SCAN: whether there are keys of the original scheduler, or other cells, is not known"
        visit.findings.append(Finding("old keys", Level.HINT, said, visit.store, allow(place, "+scan")))
    else:
        cells |= under.cells
        visit.old = under.old
        visit.findings.append(_judge_old(under.old, engine.prefix, visit.store))
    visit.findings.append(judge_schema(engine.prefix, "", await read_shape(engine)))
    for name in sorted(cells):
        schema = await read_schema(engine, name)
        if not isinstance(schema, Refusal):
            visit.findings.append(judge_schema(engine.prefix, name, schema.written))
    visit.findings += [finding async for finding in _instances(engine, place)]
    visit.findings.append(await _dead_letters(engine, place))


def _judge_old(old: Counter[str], prefix: str, store: str) -> Finding:
    if not old:
        return Finding("old keys", Level.OK, f"has no keys of the original scheduler under {prefix}", store)
    kinds = ", ".join(f"{number} of {prefix}:{kind}" for kind, number in sorted(old.items()))
    runs = "; one may still be running" if old[PRESENCE] else ""
    said = f"has {old.total()} keys of the original scheduler{runs}: {kinds}"
    return Finding("old keys", Level.WARNING, said, store, "stop it, then lingua doctor --remove-old-keys")


async def _instances(engine: Engine, place: Place) -> AsyncIterator[Finding]:
    directory = await read_directory(engine)
    gone: dict[str, int] = {}
    alive = 0
    for instance_id, _ in directory.beats:
        look = await read_instance(engine, instance_id)
        if isinstance(look, Refusal):
            continue
        if look.presence is not False:
            alive += 1
        elif look.letters:
            gone[instance_id] = look.letters
    yield Finding("instances", Level.OK, f"serves so many instances: {alive}", str(place))
    fix = (
        "the others take them over within seconds; look again"
        if alive
        else "any instance takes them over: lingua serve"
    )
    for instance_id, letters in gone.items():
        said = f"is gone, and letters lie in its inbox: {letters}"
        yield Finding("instances", Level.WARNING, said, f"instance {instance_id}", fix)


async def _dead_letters(engine: Engine, place: Place) -> Finding:
    dead = await read_dead_letters(engine, limit=1)
    if isinstance(dead, Refusal) or not dead.total:
        return Finding("dead letters", Level.OK, "has no dead letters", str(place))
    fix = "lingua dlq list, then lingua dlq replay ID or lingua dlq delete ID"
    return Finding("dead letters", Level.WARNING, f"has dead letters: {dead.total}", str(place), fix)
