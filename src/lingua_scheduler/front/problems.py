"""What is wrong with the fleet, in words: the same wherever it is told, on the pages, in the API and in a terminal.

The pages say them in other languages by their shape (`pages/dashboard/phrases.js`): a sentence here has one there.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.clock import AWAY_MS
from lingua_scheduler.core.records import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.views.fleet import Fleet
    from lingua_scheduler.views.pools import Pool

#: They are for people: more than these nobody reads at once.
MAX_PROBLEMS: Final = 20
#: When so many looks could not be made, whoever looks is told that he sees the past.
_STALE: Final = 3
#: So many pairs are named.
_NAMED: Final = 5
_WORDS: Final = {"stale": "silent"}


def problems_now(desk: Desk, age_ms: int) -> Iterator[str]:
    """What the last look at the fleet, which is so old, cannot know."""
    if desk.clock.silent_ms >= AWAY_MS:
        yield "the state engine does not answer: nothing is accepted"
    if age_ms > _STALE * desk.settings.loops.snapshot_interval_ms:
        # How old it is, the numbers say: a sentence that changed every second would be news every second.
        yield "nobody could look at the fleet for a while: what is shown is how it was then"


def problems_of(desk: Desk, fleet: Fleet, dead_letters: int) -> Iterator[str]:
    """What somebody should look at: what stops everybody first."""
    yield from _idle(fleet)
    yield from _unserved([pool for pool in fleet.pools if not pool.living])
    if violations := sum((desk.auditor.found or {}).values()):
        yield f"the auditor found what must never be, {violations} times: see the log"
    if dead_letters:
        yield f"{dead_letters} dead letter{'s' if dead_letters > 1 else ''}: see /v1/dlq"
    standing = fleet.nodes_by_standing
    doubted = sum(node.is_doubted for node in fleet.nodes)
    for number, what in ((standing["lost"], "lost"), (standing["stale"], "silent"), (doubted, "under suspicion")):
        if number:
            yield f"{number} of {len(fleet.nodes)} nodes {'is' if number == 1 else 'are'} {what}"
    marked = sum(node.is_marked and node.standing != Standing.lost for node in fleet.nodes)
    if marked:
        yield f"{marked} of {len(fleet.nodes)} nodes {'has' if marked == 1 else 'have'} a service that does not work"
    for pool in fleet.pools:
        if pool.waiting:
            yield f"{pool.waiting} wait for {pool.pair}"
    if desk.catalog.is_stale:
        yield f"the service catalog could not be refreshed {desk.catalog.failures} times: see /api/v1/catalog"


def _idle(fleet: Fleet) -> Iterator[str]:
    """That nobody could take a job, whatever it is, and how they all stand."""
    if not fleet.nodes:
        yield "no node has registered"
    elif not fleet.slots.free:
        stand = Counter(
            node.standing.name
            if node.group or node.standing not in {Standing.available, Standing.suspect}
            else "without a pair"
            for node in fleet.nodes
        )
        yield f"no node can take a job now: {', '.join(stand_of(dict(stand.most_common())))}"


def stand_of(standing: Mapping[str, int]) -> list[str]:
    """How many nodes stand how, in words."""
    return [f"{number} {_WORDS.get(name, name.replace('_', ' '))}" for name, number in standing.items() if number]


def _unserved(pools: Sequence[Pool]) -> Iterator[str]:
    """The pairs that have nodes, but none that is given jobs."""
    if pools:
        more = len(pools) - _NAMED
        named = ", ".join(pool.pair for pool in pools[:_NAMED])
        yield f"nobody alive serves {named}" + (f" and {more} more" if more > 0 else "")
