"""The flows about jobs, in the model: what each is answered, and what it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.needs import needs_of
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.records import HEARD_STEP_MS, Choice, Event, PastAttempt, Standing, Ticket
from lingua_scheduler.core.refusal import Breakdown, Refusal, refuse
from lingua_scheduler.core.wanted import Hints, Policy, Wanted, wishes_of
from lingua_scheduler.flows.attempts import Delivered, Moved
from lingua_scheduler.flows.dispatch import Incapable, Placed, Waiting
from lingua_scheduler.flows.fail import Failed
from lingua_scheduler.flows.relay import Taken
from lingua_scheduler.flows.release import Released
from lingua_scheduler.flows.stopped import Stopped
from tests.property.facts import JobFacts
from tests.property.model_time import Sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.property.model_time import Told

#: How many overdue entries a dispatch settles in one run.
SETTLED_PER_DISPATCH: Final = 64


def no(code: str, breakdown: Breakdown | None = None) -> Refusal:
    return Refusal(code, "", breakdown)


class JobFlows(Sweep):
    """dispatch, deliver, ack, started, stopped, done, fail, cancel, release, relay."""

    #: How often a dispatch found more overdue than one run settles.
    behind = 0

    def dispatch(
        self,
        job_id: str,
        session_id: str,
        src_lang: str,
        tgt_lang: str,
        *,
        body: str = "",
        utterance_index: int = 0,
        trace_id: str = "",
        limits: Limits = Limits(),  # noqa: B008 - frozen
        wanted: Wanted = Wanted(),  # noqa: B008
        hints: Hints = Hints(),  # noqa: B008
        seed: int = 0,
    ) -> Placed | Waiting | Refusal:
        while self.overdue() and self.settle(SETTLED_PER_DISPATCH)[1]:
            self.behind += 1
            self.is_deaf = None
        known = self.jobs.get(job_id)
        if known and known.state == "WAITING":
            return self._waiting(known)
        if known:
            return Placed(known.state, known.node, known.epoch, known.attempt, int(known.acks))
        pair = Pair.of(src_lang, tgt_lang)
        ticket = Ticket(
            job=job_id,
            session=session_id,
            utterance=utterance_index,
            pair=str(pair),
            fallback="" if wanted.two_way else str(pair.fallback() or ""),
            ack_ms=limits.ack_ms,
            run_ms=limits.run_ms,
            timeout_ms=limits.timeout_ms,
            max_retry=limits.max_retry,
            seed=seed,
            trace=trace_id,
            needs=needs_of(wanted.services),
            policy=Policy[wanted.policy],
            wait_ms=min(wanted.wait_ms, limits.timeout_ms),
            wishes=wishes_of(wanted, hints, pair),
        )
        job = JobFacts(ticket, self.now, seed, wanted, hints, payload=body)
        told = self.named_in_vain(job)
        node_id, choice = ("", Choice()) if told else self.choose(job)
        if {"panic", "suspect"} & {*choice.reasons}:
            # Those who wait and had this suspect may have it by now, and come first.
            self.looked.add(node_id)
            if self.serve():
                node_id, choice = self.choose(job)
        if node_id:
            self.jobs[job_id] = job
            self.reserve(job, node_id, choice)
            self.counts["accepted"] += 1
            sticks = ticket.policy == Policy.sticky_pool
            pool = dict(self.nodes[node_id].word.labels).get("group", "") if sticks else ""
            return Placed("RESERVED", node_id, job.epoch, job.attempt, int(job.acks), pool, True, job.deadline_at)
        told = told or self.named_in_vain(job) or self.refused(job)
        capable = told[0] not in {"NO_CAPABLE_NODE", "PREFERRED_NODE_NOT_CAPABLE"}
        if capable and ticket.wait_ms and len(self.waiting()) < self.rules.max_waiting:
            self.jobs[job_id], job.waits = job, True
            self.counts["wait.first"] += 1
            in_vain = told[0] == "PREFERRED_NODE_UNAVAILABLE"
            job.choice = Choice(reasons=[f"preferred {told[1]}"] if in_vain else choice.reasons)
            return self._waiting(job)
        self.count_refusal(told)
        return self._refusal(told, job, pair)

    def _waiting(self, job: JobFacts) -> Waiting:
        same = [other for other in self.waiting() if other.ticket.pair == job.ticket.pair and other.hurry <= job.hurry]
        return Waiting(len(same), job.created_at + job.ticket.wait_ms)

    @staticmethod
    def _refusal(told: Told, job: JobFacts, pair: Pair) -> Refusal:
        code, *values = told
        if code == "ALL_CANDIDATES_FULL_OR_FAILED":
            return no(code, Breakdown(*values))  # type: ignore[arg-type]  # numbers, with this code
        if code == "NO_CAPABLE_NODE":
            return refuse(code, pair=pair, missing=Incapable(*values).missing(pair, job.wanted))  # type: ignore[arg-type]
        if code == "PREFERRED_NODE_UNAVAILABLE":
            return refuse(code, node_id=job.wanted.preferred_node_id, why=values[0])
        return no(str(code))

    # Messages about an attempt.

    def _worth(
        self, job_id: str, attempt: int, node_id: str, epoch: str
    ) -> tuple[Literal["CURRENT", "FINISHED", "UNKNOWN_JOB", "STALE_ATTEMPT", "NODE_MISMATCH"], PastAttempt | None]:
        """What a message is worth, and the past attempt it is about, if it is one that this node held."""
        job = self.jobs.get(job_id)
        if job is None:
            return "UNKNOWN_JOB", None
        if attempt == job.attempt and (job.live or job.end == "FINISHED"):
            if node_id != job.node:
                return "NODE_MISMATCH", None
            if epoch not in {"", job.epoch}:
                return "STALE_ATTEMPT", None
            return "CURRENT" if job.live else "FINISHED", None
        held = [past for past in job.history if (past.attempt, past.node) == (attempt, node_id)]
        return ("STALE_ATTEMPT", held[0]) if held else ("NODE_MISMATCH", None)

    def hear(self, node_id: str, epoch: str) -> None:
        """Whatever a node says is a sign of life."""
        node = self.nodes.get(node_id)
        if node and epoch in {"", node.epoch} and self.now >= node.seen_at + HEARD_STEP_MS:
            node.seen_at = self.now
            if self.standing(node_id) == Standing.stale and not node.lost_at:
                node.unfinished_at = self.now

    def deliver(self, job_id: str, attempt_id: int, node_id: str, epoch: str = "") -> Delivered | Refusal:
        worth, _ = self._worth(job_id, attempt_id, node_id, epoch)
        if worth not in {"CURRENT", "FINISHED"}:
            return no(worth)
        job = self.jobs[job_id]
        if job.state == "RESERVED":
            job.dispatched_at = self.now
            job.accepted_at = 0 if job.acks else self.now
        return Delivered(job.state, job.attempt, job.node, job.epoch, int(job.acks))

    def undeliver(
        self, job_id: str, attempt_id: int, node_id: str, epoch: str = "", *, unsure: bool = False
    ) -> Delivered | Refusal:
        worth, past = self._worth(job_id, attempt_id, node_id, epoch)
        undone = past is not None and past.cause == "undelivered"
        if worth not in {"CURRENT", "FINISHED"} and not undone:
            return no(worth)
        job = self.jobs[job_id]
        if job.state == "RESERVED" and not undone and not (unsure and self.nodes[node_id].away_until):
            self._rest(node_id, self.rules.reconnect_grace_ms, "undelivered")
            self.move_on(job, "undelivered", "undelivered")
        return Delivered(job.state, job.attempt, job.node, job.epoch, int(job.acks))

    def ack(self, job_id: str, attempt_id: int, node_id: str, epoch: str = "") -> Moved | Refusal:
        self.hear(node_id, epoch)
        worth, _ = self._worth(job_id, attempt_id, node_id, epoch)
        if worth not in {"CURRENT", "FINISHED"}:
            return no(worth)
        job = self.jobs[job_id]
        if worth == "CURRENT" and not job.accepted:
            job.accepted_at = self.now
        return Moved(job.state)

    def started(self, job_id: str, attempt_id: int, node_id: str, epoch: str = "") -> Moved | Refusal:
        answer = self.ack(job_id, attempt_id, node_id, epoch)
        if isinstance(answer, Refusal):
            return answer
        job = self.jobs[job_id]
        if job.live and not job.started_at:
            job.started_at = self.now
        return Moved(job.state)

    def stopped(self, job_id: str, attempt_id: int, node_id: str, epoch: str = "") -> Stopped | Refusal:
        self.hear(node_id, epoch)
        worth, past = self._worth(job_id, attempt_id, node_id, epoch)
        if worth == "CURRENT":
            told = self.move_on(self.jobs[job_id], "stopped", "stopped")
            return Stopped(told, self._next(job_id, attempt_id) if told == "RETRYING" else attempt_id)
        self.confirm(node_id, job_id, attempt_id)
        if past and past.cause == "stopped":
            return Stopped(past.next_state, past.next_attempt)
        return no("STALE_ATTEMPT" if worth == "FINISHED" else worth)

    def done(
        self,
        job_id: str,
        attempt_id: int,
        node_id: str,
        epoch: str = "",
        *,
        result: str = "",
        result_ttl_ms: int = 120_000,
        lease_ms: int = 0,
    ) -> Moved | Refusal:
        self.hear(node_id, epoch)
        worth, _ = self._worth(job_id, attempt_id, node_id, epoch)
        if worth != "CURRENT":
            self.confirm(node_id, job_id, attempt_id)
            return self._done_again(self.jobs[job_id], lease_ms) if worth == "FINISHED" else no(worth)
        job = self.jobs[job_id]
        del self.leases[node_id, job_id, attempt_id]
        ack_ms = job.accepted_at - job.reserved_at if job.accepted else None
        self.praise(node_id, ack_ms, self.now - max(job.accepted_at, job.reserved_at))
        self.nodes[node_id].loaded_at = self.now
        job.result = result
        self.finish(job, "FINISHED", "", result_ttl_ms, lease_ms)
        return Moved("FINISHED", self.now, self.serve()) if lease_ms else Moved("FINISHED")

    def _done_again(self, job: JobFacts, lease_ms: int) -> Moved:
        """Whoever tells of the end himself has that to tell until it is confirmed."""
        event = Event("ended", job.ticket.job, job.attempt, job.node, job.epoch, "", job.ended_at)
        if not lease_ms or event not in self.outbox:
            return Moved("FINISHED")
        self.outbox[event] = self.now + lease_ms
        return Moved("FINISHED", job.ended_at, self.serve())

    def fail(
        self,
        job_id: str,
        attempt_id: int,
        node_id: str,
        epoch: str = "",
        *,
        reason: str,
        overloaded: bool = False,
        retry_after_ms: int = 0,
    ) -> Failed | Refusal:
        self.hear(node_id, epoch)
        worth, past = self._worth(job_id, attempt_id, node_id, epoch)
        if worth == "CURRENT":
            if overloaded:
                self._rest(node_id, min(retry_after_ms, self.rules.max_rest_ms) or self.rules.rest_ms, "overloaded")
            job = self.jobs[job_id]
            told = self.move_on(job, "overloaded" if overloaded else "failed", reason)
            if job.live:
                return Failed(told, job.attempt, True, job.node, job.epoch, int(job.acks))
            return Failed(told, attempt_id + (told == "RETRYING"), False)
        self.confirm(node_id, job_id, attempt_id)
        if past and past.cause in {"failed", "overloaded"}:
            return Failed(past.next_state, past.next_attempt, False)
        return no("STALE_ATTEMPT" if worth == "FINISHED" else worth)

    def _rest(self, node_id: str, rest_ms: int, why: str) -> None:
        self.rest(node_id, rest_ms, why)
        self.judge(node_id)
        self.watch(node_id)

    def _next(self, job_id: str, attempt_id: int) -> int:
        """The number of the next attempt, whether or not it has its node yet."""
        job = self.jobs[job_id]
        return job.attempt if job.live else attempt_id + 1

    # What clients and relays do.

    def cancel(self, job_id: str, reason: str = "cancelled") -> Moved | Refusal:
        job = self.jobs.get(job_id)
        if job is None:
            return no("UNKNOWN_JOB")
        if job.end is None:
            self.end_early(job, "CANCELLED", "cancelled", reason)
        return Moved(job.state)

    def release(self, job_id: str) -> Released | Refusal:
        job = self.jobs.get(job_id)
        if job is None:
            return no("UNKNOWN_JOB")
        if job.end is None:
            return no("NOT_ENDED")
        if not job.released_at:
            job.released_at, job.erased = self.now, True
        return Released(job.end, job.released_at)

    def relay(self, cell: str, handed_over: Sequence[Event] = (), limit: int = 100) -> Taken:  # noqa: ARG002
        for event in handed_over:
            self.outbox.pop(event, None)
        ready = [event for event, at in self.letters() if at <= self.now][:limit]
        taken = [event for event in ready if event.kind != "reserved" or self._is_offered(event)]
        for event in ready:
            self.outbox[event] = self.now + self.rules.relay_lease_ms
            if event not in taken:
                del self.outbox[event]
        return Taken(taken)

    def _is_offered(self, event: Event) -> bool:
        """Whether the job still waits to be carried to the node, under this number."""
        job = self.jobs.get(event.job)
        return job is not None and (job.state, job.attempt) == ("RESERVED", event.attempt)
