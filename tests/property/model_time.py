"""What time does to a cell, in the model: the sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.core.records import FORGET_FROM
from lingua_scheduler.flows.reap import Settled
from tests.property.model_life import SERVED_PER_VISIT, JobLife

if TYPE_CHECKING:
    from tests.property.facts import JobFacts
    from tests.property.model_cell import LeaseId


class Sweep(JobLife):
    """Looks at what is overdue, in order."""

    def settle(self, limit: int) -> tuple[int, bool]:
        """At most `limit` entries; what one settles may settle another. How many, and whether more are due."""
        settled = moved = 0
        for member in self.overdue()[:limit]:
            if settled + moved >= limit:
                break
            if self.due().get(member, self.now + 1) > self.now:
                continue
            kind, name = member[0], member[2:]
            if kind == "j":
                self._look_at_job(self.jobs[name])
            elif kind == "n":
                moved += self._look_at_node(name, limit - settled - moved)
            elif kind == "w":
                self._look_for_nodes(name)
            elif kind == "r":
                self.nodes[name].serves_on_at = 0
                self.looked.add(name)
            else:
                node_id, job_id, attempt = name.split(":")
                self._look_at_lease((node_id, job_id, int(attempt)))
            self.serve()
            settled += 1
        return settled, bool(self.overdue())

    def reap(self, cell: str, limit: int) -> Settled:  # noqa: ARG002 - as the flow is called
        settled, more = self.settle(limit)
        forgotten = self._forgettable()[:limit]
        for member in forgotten:
            if member[0] == "i":
                del self.intents[member[2:]]
            else:
                self._forget_job(self.jobs[member[2:]])
        return Settled(settled + len(forgotten), more or bool(self._forgettable()))

    def _forgettable(self) -> list[str]:
        due = sorted((at, member) for member, at in self.due().items() if at >= FORGET_FROM)
        return [member for at, member in due if at <= FORGET_FROM + self.now]

    def _forget_job(self, job: JobFacts) -> None:
        kept_until = job.ended_at + self.rules.job_record_ttl_ms
        if job.released_at:
            kept_until = job.released_at + self.rules.released_ttl_ms
        job.erased = True
        if self.now >= kept_until:
            del self.jobs[job.ticket.job]

    def _look_at_job(self, job: JobFacts) -> None:
        if self.now >= job.deadline_at:
            self.end_early(job, "EXPIRED", "expired", "deadline")
        elif job.accepted and self.now < job.accepted_at + job.ticket.run_ms:
            job.watched, job.held_until = True, 0
        elif not job.accepted and self.now < job.reserved_at + job.ticket.ack_ms:
            job.looked_at, job.held_until = self.now, 0
        elif self.nodes[job.node].away_until and not self.nodes[job.node].lost_at:
            job.held_until = max(self.nodes[job.node].away_until, self.now)
        else:
            cause = "run_timeout" if job.accepted else "ack_timeout"
            self.move_on(job, cause, cause)

    def _look_for_nodes(self, need: str) -> None:
        """Those who wait with a fallback, in order, until there is no node for the next."""
        waiting = [job for job in self.queue() if job.need == need]
        for job in waiting[:SERVED_PER_VISIT]:
            if not self.place(job):
                self.looks[need] = self.now + self.rules.fallback_poll_ms
                return
        if len(waiting) > SERVED_PER_VISIT:
            self.looks[need] = self.now

    def _look_at_lease(self, lease: LeaseId) -> None:
        """A node has not confirmed in time. One that could have told is not trusted; one that cannot tell is."""
        node_id, job_id, attempt = lease
        node = self.nodes[node_id]
        if node.tells:
            node.cut_off = True
            self.leases[lease].until = None
            self.judge(node_id)
        else:
            self.unfence(lease)
        self.post("cut_off" if node.tells else "forgiven", job_id, attempt, node_id, node.epoch, "")

    def _look_at_node(self, node_id: str, limit: int) -> int:
        """How many of its attempts were moved, at most `limit`."""
        node, now = self.nodes[node_id], self.now
        if not node.lost_at:
            if now < (node.away_until or node.seen_at + self.rules.offline_ms):
                self.judge(node_id)
                self.watch(node_id)
                return 0
            node.lost_at = now
            self.post("lost", "", 0, node_id, node.epoch, "")
        self.judge(node_id)
        moved = min(limit, len(self.leases_of(node_id, fenced=False)))
        more = self.take_away(node_id, "lost_early", "lost", limit)
        if not more and now >= node.lost_at + self.rules.node_record_ttl_ms:
            self.forget(node_id)
        else:
            self.watch(node_id)
        return moved
