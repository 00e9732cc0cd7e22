"""A cell as facts, and the content of every key that follows from them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.needs import LACKS
from lingua_scheduler.core.records import (
    FORGET_FROM,
    STANDINGS,
    SUSPECTS,
    Event,
    GroupRecord,
    Intent,
    NodeRecord,
    Standing,
)
from lingua_scheduler.store.face import pack
from tests.property.facts import Capability, Lease, signature_of

if TYPE_CHECKING:
    from lingua_scheduler.core.rules import Rules
    from tests.property.facts import JobFacts, NodeFacts

LeaseId = tuple[str, str, int]


def name_of(lease: LeaseId) -> str:
    return "{}:{}:{}".format(*lease)


class CellFacts:
    """Everything that happened in a cell and still matters. Flows of the model change only this."""

    def __init__(self, cell: str, rules: Rules, now: int) -> None:
        self.name = cell
        self.rules = rules
        self.now = now
        self.nodes: dict[str, NodeFacts] = {}
        self.jobs: dict[str, JobFacts] = {}
        self.leases: dict[LeaseId, Lease] = {}
        #: Groups are numbered as they appear, and gone with their last node.
        self.groups: dict[Capability, int] = {}
        #: What operators want of nodes that are gone, how many slots they let them have, and until when that is kept.
        self.intents: dict[str, tuple[str, int | None, int]] = {}
        #: When more of those whose pair has nobody left are given to their fallback; 0: there are no more.
        self.falls_on_at = 0
        self.outbox: dict[Event, int] = {}
        self.counts: Counter[str] = Counter()

    # What follows.

    def leases_of(self, node_id: str, *, fenced: bool | None = None) -> list[LeaseId]:
        """A node's leases in the order of the ledger, all of them or one kind."""
        found = [
            lease
            for lease, facts in self.leases.items()
            if lease[0] == node_id and (fenced is None or (facts.fenced_at is not None) == fenced)
        ]
        return sorted(found, key=name_of)

    def used(self, node_id: str) -> int:
        return sum(lease[0] == node_id for lease in self.leases)

    def standing(self, node_id: str, at: int | None = None) -> Standing:
        """How a node stands in the index, or would if somebody looked `at` a time."""
        node = self.nodes[node_id]
        return node.standing(node.judged_at if at is None else at, self.used(node_id), self.rules)

    def group(self, node_id: str) -> int:
        node = self.nodes[node_id]
        return self.groups[node.capability] if node.pairs else 0

    def members(self, group: int) -> list[str]:
        return sorted(node_id for node_id in self.nodes if self.group(node_id) == group)

    def due(self) -> dict[str, int]:
        """What is to be looked at, and when."""
        due = {f"j:{job_id}": job.due(self.rules) for job_id, job in self.jobs.items()}
        due |= {f"n:{node_id}": node.due(self.rules, self.used(node_id)) for node_id, node in self.nodes.items()}
        for lease, facts in self.leases.items():
            if facts.until is not None:
                due[f"l:{name_of(lease)}"] = facts.until
        for node_id, node in self.nodes.items():
            if node.marks:
                due[f"m:{node_id}"] = min(mark.until_ms for mark in node.marks.values())
        due |= {"f:": self.falls_on_at} if self.falls_on_at else {}
        due |= {f"r:{node_id}": node.serves_on_at for node_id, node in self.nodes.items() if node.serves_on_at}
        due |= {f"i:{node_id}": FORGET_FROM + until for node_id, (*_, until) in self.intents.items()}
        return due

    def waiting(self) -> list[JobFacts]:
        """Who waits for a node, the one who must hurry most first."""
        return sorted((job for job in self.jobs.values() if job.waits), key=lambda job: job.hurry)

    def one_of(self, group: int) -> NodeFacts:
        """A node of a group; for what they can do, any will do."""
        return next(node for node_id, node in self.nodes.items() if self.group(node_id) == group)

    def suited(self, pair: str, job: JobFacts, *, named: bool = False, marked: bool = False) -> list[int]:
        """The groups of a pair that have all that a job wants, in the order of the index: those of any target last."""
        nodes = {group: self.one_of(group) for group in self.groups.values()}
        found = [g for g, node in nodes.items() if node.suits(pair, job.wanted, named=named, marked=marked)]
        return sorted(found, key=lambda group: (pair not in nodes[group].pairs, group))

    def places(self, job: JobFacts) -> list[str]:
        """Where a job that waits stands in the queue."""
        ticket, wanted = job.ticket, job.wanted
        found = [f"w{ticket.pair}"] + ([f"f{ticket.fallback}:{ticket.pair}"] if ticket.fallback else [])
        found += [f"n{wanted.preferred_node_id}"] if wanted.preferred_node_id else []
        if not wanted.strict:
            line = "x" if wanted.exclude_node_ids or job.attempt else "g"
            found += [f"{line}{group}" for group in self.suited(ticket.pair, job)]
        return [f"{place}:{job.deadline_at:015}:{ticket.job}" for place in found]

    def overdue(self) -> list[str]:
        """What should have been looked at by now, in the order in which it will be."""
        entries = sorted((at, member) for member, at in self.due().items() if at <= self.now)
        return [member for _, member in entries]

    def moments(self) -> list[int]:
        """Every moment to come at which something may change by itself, or become possible."""
        rules = self.rules
        found = {at % FORGET_FROM for at in self.due().values()}
        found |= {*self.outbox.values()}
        for node in self.nodes.values():
            found |= {
                node.probe_at,
                node.rest_until,
                node.away_until,
                node.seen_at + rules.stale_ms,
                node.seen_at + rules.offline_ms,
            }
        for lease in self.leases.values():
            if lease.fenced_at is not None:
                found.add(lease.fenced_at + rules.confirm_after_ms)
        found |= {job.deadline_at for job in self.jobs.values() if job.end is None}
        return sorted(at for at in found if at > self.now)

    # What every flow does.

    def regroup(self) -> None:
        """Groups come and go with their nodes."""
        present = {node.capability for node in self.nodes.values() if node.pairs}
        for capability in present - self.groups.keys():
            self.counts["group"] += 1
            self.groups[capability] = self.counts["group"]
        for capability in self.groups.keys() - present:
            del self.groups[capability]

    def needs_too_many_groups(self, node: NodeFacts | None, capability: Capability) -> bool:
        """Whether the cell has no room for another kind, even after the node has left its old one."""
        kinds = {other.capability[:-1] for other in self.nodes.values() if other is not node and other.pairs}
        return bool(capability[0]) and capability[:-1] not in kinds and len(kinds) >= self.rules.max_groups

    def judge(self, node_id: str) -> None:
        self.nodes[node_id].judged_at = self.nodes[node_id].loaded_at = self.now
        self.nodes[node_id].heard_when_judged = self.nodes[node_id].seen_at

    def watch(self, node_id: str) -> None:
        self.nodes[node_id].looked_at = self.now
        self.nodes[node_id].heard_when_looked = self.nodes[node_id].seen_at
        self.nodes[node_id].probe_when_looked = self.nodes[node_id].probe_at
        unfinished = self.nodes[node_id].lost_at and self.leases_of(node_id, fenced=False)
        self.nodes[node_id].unfinished_at = self.now if unfinished else None

    def keep(self, node_id: str, intent: str, limit: int | None) -> None:
        """What the operator wants of a node that is gone is remembered for a while, if it is anything."""
        if intent != "active" or limit is not None:
            self.intents[node_id] = (intent, limit, self.now + self.rules.intent_ttl_ms)

    def post(
        self, kind: str, job_id: str, attempt: int, node_id: str, epoch: str, detail: str, lease_ms: int = 0
    ) -> None:
        self.outbox[Event(kind, job_id, attempt, node_id, epoch, detail, self.now)] = self.now + lease_ms

    def blame(self, node_id: str, why: str) -> None:
        """It failed. Who becomes suspect by that is told of, and why."""
        node = self.nodes[node_id]
        was_suspect = node.suspect
        node.blame(self.now, self.rules)
        if node.suspect and not was_suspect:
            self.post("suspected", "", sum(node.failed), node_id, node.epoch, why)

    def praise(self, node_id: str, ack_ms: int | None, took_ms: int) -> None:
        """It did a job. Who is not suspect any more is told of."""
        node = self.nodes[node_id]
        was_suspect = node.suspect
        node.praise(ack_ms, took_ms, self.now)
        if was_suspect and not node.suspect:
            self.post("trusted", "", 0, node_id, node.epoch, "")

    def damp(self, node_id: str) -> None:
        if rest_ms := self.nodes[node_id].damped_ms(self.now, self.rules):
            self.rest(node_id, rest_ms, "flapping")

    def rest(self, node_id: str, rest_ms: int, why: str) -> None:
        """It gets nothing for a while; of one that rests already it was told."""
        node = self.nodes[node_id]
        if node.rest_until <= self.now:
            self.post("resting", "", rest_ms, node_id, node.epoch, why)
        node.rest_until = max(node.rest_until, self.now + rest_ms)

    def letters(self) -> list[tuple[Event, int]]:
        """The outbox in the order in which a relay takes it."""
        return sorted(self.outbox.items(), key=lambda entry: (entry[1], pack(entry[0])))

    # What the engine should hold.

    def expected(self) -> Cell:
        """The content of every key."""
        used = Counter(lease[0] for lease in self.leases)
        limbo = Counter(lease[0] for lease, facts in self.leases.items() if facts.fenced_at is not None)
        records: dict[str, NodeRecord] = {}
        for node_id, node in self.nodes.items():
            records[node_id] = NodeRecord(
                used=used[node_id],
                max=node.max,
                limbo=limbo[node_id],
                group=self.group(node_id),
                standing=node.standing(node.judged_at, used[node_id], self.rules),
                epoch=node.epoch,
                reported=node.reported,
                intent=node.intent,
                lost_at_ms=node.lost_at,
                seen_at_ms=node.seen_at,
                away_until_ms=node.away_until,
                rest_until_ms=node.rest_until,
                cut_off=int(node.cut_off),
                acks=int(node.acks),
                tells=int(node.tells),
                ceiling=max(node.max, node.held),
                recent=node.recent,
                ack_ms=node.ack_ms,
                typical_ms=node.typical_ms,
                probe_at_ms=node.probe_at,
                flaps=node.flaps(self.rules),
                flapped_at_ms=node.flapped_at,
                own_max=node.own_max,
                limit=node.limit or 0,
                nonce=node.connection[-8:],
                unheard=int(node.unheard),
            )
        room: Counter[int] = Counter()
        for record in records.values():
            room[record.group] += {Standing.available: 1, Standing.suspect: SUSPECTS}.get(Standing(record.standing), 0)
        pairs: dict[str, list[int]] = {}
        groups: dict[int, GroupRecord] = {}
        ends: Counter[str] = Counter()
        for capability, group in sorted(self.groups.items(), key=lambda entry: entry[1]):
            served = capability[0]
            assert isinstance(served, tuple)
            node = self.one_of(group)
            groups[group] = GroupRecord(signature_of(capability), node.word.tts, node.word.labels, list(served))
            ends.update({f"{pair.partition(':')[0]}:" for pair in served})
            ends.update({f":{pair.partition(':')[2]}" for pair in served})
            for pair in served:
                lacks = node.lacks(pair.partition(":")[2])
                pairs.setdefault(pair, []).append(LACKS * group + lacks)
        texts = {
            f"{job_id}:{name}": text
            for job_id, job in self.jobs.items()
            for name, text in (("payload", job.payload), ("result", job.result))
            if text and not job.erased
        }
        return Cell(
            now_ms=self.now,
            nodes=records,
            profiles={node_id: node.profile() for node_id, node in self.nodes.items()},
            standing={node_id: STANDINGS * record.group + record.standing for node_id, record in records.items()},
            room={group: number for group, number in room.items() if group and number},
            groups=groups,
            signatures={record.signature: group for group, record in groups.items()},
            pairs=pairs,
            ends=dict(ends),
            intents={node_id: Intent(intent, limit or 0) for node_id, (intent, limit, _) in self.intents.items()},
            departed={},
            jobs={job_id: job.record(self.rules) for job_id, job in self.jobs.items()},
            tickets={job_id: job.ticket for job_id, job in self.jobs.items()},
            ways={},
            bodies=texts,
            guests={},
            leases=sorted(name_of(lease) for lease in self.leases),
            limbo={
                name_of(lease): facts.fenced_at for lease, facts in self.leases.items() if facts.fenced_at is not None
            },
            queue=sorted(place for job in self.waiting() for place in self.places(job)),
            due=self.due(),
            outbox=self.letters(),
            counts={name: number for name, number in self.counts.items() if number},
        )
