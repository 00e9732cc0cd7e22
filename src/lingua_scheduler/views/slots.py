"""slots: how many slots each node of a cell has, and how many of them are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.health import FLAPS, is_doubted
from lingua_scheduler.core.records import Record, Standing
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingua_scheduler.store.engine import Engine

#: A page is small for each node, and so has more of them than one with all their work.
NODES_PER_PAGE: Final = 500


class NodeSlots(Record, frozen=True):
    """A node's slots, its group, how it stands, how often it was gone lately, and what is held against it.

    One in group 0 serves nothing. `is_marked`: a service of it does not work. `is_suspect`: it failed too many of its
    last jobs; while it is tried with a job, it stands as `available`.
    """

    node_id: str
    used: int
    max: int
    group: int
    standing: Standing
    gone: int = 0
    is_marked: bool = False
    is_suspect: bool = False

    @property
    def flaps(self) -> bool:
        """Whether it comes and goes, and so rests for longer each time."""
        return self.gone >= FLAPS

    @property
    def is_doubted(self) -> bool:
        """Whether it is under suspicion and is given jobs all the same, now or soon."""
        return is_doubted(self.standing, suspect=self.is_suspect)

    @property
    def free(self) -> int:
        """How many jobs it could take now."""
        return self.max - self.used if self.group and self.standing <= Standing.suspect else 0


class Slots(msgspec.Struct, frozen=True):
    """Slots of several nodes. Lost ones do not count.

    What is neither used nor free is on nodes that can take nothing now: they rest, drain, are silent or not ready.
    What was given up and may still be at work is used, and so is what a node holds above its number.
    """

    total: int
    used: int
    free: int


class _Page(Answer, frozen=True, tag="SLOTS"):
    cursor: str
    nodes: list[NodeSlots]


_SLOTS: Final = Face("views/slots", _Page)


async def slots_in(engine: Engine, cell: str) -> list[NodeSlots]:
    """Look at every node of a cell, a page at a time: the engine is never held up for long."""
    found: dict[str, NodeSlots] = {}
    cursor = "0"
    while True:
        page = await _SLOTS(engine, cell, pack((cursor, NODES_PER_PAGE)))
        assert isinstance(page, _Page)  # noqa: S101 - it refuses nothing
        found.update((node.node_id, node) for node in page.nodes)
        cursor = page.cursor
        if cursor == "0":
            return list(found.values())


def by_standing(nodes: Iterable[NodeSlots]) -> dict[str, int]:
    """How many nodes stand how; every standing is named."""
    found = {standing.name: 0 for standing in Standing}
    for node in nodes:
        found[node.standing.name] += 1
    return found


def sum_of(nodes: Iterable[NodeSlots]) -> Slots:
    """The slots of these nodes together."""
    there = [node for node in nodes if node.standing != Standing.lost]
    return Slots(sum(node.max for node in there), sum(node.used for node in there), sum(node.free for node in there))
