"""A node comes into its cell, tells what it can do by now, and gives its place back.

The directory is told first where the node will be and what is served there, and then the node comes in: so no node is
ever in two cells, and whoever reads the directory misses none that was let in. Whoever dies in between leaves a home in
which nobody is, or a way that leads nowhere; the surveyor finds both.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.capability import capability, served_pairs
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.assign_home import Home, assign_home
from lingua_scheduler.flows.enter_homes import enter_homes
from lingua_scheduler.flows.forget_home import forget_home
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.register import register
from lingua_scheduler.flows.route import route
from lingua_scheduler.flows.vacate import Vacated, vacate
from lingua_scheduler.views.home import HomeView, read_home
from lingua_scheduler.views.node import Node, read_node

if TYPE_CHECKING:
    from lingua_scheduler.flows.heartbeat import Beaten
    from lingua_scheduler.flows.leave import Left
    from lingua_scheduler.flows.register import Registered
    from lingua_scheduler.front.directory import Directory
    from lingua_scheduler.store.engine import Engine

#: So often a node is sent on whose home was full, or given up, when it came.
_TRIES: Final = 5
#: What a cell answers that another may not.
_NOT_HERE: Final = ("CELL_FULL", "HOME_GONE")
#: The part of a node's word that says which pairs it serves.
_ABLE: Final = ("semantic_langs", "asr_langs", "nmt_pairs", "tts_langs", "services", "lenient")


async def take_in(directory: Directory, node_id: str, **words: Any) -> Registered | Refusal:  # noqa: ANN401
    """Register a node in its cell, and count how that went. `words` are those of `register`."""
    answer = await _take_in(directory, node_id, **words)
    directory.registrations[answer.code if isinstance(answer, Refusal) else answer.how.lower()] += 1
    return answer


async def _take_in(directory: Directory, node_id: str, **words: Any) -> Registered | Refusal:  # noqa: ANN401
    engine = directory.engine
    pairs, full, tries = _pairs_of(words), None, 0
    while True:
        assigned = await assign_home(engine, node_id, pairs, first=directory.first, full=full)
        if isinstance(assigned, Refusal):
            return assigned
        home = await _where_it_was(directory, node_id, assigned) if assigned.is_new else assigned
        await directory.begin(home.cell)
        if pairs:
            await route(engine, home.cell, pairs)
        answer = await register(engine, home.cell, node_id, stamp=home.stamp, **words)
        if not isinstance(answer, Refusal):
            # From here on the node can be given jobs, and its caller must know it: nothing is waited for any more. If
            # the surveyor looked at the cell before it came, what was told is told again.
            directory.know_home(node_id, home.cell)
            if answer.pairs:
                directory.also(route(engine, home.cell, answer.pairs))
            return msgspec.structs.replace(answer, cell=home.cell)
        tries += 1
        if answer.code not in _NOT_HERE or tries == _TRIES:
            break
        full = home if answer.code == "CELL_FULL" else None
    # Whoever is not let in takes nobody's place.
    await give_up(engine, node_id, home.cell, home.stamp)
    return answer


def _pairs_of(words: dict[str, Any]) -> list[str]:
    """What the node will serve; none, if what it says cannot be right: `register` will say what is wrong."""
    try:
        return served_pairs(capability(**{name: words[name] for name in _ABLE if name in words})[0])
    except Invalid:
        return []


async def _where_it_was(directory: Directory, node_id: str, home: Home) -> Home:
    """The directory knows no home of this node. It may have lost it: then some cell still knows the node."""
    others = [cell for cell in directory.cells if cell != home.cell]
    found = await asyncio.gather(*(read_node(directory.engine, cell, node_id) for cell in others))
    cell = next((cell for cell, node in zip(others, found, strict=True) if isinstance(node, Node)), None)
    if cell is None:
        return home
    await forget_home(directory.engine, node_id, home.cell, home.stamp)
    await enter_homes(directory.engine, cell, [node_id])
    known = await assign_home(directory.engine, node_id, first=directory.first)
    return home if isinstance(known, Refusal) else known


async def hear_beat(directory: Directory, node_id: str, epoch: str = "", **words: Any) -> Beaten | Refusal:  # noqa: ANN401
    """A node's heartbeat, in its cell. `words` are those of `heartbeat`."""
    engine = directory.engine
    answer = await directory.at_home(node_id, lambda cell: heartbeat(engine, cell, node_id, epoch, **words))
    if not isinstance(answer, Refusal) and answer.serves_more:
        await directory.at_home(node_id, lambda cell: _route(engine, cell, node_id))
    return answer


async def _route(engine: Engine, cell: str, node_id: str) -> Node | Refusal:
    """Tell the directory what a node serves by now."""
    node = await read_node(engine, cell, node_id)
    if isinstance(node, Node):
        await route(engine, cell, node.pairs)
    return node


async def let_go(directory: Directory, node_id: str, epoch: str = "") -> Left | Refusal:
    """A node leaves its cell, and another may have its place."""
    engine = directory.engine
    left = await directory.at_home(node_id, lambda cell: leave(engine, cell, node_id, epoch))
    if not isinstance(left, Refusal):
        directory.forget_home(node_id)
        home = await read_home(engine, node_id)
        if isinstance(home, HomeView):
            await give_up(engine, node_id, home.cell, home.stamp)
    return left


async def give_up(engine: Engine, node_id: str, cell: str, stamp: int) -> bool:
    """Give a home up in which the node is not, nor will come by this stamp. Whether it was given up."""
    if not isinstance(await vacate(engine, cell, node_id, stamp), Vacated):
        return False
    forgotten = await forget_home(engine, node_id, cell, stamp)
    return not isinstance(forgotten, Refusal) and forgotten.was_there
