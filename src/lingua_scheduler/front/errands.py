"""Which node was told of which job from here, or brought it along, and has not been heard of since."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.front.assignment import Errand

#: So many errands are remembered. The oldest are forgotten first.
MAX_REMEMBERED: Final = 100_000


class Errands:
    """What nodes have of which this instance knows, by job: its latest attempt."""

    def __init__(self, now: Callable[[], int]) -> None:
        """`now`: the engine's time."""
        self._now = now
        self._by_job: dict[str, Errand] = {}
        #: The jobs of each node, in the order in which it was told of them.
        self._by_node: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._by_job)

    def add(self, errand: Errand) -> None:
        """A node has been told."""
        self._remove(errand.job_id)
        self._by_job[errand.job_id] = errand
        self._by_node.setdefault(errand.node_id, {})[errand.job_id] = None
        self._forget()

    def _forget(self) -> None:
        """How some of them ended was told elsewhere: when its time is over, a job is.

        Two at a time: more than are added, and it never takes long.
        """
        now = self._now()
        for errand in list(islice(self._by_job.values(), 2)):
            if errand.deadline_ms <= now or len(self._by_job) > MAX_REMEMBERED:
                self._remove(errand.job_id)

    def _remove(self, job_id: str) -> None:
        errand = self._by_job.pop(job_id, None)
        if errand is None:
            return
        jobs = self._by_node[errand.node_id]
        del jobs[job_id]
        if not jobs:
            del self._by_node[errand.node_id]

    def get(self, job_id: str, node_id: str) -> Errand | None:
        """The errand of this node with this job, if it is the latest."""
        errand = self._by_job.get(job_id)
        return errand if errand is not None and errand.node_id == node_id else None

    def has(self, job_id: str) -> bool:
        """Whether a node was told of it, and nobody has heard yet that it is over."""
        return job_id in self._by_job

    def of_node(self, node_id: str) -> list[Errand]:
        """All that a node has, as far as is known here."""
        return [self._by_job[job_id] for job_id in self._by_node.get(node_id, ())]

    def drop(self, job_id: str, attempt_id: int, node_id: str = "") -> None:
        """That attempt, or an older one, is over; by the word of a node, only if it is that node's."""
        errand = self._by_job.get(job_id)
        if errand is not None and errand.attempt_id <= attempt_id and node_id in {"", errand.node_id}:
            self._remove(job_id)

    def drop_node(self, node_id: str) -> None:
        """The node speaks to another instance from now on: how its errands end is heard there."""
        for job_id in list(self._by_node.get(node_id, ())):
            self._remove(job_id)
