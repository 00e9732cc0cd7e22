"""How a job gets a node, loses it, gets another and ends, in the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.records import PastAttempt, Standing
from tests.property.facts import CAUSE, Lease
from tests.property.model_cell import CellFacts, LeaseId

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from lingua_scheduler.core.records import Rules
    from tests.property.facts import JobFacts

#: How many who wait are served at a time.
SERVED_PER_VISIT: Final = 64


class JobLife(CellFacts):
    """The table of DESIGN section 3: what ends an attempt, what that costs, and what comes next."""

    def __init__(self, cell: str, rules: Rules, now: int) -> None:
        super().__init__(cell, rules, now)
        #: Who had room when those who wait were last served, and at which node somebody looked since.
        self.had_room: set[tuple[str, int]] = set()
        self.looked: set[str] = set()

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
        job.reserved_at = job.looked_at = self.now
        job.dispatched_at = job.accepted_at = job.started_at = 0
        job.watched = False
        job.held_until = 0

    # Ending an attempt.

    def fence(self, lease: LeaseId) -> None:
        """The node may still be at work on it: the slot stays taken."""
        self.leases[lease] = Lease(self.now, self.now + self.rules.limbo_ttl_ms)

    def unfence(self, lease: LeaseId) -> None:
        """The node is done with a fenced attempt. A lost one that was heard of since, and is done with all, is back."""
        node_id = lease[0]
        del self.leases[lease]
        if self.come_back(node_id):
            self.watch(node_id)
        self.judge(node_id)

    def come_back(self, node_id: str) -> bool:
        """Lost in silence, heard of since, and done with all that was fenced: it is back."""
        node = self.nodes[node_id]
        heard = node.lost_at and node.seen_at >= node.lost_at and not node.away_until
        if heard and not self.leases_of(node_id, fenced=True):
            node.lost_at = 0
            return True
        return False

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
        self.counts[f"attempt.{cause}"] += 1
        following = job.attempt + (told == "RETRYING")
        job.history.append(PastAttempt(job.attempt, job.node, cause, self.now, told, following))

    def move_on(self, job: JobFacts, cause: str, reason: str) -> State:
        """The attempt failed. The job goes to another node, or ends; says which."""
        told, why = self._verdict(job, cause, reason)
        self.close(job, cause, told)
        if told == "RETRYING":
            number = len(job.history)
            self.place_again(job)
            if job.live:
                job.history[number - 1] = msgspec.structs.replace(job.history[number - 1], next_attempt=job.attempt)
        else:
            job.reason = why
            self.finish(job, told, why, self.rules.result_ttl_ms)
        return told

    def _verdict(self, job: JobFacts, cause: str, reason: str) -> tuple[State, str]:
        if self.now >= job.deadline_at:
            return "EXPIRED", "deadline"
        job.history.append(PastAttempt(job.attempt, job.node, cause, self.now, "RETRYING", 0))
        lost, undelivered, tries = job.number_of("lost"), job.number_of("undelivered"), job.tries(self.rules)
        job.history.pop()
        if lost >= self.rules.max_lost:
            return "FAILED", "poison"
        if tries > job.ticket.max_retry or undelivered > self.rules.max_undelivered:
            return "FAILED", reason
        return "RETRYING", reason

    def place(self, job: JobFacts) -> bool:
        """Give a job without a node its next one, if there is one."""
        seed = job.seed
        node_id = self.choose(job, self.pool(job.ticket.pair, job.ticket.fallback))
        if node_id is None or self.nodes[node_id].serves_on_at:
            job.seed = seed
            return False
        self.assign(job, node_id)
        return True

    def assign(self, job: JobFacts, node_id: str) -> None:
        job.waits = False
        self.counts["attempt.again"] += 1
        self.reserve(job, node_id)
        self.post("reserved", job.ticket.job, job.attempt, node_id, job.epoch, "")
        self.forget_looks()

    # Waiting.

    def place_again(self, job: JobFacts) -> None:
        """After those who already wait; where there is no node, with them."""
        self.serve()
        if self.place(job):
            return
        job.waits = True
        if job.ticket.fallback:
            self.looks.setdefault(job.need, self.now + self.rules.fallback_poll_ms)

    def forget_looks(self) -> None:
        """Nobody looks for those who do not wait."""
        needs = {job.need for job in self.queue()}
        self.looks = {need: at for need, at in self.looks.items() if need in needs}

    def serve(self) -> None:
        """Nodes that came to have room since the last time take those who wait for them, by deadline."""
        free = {(node_id, self.group(node_id)) for node_id in self.free(list(self.groups.values()))}
        woken = {node_id for node_id, _ in free - self.had_room} | set(self.looked)
        self.looked.clear()
        limit = SERVED_PER_VISIT
        for node_id in sorted(woken):
            while node_id in self.nodes and self.standing(node_id) == Standing.available:
                waiting = [job for job in self.queue() if self.group(node_id) in self._pool_of(job)]
                if not waiting:
                    break
                if limit == 0:
                    self.nodes[node_id].serves_on_at = self.now
                    break
                limit -= 1
                self.assign(min(waiting, key=lambda job: (job.deadline_at, job.ticket.job)), node_id)
        self.had_room = {(node_id, self.group(node_id)) for node_id in self.free(list(self.groups.values()))}

    def _pool_of(self, job: JobFacts) -> list[int]:
        return self.pool(job.ticket.pair, job.ticket.fallback)

    # Ending a job.

    def finish(self, job: JobFacts, end: State, detail: str, text_ttl_ms: int) -> None:
        job.end, job.ended_at, job.text_until = end, self.now, self.now + text_ttl_ms
        self.counts[end] += 1
        self.post("ended", job.ticket.job, job.attempt, job.node, job.epoch, detail)

    def end_early(self, job: JobFacts, end: State, cause: str, reason: str) -> None:
        """Cancelled, or out of time: what it holds is fenced."""
        if job.live:
            self.close(job, cause, end)
        job.waits = False
        job.reason = reason
        self.finish(job, end, reason, self.rules.result_ttl_ms)
        self.forget_looks()

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
        intent = self.nodes.pop(node_id).intent
        if intent != "active":
            self.intents[node_id] = (intent, self.now + self.rules.intent_ttl_ms)
        self.regroup()
