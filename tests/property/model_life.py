"""How a job gets a node, loses it, gets another and ends, in the model."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from lingua_scheduler.core.records import Choice, PastAttempt, Standing
from lingua_scheduler.core.wanted import Policy
from tests.property.facts import CAUSE, Lease
from tests.property.model_cell import CellFacts, LeaseId

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from lingua_scheduler.core.rules import Rules
    from tests.property.facts import JobFacts

_ROOM: Final = (Standing.available, Standing.suspect)

#: How many who wait are served at a time.
SERVED_PER_VISIT: Final = 64


class JobLife(CellFacts):
    """The table of DESIGN section 3: what ends an attempt, what that costs, and what comes next."""

    def __init__(self, cell: str, rules: Rules, now: int) -> None:
        super().__init__(cell, rules, now)
        #: Who had room when those who wait were last served, where and how, and at which node somebody looked since.
        self.had_room: set[tuple[str, int, Standing]] = set()
        self.looked: set[str] = set()
        #: Who was alive then, and in which group.
        self.stood: dict[str, int] = {}

    # Choosing.

    def pool(self, job: JobFacts, *, named: bool = False, marked: bool = False) -> list[int]:
        """The groups for a job: its own pair's, or the fallback's where that is allowed."""
        return self.suited(self.pair_for(job), job, named=named, marked=marked)

    def pair_for(self, job: JobFacts) -> str:
        """The fallback only while nobody alive is in the job's own pool, and somebody could do it there."""
        pair, fallback = job.ticket.pair, job.ticket.fallback
        falls = fallback and not self.is_live(pair) and self.suited(fallback, job, named=True, marked=True)
        return fallback if falls else pair

    def is_fit(self, node_id: str, job: JobFacts, *, named: bool = False, marked: bool = False) -> bool:
        """Whether a node could have a job, alive or dead: it is in its own pool, or in the one where it looks."""
        pairs = {job.ticket.pair, self.pair_for(job)}
        suited = [group for pair in pairs for group in self.suited(pair, job, named=named, marked=marked)]
        return self.group(node_id) in suited

    def is_live(self, pair: str) -> bool:
        return any(node.serves(pair) and self.standing(n) < Standing.stale for n, node in self.nodes.items())

    def free(self, groups: list[int], *standings: Standing) -> list[str]:
        """Who has room, in the order of the index: those above suspicion and those under it, or those named."""
        rows = [(group, standing) for standing in standings or _ROOM for group in groups]
        return [n for group, standing in rows for n in self.members(group) if self.standing(n) == standing]

    def panic(self, groups: list[int]) -> bool:
        """More than half of the living are under suspicion, so that nobody is."""
        alive = [self.standing(n) for group in groups for n in self.members(group)]
        alive = [standing for standing in alive if standing <= Standing.resting]
        return 2 * sum(standing in {Standing.suspect, Standing.suspect_full} for standing in alive) > len(alive)

    def why_not(self, node_id: str, job: JobFacts, *, named: bool) -> str:
        """Why a node cannot take a job here and now."""
        if node_id not in self.nodes:
            return "unknown"
        if node_id in job.wanted.exclude_node_ids:
            return "excluded"
        if not self.is_fit(node_id, job, named=named):
            return self._unfit(node_id, job, named=named)
        standing = self.standing(node_id)
        return "" if standing in _ROOM else standing.name

    def _unfit(self, node_id: str, job: JobFacts, *, named: bool) -> str:
        """What a node that is not fit for a job lacks."""
        node, own, spare = self.nodes[node_id], job.ticket.pair, job.ticket.fallback
        if not any(node.serves(pair) for pair in (own, spare) if pair):
            return "no_pool"
        if not self.is_fit(node_id, job, named=True, marked=True):
            return "no_service" if node.serves(own) or self.pair_for(job) == spare else "fallback"
        return "marked" if self.is_fit(node_id, job, named=named, marked=True) else "not_permitted"

    def choose(self, job: JobFacts, owed: frozenset[str] = frozenset()) -> tuple[str, Choice]:
        """The node of its turn, the node it names, else by its policy; and what stood against its wishes.

        If there is none, its name is "".
        """
        wanted, hints, policy, reasons = job.wanted, job.hints, job.ticket.policy, list[str]()
        preferred, spare = wanted.preferred_node_id, ""
        avoid = {past.node for past in job.history} | set(hints.seen_node_ids)
        banned = owed | set(wanted.exclude_node_ids)
        for what, node_id in (("bound", hints.bound_node_id), ("preferred", preferred)):
            if node_id and not (wanted.strict and node_id != preferred):
                why = self.why_not(node_id, job, named=node_id == preferred) or ("full" if node_id in owed else "")
                if not why and (wanted.strict or node_id not in avoid):
                    return self._chosen(job, node_id, 1, [*reasons, *self._suspicion(node_id)])
                spare = spare if why or self._is_barred(node_id, job) else node_id
                reasons.append(f"{what} {why or 'seen'}")
        groups = [] if wanted.strict else self.pool(job)
        found = None
        if policy == Policy.spread and hints.last_node_id and groups:
            found = self._pick(job, groups, banned | avoid | {hints.last_node_id}, pool=groups)
            reasons += [] if found else ["last node"]
        if policy == Policy.sticky_pool and hints.last_pool and groups:
            same = [group for group in groups if ("group", hints.last_pool) in self.one_of(group).word.labels]
            found = self._pick(job, same, banned | avoid, pool=groups)
            reasons += [] if found else ["pool full"]
        found = found or self._pick(job, groups, banned, avoid)
        if not found and spare:
            found = (spare, 1, self._suspicion(spare))
        if not found:
            return "", Choice(reasons=reasons)
        return self._chosen(job, found[0], found[1], [*reasons, *found[2]])

    def _chosen(self, job: JobFacts, node_id: str, candidates: int, reasons: list[str]) -> tuple[str, Choice]:
        reasons = [*reasons, *self._remarks(node_id, job)]
        return node_id, Choice(self.group(node_id), candidates, job.ticket.policy, reasons)

    def _suspicion(self, node_id: str) -> list[str]:
        return ["suspect"] if self.standing(node_id) == Standing.suspect else []

    def _remarks(self, node_id: str, job: JobFacts) -> list[str]:
        """It looked among the nodes of its fallback; the node had it, or has seen the utterance."""
        fell = self.pair_for(job) != job.ticket.pair
        again = node_id in job.hints.seen_node_ids or any(past.node == node_id for past in job.history)
        return ["fell back"] * fell + ["again"] * again

    def _is_barred(self, node_id: str, job: JobFacts) -> bool:
        """It had the job, is under suspicion, and is not yet to be tried again."""
        doubtful = self.standing(node_id) == Standing.suspect and self.now < self.nodes[node_id].probe_at
        return doubtful and any(past.node == node_id for past in job.history)

    def _pick(
        self,
        job: JobFacts,
        groups: list[int],
        banned: set[str] | frozenset[str],
        avoid: set[str] | frozenset[str] = frozenset(),
        pool: list[int] | None = None,
    ) -> tuple[str, int, list[str]] | None:
        """None of those to avoid while another can; none under suspicion while another is above it.

        With `pool` it is a wish among these: only those above suspicion.
        """
        tiers: list[tuple[tuple[Standing, ...], str]]
        tiers = [((Standing.available,), "")]
        tiers += [] if pool else [((Standing.suspect,), "suspect")]
        if self.free(groups, Standing.suspect) and self.panic(pool or groups):
            tiers = [(_ROOM, "panic")]
        for avoided in (avoid, frozenset[str]()):
            for standings, special in tiers:
                candidates = [
                    n
                    for n in self.free(groups, *standings)
                    if n not in banned and n not in avoided and not (special == "suspect" and self._is_barred(n, job))
                ]
                if candidates:
                    number = len(candidates)
                    return self._best(job, candidates), number, [special] if special else []
        return None

    def _best(self, job: JobFacts, candidates: list[str]) -> str:
        """Of two random ones the less loaded; or of eight the least loaded, and the healthiest of equals."""
        by_health = job.ticket.policy == Policy.least_loaded
        drawn: list[str] = []
        while candidates and len(drawn) < (8 if by_health else 2):
            drawn.append(candidates.pop(self._draw(job, len(candidates))))

        def rank(node_id: str) -> tuple[Fraction, int]:
            node = self.nodes[node_id]
            health = 12 * sum(node.failed) + min(20, node.ack_ms // 50)
            return Fraction(self.used(node_id), node.max), health if by_health else 0

        return min(drawn, key=rank)

    @staticmethod
    def _draw(job: JobFacts, n: int) -> int:
        job.seed = (job.seed * 1664525 + 1013904223) % 2**32
        return job.seed * n // 2**32

    def reserve(self, job: JobFacts, node_id: str, choice: Choice) -> None:
        """Take a slot. A number that the node claims to work on already is passed over."""
        node = self.nodes[node_id]
        job.waits, job.choice = False, choice
        node.loaded_at = self.now
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
        if self.come_back(node_id) or self.nodes[node_id].lost_at:
            self.watch(node_id)
        self.judge(node_id)

    def come_back(self, node_id: str) -> bool:
        """Lost in silence, heard of since, and done with all that was fenced: it is back."""
        node = self.nodes[node_id]
        heard = node.lost_at and node.seen_at >= node.lost_at and not node.away_until
        if heard and not self.leases_of(node_id, fenced=True):
            node.lost_at = 0
            self.damp(node_id)
            return True
        return False

    def confirm(self, node_id: str, job_id: str, attempt: int) -> None:
        """A word that shows that a node is done with an attempt, should it be a fenced one."""
        lease = (node_id, job_id, attempt)
        if lease in self.leases and self.leases[lease].fenced_at is not None:
            self.unfence(lease)

    def close(self, job: JobFacts, cause: str, told: State) -> None:
        lease, node = (job.node, job.ticket.job, job.attempt), self.nodes[job.node]
        if CAUSE[cause].lease == "limbo":
            self.fence(lease)
            self.post("fenced", job.ticket.job, job.attempt, job.node, job.epoch, cause)
        else:
            del self.leases[lease]
            node.loaded_at = self.now
        if CAUSE[cause].blames:
            self.blame(job.node, f"{cause} {job.ticket.job}")
            if node.suspect:
                self.judge(job.node)
                self.watch(job.node)
        self.counts[f"{'retry' if told == 'RETRYING' else 'attempt'}.{cause}"] += 1
        following = job.attempt + (told == "RETRYING")
        ended = (
            job.attempt,
            job.node,
            cause,
            self.now,
            told,
            following,
            job.reserved_at,
            job.choice.packed(),
            job.choice.reasons,
            "",
            job.dispatched_at,
            job.accepted_at,
            job.started_at,
        )
        job.history.append(PastAttempt(*ended))
        job.waits = told == "RETRYING"

    def move_on(self, job: JobFacts, cause: str, reason: str) -> State:
        """The attempt failed. The job goes to another node, or ends; says which."""
        told, why = self._verdict(job, cause, reason)
        self.close(job, cause, told)
        if told == "RETRYING":
            number = len(job.history)
            self.place_again(job)
            if job.live:
                job.history[number - 1] = replace(job.history[number - 1], next_attempt=job.attempt)
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

    def place(self, job: JobFacts, *, waited: bool = False) -> bool:
        """Give a job without a node its next one, if there is one."""
        seed, owed = job.seed, frozenset[str]()
        node_id, choice = self.choose(job)
        while node_id and self.nodes[node_id].serves_on_at:
            owed |= {node_id}
            node_id, choice = self.choose(job, owed)
        if not node_id:
            job.seed = seed
            if not waited:
                job.choice = replace(job.choice, reasons=choice.reasons)
            return False
        self.assign(job, node_id, self._after_waiting(job, choice) if waited else choice)
        return True

    @staticmethod
    def _after_waiting(job: JobFacts, choice: Choice) -> Choice:
        """What stood against its wishes when it began to wait comes first."""
        return replace(choice, reasons=[*job.choice.reasons, "waited", *choice.reasons])

    def assign(self, job: JobFacts, node_id: str, choice: Choice) -> None:
        self.counts["attempt.again" if job.attempt else "accepted"] += 1
        self.reserve(job, node_id, choice)
        self.post("reserved", job.ticket.job, job.attempt, node_id, job.epoch, "")

    # Waiting.

    def place_again(self, job: JobFacts) -> None:
        """After those who already wait; where there is no node, with them."""
        job.waits = False
        self.serve()
        job.waits = True
        self.counts["wait.again"] += not self.place(job)

    def serve(self) -> int:
        """Nodes that came to have room since the last time take those who wait for them, by deadline. How many did."""
        free = self._have_room()
        woken = {node_id for node_id, _, _ in free - self.had_room} | set(self.looked)
        self.looked.clear()
        stand = {n: self.group(n) for n in self.nodes if self.standing(n) < Standing.stale}
        fallen = any(stand.get(node_id) != group for node_id, group in self.stood.items())
        served = 0
        for node_id in sorted(woken):
            while node_id in self.nodes and self.standing(node_id) in _ROOM:
                waiting = [job for job in self.waiting() if self.could_go(node_id, job)]
                if not waiting:
                    break
                if served == SERVED_PER_VISIT:
                    self.nodes[node_id].serves_on_at = self.now
                    break
                served += 1
                _, choice = self._chosen(waiting[0], node_id, 1, self._suspicion(node_id))
                self.assign(waiting[0], node_id, self._after_waiting(waiting[0], choice))
        if fallen:
            served += self.let_fall()
        self.had_room = self._have_room()
        self.stood = {n: self.group(n) for n in self.nodes if self.standing(n) < Standing.stale and self.group(n)}
        return served

    def _have_room(self) -> set[tuple[str, int, Standing]]:
        return {(n, self.group(n), self.standing(n)) for n in self.free(list(self.groups.values()))}

    def could_go(self, node_id: str, job: JobFacts) -> bool:
        """Whether a node may have a job that waits: none under suspicion that had it, unless most are."""
        wanted = job.wanted
        if self._is_barred(node_id, job) and not wanted.strict and not self.panic(self.pool(job)):
            return False
        if node_id == wanted.preferred_node_id:
            return self.is_fit(node_id, job, named=True)
        allowed = not wanted.strict and node_id not in wanted.exclude_node_ids
        return allowed and self.is_fit(node_id, job)

    def let_fall(self) -> int:
        """Somebody fell: who waits for a pair that nobody serves any more may go to the fallback. How many do."""
        served, hopeless = 0, set[tuple[str, int]]()
        for job in self.waiting():
            need = (job.ticket.pair, job.ticket.needs)
            if not job.ticket.fallback or self.is_live(job.ticket.pair) or need in hopeless:
                continue
            if served == SERVED_PER_VISIT:
                self.falls_on_at = self.now
                break
            if self.place(job, waited=True):
                served += 1
            elif not job.ticket.wishes and not job.attempt:
                hopeless.add(need)
        return served

    # Ending a job.

    def finish(self, job: JobFacts, end: State, detail: str, text_ttl_ms: int, lease_ms: int = 0) -> None:
        job.end, job.ended_at, job.text_until = end, self.now, self.now + text_ttl_ms
        self.counts[end] += 1
        self.post("ended", job.ticket.job, job.attempt, job.node, job.epoch, detail, lease_ms)

    def end_early(self, job: JobFacts, end: State, cause: str, reason: str) -> None:
        """Cancelled, or out of time: what it holds is fenced."""
        if job.live:
            self.close(job, cause, end)
        elif not job.attempt:
            self.counts["accepted"] += 1
            self.counts["attempt.none"] += 1
        job.waits = False
        job.reason = reason
        self.finish(job, end, reason, self.rules.result_ttl_ms)

    # Nodes that lose their work.

    def take_away(self, node_id: str, early: str, late: str, limit: int | None = None) -> None:
        """Its current attempts end, at most `limit` of them."""
        for _, job_id, _ in self.leases_of(node_id, fenced=False)[:limit]:
            job = self.jobs[job_id]
            cause = late if job.accepted else early
            self.move_on(job, cause, cause)

    def forget(self, node_id: str) -> None:
        for lease in self.leases_of(node_id):
            del self.leases[lease]
        node = self.nodes.pop(node_id)
        self.keep(node_id, node.intent, node.limit)
        self.regroup()
