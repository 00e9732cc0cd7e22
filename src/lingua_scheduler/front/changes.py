"""What is different from the last look at the fleet: nodes that are silent or well again, pairs without a node.

It costs the engine nothing: the look is the one that is shown. Every instance compares for itself; of what several
see one notice stays. What a script decides (who is suspect, rests or is lost), it says itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.problems import stand_of
from lingua_scheduler.views.job import read_job
from lingua_scheduler.views.node import read_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.front.directory import Directory
    from lingua_scheduler.loops.chronicler import Chronicler
    from lingua_scheduler.views.fleet import Fleet
    from lingua_scheduler.views.node import Node
    from lingua_scheduler.views.pools import Pool

#: How a node is, as far as it is told here: that it becomes suspect, its cell tells. One that is not ready or drains is
#: as it was before.
_STATES: Final = {
    Standing.available: "well",
    Standing.full: "well",
    Standing.suspect: "well",
    Standing.suspect_full: "well",
    Standing.resting: "resting",
    Standing.stale: "silent",
    Standing.lost: "lost",
}
#: So many nodes are looked at at once for why they are as they are.
_AT_ONCE: Final = 100
#: What became of a lost node's jobs is looked at after so long; of more nodes than these at once it is not told.
_MOVED_MS: Final = 1_000
_MAX_LOST: Final = 100
#: So many marks are watched until they end.
_MAX_MARKS: Final = 1_000


class Changes:
    """The last look, and what has changed since."""

    def __init__(self, directory: Directory, chronicler: Chronicler) -> None:
        self._directory = directory
        self._chronicler = chronicler
        #: By node: how it was. None: nobody has looked yet.
        self._nodes: dict[str, str] | None = None
        self._living: set[str] = set()
        self._empty: set[str] = set()
        self._panic: set[str] = set()
        #: Which services of which nodes were marked from here, and until when.
        self._marks: dict[tuple[str, str], int] = {}
        #: By node that was lost a moment ago: when, and what it had.
        self._lost: dict[str, tuple[int, list[tuple[str, int]]]] = {}

    def marked(self, node_id: str, service: str, until_ms: int) -> None:
        """A service was marked: it is told, and so is the end of it."""
        left_s = max(0, until_ms - self._chronicler.now_ms) / 1000
        said = f"{service or 'the whole node'}: MODEL_NOT_AVAILABLE, for {left_s:.0f} s"
        self._chronicler.note("node_marked", node_id, said)
        if len(self._marks) < _MAX_MARKS:
            self._marks[node_id, service] = until_ms

    async def lost(self, event: Event) -> None:
        """A node was lost: what becomes of its jobs is told a moment later."""
        if len(self._lost) >= _MAX_LOST:
            return
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            node = await self._read(event.node)
            if not isinstance(node, Refusal) and node.fenced:
                self._lost[event.node] = event.at_ms, node.fenced

    async def see(self, fleet: Fleet) -> None:
        """Compare with the last look. The first one tells nothing: nobody knows how it was before."""
        is_first = self._nodes is None
        changed = self._compare_nodes(fleet)
        self._compare_pairs(fleet, is_first=is_first)
        for state, names in changed.items():
            await self._tell_nodes(state, names, fleet.now_ms)
        await self._end_marks(fleet.now_ms)
        for node_id, (at_ms, attempts) in list(self._lost.items()):
            if fleet.now_ms - at_ms >= _MOVED_MS:
                del self._lost[node_id]
                self._chronicler.note("node_jobs_moved", node_id, await self._what_became(at_ms, attempts))

    def _compare_nodes(self, fleet: Fleet) -> dict[str, list[tuple[str, str]]]:
        """By how they are now: which nodes were otherwise, and how. Who is under suspicion is not well for that."""
        is_first, before, now = self._nodes is None, self._nodes or {}, {}
        changed: dict[str, list[tuple[str, str]]] = {}
        for node in fleet.nodes:
            was = before.get(node.node_id, "well")
            now[node.node_id] = state = _STATES.get(node.standing, was)
            # That a node is lost, its cell tells.
            if state not in {was, "lost"} and not is_first:
                told = "suspect" if state == "well" and node.is_suspect else state
                changed.setdefault(told, []).append((node.node_id, was))
        self._nodes = now
        return changed

    async def _tell_nodes(self, state: str, names: list[tuple[str, str]], now_ms: int) -> None:
        if state == "well":
            for node_id, was in names:
                self._chronicler.note("node_healed", node_id, f"it was {was}", at_ms=now_ms, seen=True)
        elif state == "suspect":
            for node_id, was in names:
                said = f"it was {was}, and is still suspect"
                self._chronicler.note("node_suspect", node_id, said, at_ms=now_ms, seen=True)
        elif state == "silent":
            for part in range(0, len(names), _AT_ONCE):
                few = [node_id for node_id, _ in names[part : part + _AT_ONCE]]
                told = await asyncio.gather(*(self._silence(node_id, now_ms) for node_id in few))
                for node_id, said in zip(few, told, strict=True):
                    self._chronicler.note("node_silent", node_id, said, at_ms=now_ms, seen=True)

    async def _silence(self, node_id: str, now_ms: int) -> str:
        node = await self._read(node_id)
        if isinstance(node, Refusal):
            return ""
        return f"nothing was heard of it for {max(now_ms - node.record.seen_at_ms, 0) / 1000:.0f} s"

    async def _what_became(self, lost_at_ms: int, attempts: list[tuple[str, int]]) -> str:
        """How many jobs have another attempt, and how soon they had it; the others wait, or have ended."""
        engine = self._directory.engine
        jobs = await asyncio.gather(*(read_job(engine, job_id) for job_id, _ in attempts))
        after_ms = [
            max(0, job.record.reserved_at_ms - lost_at_ms)
            for (_, attempt), job in zip(attempts, jobs, strict=True)
            if not isinstance(job, Refusal) and job.record.attempt > attempt
        ]
        soon = f" within {max(after_ms)} ms" if after_ms else ""
        return f"{len(after_ms)} of its {len(attempts)} jobs went to others{soon}"

    def _compare_pairs(self, fleet: Fleet, *, is_first: bool) -> None:
        pools = {pool.pair: pool for pool in fleet.pools}
        living = {pool.pair for pool in fleet.pools if pool.living}
        panic = {pool.pair for pool in fleet.pools if _is_panic(pool)}
        # Where nobody is given jobs any more, nobody was trusted again.
        panic |= {pool.pair for pool in fleet.pools if pool.pair in self._panic and not pool.living}
        if is_first:
            self._empty = pools.keys() - living
            self._living, self._panic = living, panic
            return
        # Of a pair that nobody served before it is not told that it is served: its nodes are new, and told of.
        self._tell_pairs("pair_empty", self._living - living, fleet.now_ms, pools, _who_is_left)
        self._tell_pairs("pair_served", self._empty & living, fleet.now_ms, pools, _who_lives)
        self._tell_pairs("pair_panic", panic - self._panic, fleet.now_ms, pools, _who_is_suspect)
        self._tell_pairs("pair_calm", self._panic - panic, fleet.now_ms, pools, _who_is_suspect)
        self._empty = (self._empty | self._living) - living
        self._living, self._panic = living, panic

    def _tell_pairs(
        self, kind: str, pairs: set[str], now_ms: int, pools: dict[str, Pool], why: Callable[[Pool], str]
    ) -> None:
        for pair in sorted(pairs):
            said = why(pools[pair]) if pair in pools else "its nodes have left"
            self._chronicler.note(kind, pair, said, at_ms=now_ms, seen=True)

    async def _end_marks(self, now_ms: int) -> None:
        over = [marked for marked, until_ms in self._marks.items() if now_ms >= until_ms]
        for node_id, service in over:
            node = await self._read(node_id)
            marks = [] if isinstance(node, Refusal) else node.profile.marks
            until_ms = max((mark.until_ms for mark in marks if mark.service == service), default=0)
            if until_ms > now_ms:
                self._marks[node_id, service] = until_ms
                continue
            del self._marks[node_id, service]
            if not isinstance(node, Refusal):
                self._chronicler.note("node_unmarked", node_id, service or "the whole node", at_ms=now_ms)

    async def _read(self, node_id: str) -> Node | Refusal:
        engine = self._directory.engine
        return await self._directory.at_home(node_id, lambda cell: read_node(engine, cell, node_id))


def _is_panic(pool: Pool) -> bool:
    """Whether more of its living nodes are suspect than not.

    The cell judges so, too, but trusts a suspect while it may be tried with a job. That is every few seconds, and
    nobody is well again for it: here it is suspect until it has shown that it works.
    """
    return pool.suspects > pool.living - pool.suspects


def _who_is_suspect(pool: Pool) -> str:
    return f"{pool.suspects} of its {pool.living} living nodes are suspect"


def _who_lives(pool: Pool) -> str:
    return f"{pool.living} of its {pool.nodes} nodes are given jobs"


def _who_is_left(pool: Pool) -> str:
    """How the nodes of a pair stand, none of which is given jobs."""
    return f"its nodes: {', '.join(stand_of(pool.standing))}"
