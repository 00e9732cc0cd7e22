"""Which node was told of which job from here, and has not been heard of since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lingua_scheduler.front.assignment import Errand

#: So many errands, and nodes without a socket, are remembered. The oldest are forgotten first.
MAX_REMEMBERED: Final = 100_000


class Errands:
    """What was carried to nodes from here, by job: its latest attempt."""

    def __init__(self) -> None:
        self._by_job: dict[str, Errand] = {}

    def __len__(self) -> int:
        return len(self._by_job)

    def add(self, errand: Errand) -> None:
        """A node has been told."""
        self._by_job.pop(errand.job_id, None)
        self._by_job[errand.job_id] = errand
        if len(self._by_job) > MAX_REMEMBERED:
            del self._by_job[next(iter(self._by_job))]

    def get(self, job_id: str, node_id: str) -> Errand | None:
        """The errand of this node with this job, if it is the latest."""
        errand = self._by_job.get(job_id)
        return errand if errand is not None and errand.node_id == node_id else None

    def has(self, job_id: str) -> bool:
        """Whether a node was told of it, and nobody has heard yet that it is over."""
        return job_id in self._by_job

    def of_node(self, node_id: str) -> list[Errand]:
        """All that a node has, as far as is known here."""
        return [errand for errand in self._by_job.values() if errand.node_id == node_id]

    def drop(self, job_id: str, attempt_id: int, node_id: str = "") -> None:
        """That attempt, or an older one, is over; by the word of a node, only if it is that node's."""
        errand = self._by_job.get(job_id)
        if errand is not None and errand.attempt_id <= attempt_id and node_id in {"", errand.node_id}:
            del self._by_job[job_id]
