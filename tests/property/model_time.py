"""What time does to a cell, in the model: the sweep."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.records import FORGET_FROM, Standing
from lingua_scheduler.core.refusal import Breakdown
from lingua_scheduler.flows.reap import Settled
from tests.property.model_life import JobLife

if TYPE_CHECKING:
    from tests.property.facts import JobFacts, NodeFacts
    from tests.property.model_cell import LeaseId

#: What no time will mend.
NEVER: Final = ("unknown", "no_pool", "no_service", "fallback", "not_permitted")

#: A refusal as it travels: the code, and what is said with it.
Told = list[str | int]


class Sweep(JobLife):
    """Looks at what is overdue, in order."""

    #: Whether it is rather we who do not hear, if that was asked in this run of a script.
    is_deaf: bool | None = None

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
            elif kind == "m":
                node = self.nodes[name]
                node.marks = {service: mark for service, mark in node.marks.items() if mark.until_ms > self.now}
                self.regroup()
            elif kind == "f":
                self.falls_on_at = 0
                self.stood["nobody"] = 0
            elif kind == "r":
                self.nodes[name].serves_on_at = 0
                self.looked.add(name)
            else:
                node_id, job_id, attempt = name.split(":")
                self._look_at_lease((node_id, job_id, int(attempt)))
            moved += self.serve()
            settled += 1
        return settled, bool(self.overdue())

    def reap(self, cell: str, limit: int) -> Settled:  # noqa: ARG002 - as the flow is called
        settled, more = self.settle(limit)
        forgotten = self._forgettable()[:limit]
        for member in forgotten:
            if member[0] == "i":
                del self.intents[member[2:]]
            elif member[0] == "n":
                self.forget(member[2:])
            else:
                self._forget_job(self.jobs[member[2:]])
        return Settled(settled + len(forgotten), more or bool(self._forgettable()))

    def _forgettable(self) -> list[str]:
        due = sorted((at, member) for member, at in self.due().items() if at >= FORGET_FROM)
        return [member for at, member in due if at % FORGET_FROM <= self.now]

    def _forget_job(self, job: JobFacts) -> None:
        kept_until = job.ended_at + self.rules.job_record_ttl_ms
        if job.released_at:
            kept_until = job.released_at + self.rules.released_ttl_ms
        job.erased = True
        if self.now >= kept_until:
            del self.jobs[job.ticket.job]

    def _look_at_job(self, job: JobFacts) -> None:
        if job.waits and not job.attempt:
            told = self.named_in_vain(job) or self.refused(job)
            detail = " ".join(map(str, [self.now - job.created_at, *told]))
            self.post("refused", job.ticket.job, 0, "", "", detail)
            self.count_refusal(told)
            self.counts["refused.waited"] += 1
            del self.jobs[job.ticket.job]
        elif self.now >= job.deadline_at:
            self.end_early(job, "EXPIRED", "expired", "deadline")
        elif job.accepted and self.now < job.accepted_at + job.ticket.run_ms:
            job.watched, job.held_until = True, 0
        elif not job.accepted and self.now < job.reserved_at + job.ticket.ack_ms:
            job.looked_at, job.held_until = self.now, 0
        elif (node := self.nodes[job.node]).away_until and not node.lost_at and not node.unheard:
            job.held_until = max(node.away_until, self.now)
        else:
            unheard = "ack_timeout" if job.dispatched_at else "unsent"
            cause = "run_timeout" if job.accepted else unheard
            self.move_on(job, cause, cause)

    def _is_mass_silence(self) -> bool:
        """More than half of a fleet went silent at once: nobody is given up, and somebody is told once a minute."""
        if self.is_deaf is None:
            there = [node for node in self.nodes.values() if not node.lost_at]
            silent = len([node for node in there if self._is_quiet(node)])
            heard = len(there) - silent
            self.is_deaf = silent > heard and len(there) >= self.rules.mass_silence_nodes
            if self.is_deaf and self.now >= self.counts["silence"] + 60_000:
                self.counts["silence"] = self.now
                self.post("mass_silence", "", silent, "", "", str(heard))
        return self.is_deaf

    def _is_quiet(self, node: NodeFacts) -> bool:
        """Whether it was not heard for so long that it may be one of many."""
        return node.unheard if node.away_until else self.now - node.seen_at >= self.rules.stale_ms * 2 / 3

    def count_refusal(self, told: Told) -> None:
        empty = told[0] == "NO_CAPABLE_NODE" and not told[3]
        self.counts["refused.pool_empty" if empty else f"refused.{told[0]}"] += 1

    def named_in_vain(self, job: JobFacts) -> Told:
        """A job that names a node which could never have it, or insists on one that cannot have it now."""
        named = job.wanted.preferred_node_id
        why = self.why_not(named, job, named=True) if named else ""
        if why in NEVER:
            return ["PREFERRED_NODE_NOT_CAPABLE"]
        return ["PREFERRED_NODE_UNAVAILABLE", why] if why and job.wanted.strict else []

    def refused(self, job: JobFacts) -> Told:
        """Nobody in its pool can have it now; or nobody ever could."""
        pairs = [pair for pair in (job.ticket.pair, job.ticket.fallback) if pair]
        if job.wanted.preferred_node_id or any(self.suited(pair, job, marked=True) for pair in pairs):
            return ["ALL_CANDIDATES_FULL_OR_FAILED", *msgspec.structs.astuple(self.breakdown(job))]
        src, tgt = job.ticket.pair.split(":")
        served = [other.split(":") for node in self.nodes.values() for other in node.pairs]
        takes = any(source == src for source, _ in served)
        gives = any(target in {tgt, "*"} for _, target in served)
        serving = [node for node in self.nodes.values() if node.serves(job.ticket.pair)]
        lacks = job.ticket.needs
        for node in serving:
            lacks &= node.lacks(tgt)
        return ["NO_CAPABLE_NODE", int(takes), int(gives), len(serving), lacks]

    def breakdown(self, job: JobFacts) -> Breakdown:
        """Why nobody in a job's pool can take it: each node once, under its first reason."""
        pair, wanted = self.pair_for(job), job.wanted
        found: Counter[str] = Counter()
        for node_id in [node_id for node_id, node in self.nodes.items() if node.serves(pair)]:
            named = node_id == wanted.preferred_node_id
            found["pool"] += 1
            if node_id in wanted.exclude_node_ids:
                found["excluded"] += 1
            elif self.group(node_id) not in self.pool(job, named=True, marked=True):
                found["no_service"] += 1
            elif self.group(node_id) not in self.pool(job, named=named, marked=True):
                found["not_permitted"] += 1
            elif self.group(node_id) not in self.pool(job, named=named):
                found["marked"] += 1
            elif self.standing(node_id) > Standing.suspect:
                name = self.standing(node_id).name
                found[{"suspect_full": "full", "lost": "stale"}.get(name, name)] += 1
        return Breakdown(**found)

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
            silent = self.standing(node_id) == Standing.stale
            over_at = node.seen_at + self.rules.offline_ms
            if now < (node.away_until or over_at) or not (node.away_until or silent):
                self.judge(node_id)
                self.watch(node_id)
                if self.standing(node_id) == Standing.suspect and now >= node.probe_at:
                    self.looked.add(node_id)
                if now >= over_at and not node.away_until:
                    node.unfinished_at = now
                return 0
            if not node.away_until or node.unheard:
                if now < (node.away_until or over_at) + self.rules.mass_silence_ms and self._is_mass_silence():
                    node.unfinished_at = now + 1_000
                    return 0
                node.gone_at += (now,)
            self.blame(node_id, "lost")
            node.lost_at = now
            self.post("lost", "", 0, node_id, node.epoch, "silent" if node.unheard or not node.away_until else "closed")
        self.judge(node_id)
        moved = min(limit, len(self.leases_of(node_id, fenced=False)))
        self.take_away(node_id, "lost_early", "lost", limit)
        self.watch(node_id)
        return moved
