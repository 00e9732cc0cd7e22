"""How a job gets a node, loses it, gets another and ends, in the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.records import PastAttempt, Standing
from tests.property.facts import CAUSE, Lease
from tests.property.model_cell import CellFacts, LeaseId

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.property.facts import JobFacts

#: How many attempts of a lost node one look moves on.
MOVED_PER_LOOK: Final = 64


class JobLife(CellFacts):
    """The table of DESIGN section 3: what ends an attempt, what that costs, and what comes next."""

    # Choosing.

    def pool(self, ticket_pair: str, fallback: str) -> list[int]:
        """The groups that serve a job: its own pair's, or the fallback's while nobody alive is in its own pool."""

        def serving(pair: str) -> list[int]:
            numbers = {group: capability[0] for capability, group in self.groups.items()}
            found: list[int] = []
            for wanted in (pair, pair.partition(":")[0] + ":*"):
                found += sorted(g for g, served in numbers.items() if isinstance(served, tuple) and wanted in served)
            return found

        own = serving(ticket_pair)
        alive = any(self.standing(n) != Standing.stale for n in self.nodes if self.group(n) in own)
        if alive or not fallback:
            return own
        return serving(fallback) or own

    def free(self, groups: list[int]) -> list[str]:
        """Who can be chosen, in the order of the index."""
        return [n for group in groups for n in self.members(group) if self.standing(n) == Standing.available]

    def choose(self, job: JobFacts, groups: list[int]) -> str | None:
        """Of two random ones the less loaded; none that had the job before while another can."""
        had = {past.node for past in job.history}
        everybody = self.free(groups)
        candidates = [node_id for node_id in everybody if node_id not in had] or everybody
        if not candidates:
            return None
        first = candidates.pop(self._draw(job, len(candidates)))
        if not candidates:
            return first
        second = candidates[self._draw(job, len(candidates))]
        return min((first, second), key=lambda n: self.used(n) / self.nodes[n].max)

    @staticmethod
    def _draw(job: JobFacts, n: int) -> int:
        job.seed = (job.seed * 1664525 + 1013904223) % 2**32
        return job.seed * n // 2**32

    def reserve(self, job: JobFacts, node_id: str) -> None:
        """Take a slot. A number that the node claims to work on already is passed over."""
        node = self.nodes[node_id]
        job.attempt += 1
        while (node_id, job.ticket.job, job.attempt) in self.leases:
            job.attempt += 1
        self.leases[node_id, job.ticket.job, job.attempt] = Lease()
        job.node, job.epoch, job.acks = node_id, node.epoch, node.acks
        job.reserved_at = self.now
        job.dispatched_at = job.accepted_at = job.started_at = 0

    # Ending an attempt.

    def fence(self, lease: LeaseId) -> None:
        """The node may still be at work on it: the slot stays taken."""
        self.leases[lease] = Lease(self.now, self.now + self.rules.limbo_ttl_ms)

    def unfence(self, lease: LeaseId) -> None:
        """The node is done with a fenced attempt. A lost one that was heard of since, and is done with all, is back."""
        node_id = lease[0]
        del self.leases[lease]
        node = self.nodes[node_id]
        if node.lost_at and node.seen_at > node.lost_at and not self.leases_of(node_id, fenced=True):
            node.lost_at = 0
            self.watch(node_id)
        self.judge(node_id)

    def confirm(self, node_id: str, job_id: str, attempt: int) -> None:
        """A word that shows that a node is done with an attempt, should it be a fenced one."""
        lease = (node_id, job_id, attempt)
        if lease in self.leases and self.leases[lease].fenced_at is not None:
            self.unfence(lease)

    def close(self, job: JobFacts, cause: str, told: State) -> None:
        lease = (job.node, job.ticket.job, job.attempt)
        if CAUSE[cause].lease == "limbo":
            self.fence(lease)
            self.post("fenced", job.ticket.job, job.attempt, job.node, job.epoch, cause)
        else:
            del self.leases[lease]
        job.history.append(PastAttempt(job.attempt, job.node, cause, self.now, told))

    def move_on(self, job: JobFacts, cause: str, reason: str) -> State:
        """The attempt failed. The job goes to another node, or ends; says which."""
        told, why = self._verdict(job, cause, reason)
        self.close(job, cause, told)
        if told == "RETRYING":
            self.place(job)
        else:
            job.reason = why
            self.finish(job, told, why, self.rules.result_ttl_ms)
        return told

    def _verdict(self, job: JobFacts, cause: str, reason: str) -> tuple[State, str]:
        if self.now >= job.deadline_at:
            return "EXPIRED", "deadline"
        job.history.append(PastAttempt(job.attempt, job.node, cause, self.now, "RETRYING"))
        lost, undelivered, tries = job.number_of("lost"), job.number_of("undelivered"), job.tries(self.rules)
        job.history.pop()
        if lost >= self.rules.max_lost:
            return "FAILED", "poison"
        if tries > job.ticket.max_retry or undelivered > self.rules.max_undelivered:
            return "FAILED", reason
        return "RETRYING", reason

    def place(self, job: JobFacts) -> None:
        """Give a job without a node its next one, if there is one."""
        node_id = self.choose(job, self.pool(job.ticket.pair, job.ticket.fallback))
        if node_id is None:
            job.looked_at = self.now
        else:
            self.reserve(job, node_id)
            self.post("reserved", job.ticket.job, job.attempt, node_id, job.epoch, "")

    # Ending a job.

    def finish(self, job: JobFacts, end: State, detail: str, text_ttl_ms: int) -> None:
        job.end, job.ended_at, job.text_until = end, self.now, self.now + text_ttl_ms
        self.counts[end] += 1
        self.post("ended", job.ticket.job, job.attempt, job.node, job.epoch, detail)

    def end_early(self, job: JobFacts, end: State, cause: str, reason: str) -> None:
        """Cancelled, or out of time: what it holds is fenced."""
        if job.live:
            self.close(job, cause, end)
        job.reason = reason
        self.finish(job, end, reason, self.rules.result_ttl_ms)

    # Nodes that lose their work.

    def take_away(self, node_id: str, early: str, late: str, limit: int | None = None) -> bool:
        """Its current attempts end, at most `limit` of them; says whether more are left."""
        live = self.leases_of(node_id, fenced=False)
        for _, job_id, _ in live[:limit]:
            job = self.jobs[job_id]
            cause = late if job.accepted else early
            self.move_on(job, cause, cause)
        return limit is not None and len(live) > limit

    def forget(self, node_id: str) -> None:
        for lease in self.leases_of(node_id):
            del self.leases[lease]
        del self.nodes[node_id]
        self.regroup()
