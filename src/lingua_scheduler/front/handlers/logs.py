"""How much is written down: an operator may see and set it, for all instances at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.letter import Letter
from lingua_scheduler.front.web import Query, Route
from lingua_scheduler.protocol.logs import (
    LogLevelAnswer,
    LogLevelRequest,
    LogLevelsAnswer,
    ModuleLevel,
    read_log_level,
)
from lingua_scheduler.views.instances import read_directory

if TYPE_CHECKING:
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request, Said


async def show_levels(desk: Desk, request: Request) -> Said:
    """The levels of this instance; of one module also if nothing is said of it alone."""
    named = request.query.get("module")
    said = desk.levels.now() if named is None else desk.levels.of(named)
    modules = [
        ModuleLevel(module=module, level=level, for_s=seconds) for module, (level, seconds) in sorted(said.items())
    ]
    return LogLevelsAnswer(instance_id=desk.instance_id, modules=modules)


async def set_level(desk: Desk, request: Request) -> Said:
    """Set it here, and write to the others. One that is just being started begins as its settings have it."""
    said: LogLevelRequest = request.message
    who = request.principal.name
    module = desk.levels.set(said.module, said.level, said.for_s, who)
    others = [one for one, _ in (await read_directory(desk.engine)).beats if one != desk.instance_id]
    letter = Letter("log_level", detail=f"{module} {said.level} {said.for_s or 0} {who}", trace=request.trace_id)
    told = await asyncio.gather(*(desk.neighbours.tell(one, letter) for one in others))
    instances = [desk.instance_id, *(one for one, is_told in zip(others, told, strict=True) if is_told)]
    return LogLevelAnswer(ok=True, module=module, level=said.level, instances=sorted(instances), for_s=said.for_s)


def _in_words(said: LogLevelRequest) -> str:
    return said.level + (f" for {said.for_s:g} s" if said.for_s else "")


ROUTES: Final = (
    Route(
        "GET",
        "/v1/log-levels",
        "admin",
        show_levels,
        "How much this instance writes down, by module.",
        answers=LogLevelsAnswer,
        query=(Query("module", "Only this one, like front.door, and what is in it."),),
        tag="fleet",
    ),
    Route(
        "POST",
        "/v1/log-level",
        "admin",
        set_level,
        "How much all instances write down of a module, for a while or until they end.",
        answers=LogLevelAnswer,
        reads=read_log_level,
        tag="fleet",
        act="log_level",
        acts_on="module",
        acts_with=_in_words,
    ),
)
