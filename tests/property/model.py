"""The model of a cell: what every flow answers and what every key holds after it, in plain Python.

Written from DESIGN and PROTOCOL; where they leave a choice open, the scripts' choice is written down here once more.
It shares no rule with the scripts: they keep counters, indexes and deadlines, the model works them out from what was
said and when (see `facts`).

    facts        what is remembered of a node, a job, a lease
    model_cell   a cell of these, and the content of every key that follows
    model_life   how a job gets a node, loses it, and ends
    model_time   what time does
    model_jobs   the flows about jobs
    model        the flows about nodes, and the whole
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from lingua_scheduler.core.records import GONE_FROM, MAX_LEAVING, MAX_MARKS, MAX_PASSED_OVER, Mark, Standing
from lingua_scheduler.flows import limit
from lingua_scheduler.flows.disconnect import Away, Replaced
from lingua_scheduler.flows.heartbeat import Beaten
from lingua_scheduler.flows.intents import Intended
from lingua_scheduler.flows.leave import Left
from lingua_scheduler.flows.mark import Debounced, Limited, Marked
from lingua_scheduler.flows.register import Registered
from lingua_scheduler.store.face import pack
from tests.property.facts import CAUSE, NodeFacts, Word
from tests.property.model_cell import name_of
from tests.property.model_jobs import JobFlows, no

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingua_scheduler.core.node import Parting, RenewedBy
    from lingua_scheduler.core.refusal import Refusal
    from lingua_scheduler.flows.register import How
    from tests.property.model_cell import LeaseId

Attempts = list[tuple[str, int]]


class Model(JobFlows):
    """A whole cell. Each flow has the name, the arguments and the answer of the real one."""

    def register(
        self,
        cell: str,  # noqa: ARG002 - as the flow is called
        node_id: str,
        *,
        max_concurrent_jobs: int = 4,
        health: str = "ready",
        epoch: str = "",
        process_id: str = "",
        running: Sequence[tuple[str, int]] | None = None,
        connection: str = "",
        credential: str = "",
        acks: bool = True,
        tells: bool = True,
        about: str = "",
        nonce: str = "",
        lenient: bool = False,
        renewed_by: RenewedBy = "",
        opened_ms: int = 0,
        **said: object,
    ) -> Registered | Refusal:
        word = _word(Word(), {"semantic_langs": [], **said, "lenient": lenient})
        node = self.nodes.get(node_id)
        opened_at = opened_ms or self.now
        if node and (not connection or connection != node.connection):
            known_at = node.opened_at
            if (known_at >= opened_at) if renewed_by else (opened_at < known_at <= self.now):
                return no("NODE_REPLACED")
        from_memory = node is not None and renewed_by == "instance"
        if node and credential != node.credential and not node.lost_at:
            return no("NODE_ID_CONFLICT")
        if not node and not self._has_room():
            return no("CELL_FULL")
        how = self._who(node, credential, epoch, process_id)
        before = node
        node = NodeFacts(word) if node is None else replace(node, word=word)
        node.marks = {} if how == "NEW_PROCESS" else node.marks
        crowded = self.needs_too_many_groups(before, node.capability)
        goes_on = how in {"RESYNC", "CONTINUED"}
        self.nodes[node_id] = node
        if before is None:
            node.intent, node.limit, _ = self.intents.pop(node_id, ("active", None, 0))
        if not goes_on:
            node.rest_until = 0
            self.counts["epoch"] += 1
            node.epoch = f"{self.counts['epoch']}-{nonce}"
        if before and not goes_on and not node.lost_at:
            if not node.away_until or node.unheard:
                node.gone_at += (self.now,)
            self.blame(node_id, "died")
        if not goes_on or node.away_until or node.lost_at:
            self.damp(node_id)
        node.word, node.crowded, node.load, node.update = word, crowded, [], ""
        node.own_max, node.acks, node.tells, node.about = max_concurrent_jobs, acks, tells, about
        node.credential, node.connection, node.opened_at = credential, connection, opened_at
        node.process = process_id or (node.process if goes_on else "")
        node.registered_at = node.seen_at = self.now
        was_away = bool(node.away_until)
        node.lost_at = node.away_until = 0
        node.unheard = False
        node.cut_off = False
        self.regroup()
        self.watch(node_id)

        # Nobody gets a slot here before the node's own claims are in the ledger.
        node.reported = "registering"
        if how in {"NEW_PROCESS", "RENEWED"}:
            self.judge(node_id)
            self.looked.add(node_id)
        if how == "NEW_PROCESS":
            self.take_away(node_id, "died_early", "died")
        elif how == "RENEWED":
            self.take_away(node_id, "lost_early", "lost")
        cancel: Attempts = []
        missing: list[LeaseId] = []
        if running is not None or how == "NEW_PROCESS":
            cancel, missing, strangers = self._compare(node_id, running or (), -1 if from_memory else self.now)
            missing = [] if from_memory else missing
            for _, job_id, attempt in () if from_memory else self.leases_of(node_id, fenced=False):
                if (job_id, attempt) in set(running or ()) and not self.jobs[job_id].accepted:
                    self.jobs[job_id].accepted_at = self.now
            for lease in strangers:
                if not (from_memory and self._has_let_go(lease)):
                    self.fence(lease)
        for _, job_id, _ in self.leases_of(node_id, fenced=False) if was_away else ():
            self.jobs[job_id].held_until = min(self.now, self.jobs[job_id].due(self.rules))
        for lease in self.leases_of(node_id, fenced=True):
            if self.leases[lease].until is None:
                self.leases[lease].until = self.now + self.rules.limbo_ttl_ms
        node.reported = health
        node.held = self.used(node_id)
        self.judge(node_id)
        for _, job_id, _ in missing:
            job = self.jobs[job_id]
            if job.accepted:
                self.move_on(job, "dropped", "dropped")
            elif connection:
                self.move_on(job, "undelivered", "undelivered")
        if was_away and goes_on and running is None and connection:
            for _, job_id, _ in self.leases_of(node_id, fenced=False):
                if not (self.jobs[job_id].accepted or self.jobs[job_id].dispatched_at):
                    self.move_on(self.jobs[job_id], "unsent", "unsent")
        last = before.connection if before else ""
        replaced = last if last != connection else ""
        return Registered(how, node.epoch, self.standing(node_id), node.pairs, cancel, [], replaced)

    def _has_room(self) -> bool:
        """In a full cell, those who are gone for longest make room: silent, and nothing more can come of their work."""
        missing = len(self.nodes) - self.rules.cell_capacity + 1
        if missing <= 0 or missing > MAX_LEAVING:
            return missing <= 0
        gone = sorted((at, member[2:]) for member, at in self.due().items() if at >= GONE_FROM)
        looked_at = [node_id for _, node_id in gone[: missing + MAX_PASSED_OVER]]
        leaving = [node_id for node_id in looked_at if self._is_over(node_id)]
        leaving.sort(key=lambda node_id: self.used(node_id) > 0)
        for node_id in leaving[:missing] if len(leaving) >= missing else ():
            self.forget(node_id)
        return len(leaving) >= missing

    def _is_over(self, node_id: str) -> bool:
        node = self.nodes[node_id]
        confirms = [self.leases[lease].until for lease in self.leases_of(node_id, fenced=True)]
        is_silent = node.seen_at <= node.lost_at or self.now >= node.seen_at + self.rules.offline_ms
        return is_silent and all(until is None for until in confirms)

    def _who(self, node: NodeFacts | None, credential: str, epoch: str, process: str) -> How:
        if not node:
            return "NEW"
        if credential != node.credential:
            return "NEW_PROCESS"
        if epoch == node.epoch:
            return "RESYNC"
        if process not in {"", node.process}:
            return "NEW_PROCESS"
        over = node.away_until and self.now >= node.away_until and not node.unheard
        return "RENEWED" if node.lost_at or over else "CONTINUED"

    def _compare(
        self, node_id: str, running: Sequence[tuple[str, int]], confirms_before: int
    ) -> tuple[Attempts, list[LeaseId], list[LeaseId]]:
        """The ledger against a node's word: what it must cancel, what it does not name, what nobody gave it."""
        named = {(node_id, job_id, attempt) for job_id, attempt in running}
        cancel: list[LeaseId] = []
        missing: list[LeaseId] = []
        for lease in self.leases_of(node_id):
            fenced_at = self.leases[lease].fenced_at
            if fenced_at is None:
                missing += [] if lease in named else [lease]
            elif lease in named:
                cancel.append(lease)
            elif fenced_at <= confirms_before:
                self.unfence(lease)
        strangers = sorted((lease for lease in named if lease not in self.leases), key=name_of)
        return [(job_id, attempt) for _, job_id, attempt in cancel + strangers], missing, strangers

    def _has_let_go(self, lease: LeaseId) -> bool:
        """Whether a node has said itself that it is done with an attempt, or has confirmed the fence."""
        node_id, job_id, attempt = lease
        worth, past = self._worth(job_id, attempt, node_id, "")
        if past is None:
            return worth == "FINISHED"
        return CAUSE[past.cause].lease != "released" or past.cause in {"failed", "overloaded", "stopped"}

    def heartbeat(
        self,
        cell: str,  # noqa: ARG002
        node_id: str,
        epoch: str = "",
        *,
        health: str | None = None,
        max_concurrent_jobs: int | None = None,
        current_load: Mapping[str, float] | None = None,
        running: Sequence[tuple[str, int]] | None = None,
        running_jobs: int | None = None,
        lenient: bool = False,
        connection: str = "",
        said_ms: int = 0,
        **said: object,
    ) -> Beaten | Refusal:
        said["lenient"] = lenient
        node = self.nodes.get(node_id)
        if node is None:
            return no("UNKNOWN_NODE")
        if connection not in {"", node.connection}:
            return no("NODE_REPLACED")
        if epoch not in {"", node.epoch}:
            return no("STALE_ATTEMPT")
        digest = _digest(said)
        has_changed = digest not in {"", node.update}
        if has_changed:
            node.word, node.crowded = _word(node.word, said), False
            node.crowded = self.needs_too_many_groups(node, node.capability)
            node.update = "" if node.crowded else digest
            self.regroup()
        node.seen_at = self.now
        node.reported = node.reported if health is None else health
        node.own_max = node.own_max if max_concurrent_jobs is None else max_concurrent_jobs
        node.load = node.load if current_load is None else sorted(current_load.items())
        cancel: Attempts = []
        has_more = False
        confirms_before = min(said_ms or self.now, self.now) - self.rules.confirm_after_ms
        if running is not None:
            cancel, _, strangers = self._compare(node_id, running, confirms_before)
            for lease in strangers:
                if not self._has_let_go(lease):
                    self.fence(lease)
                    has_more = True
        elif running_jobs is not None:
            fenced = self.leases_of(node_id, fenced=True)
            old = [lease for lease in fenced if (self.leases[lease].fenced_at or 0) <= confirms_before]
            for lease in old[: max(0, len(old) - running_jobs)]:
                self.unfence(lease)
        self.come_back(node_id)
        node.held = self.used(node_id)
        self.judge(node_id)
        if has_more or not node.lost_at:
            self.watch(node_id)
        return Beaten(node.epoch, self.standing(node_id), cancel, [], node.cut_off, has_changed and bool(node.pairs))

    def mark(
        self,
        cell: str,  # noqa: ARG002
        node_id: str,
        service: str = "",
        service_type: str = "",
        connection: str = "",
    ) -> Marked | Debounced | Limited | Refusal:
        node = self.nodes.get(node_id)
        if node is None:
            return no("UNKNOWN_NODE")
        if connection not in {"", node.connection}:
            return no("NODE_REPLACED")
        name, rules, old = service or service_type, self.rules, node.marks.get(service or service_type)
        if old and self.now < old.marked_at_ms + rules.mark_debounce_ms:
            return Debounced(old.until_ms)
        fresh = self.now >= node.marking_since + rules.mark_window_ms
        if (node.marked >= rules.max_marked and not fresh) or (old is None and len(node.marks) >= MAX_MARKS):
            return Limited()
        node.marking_since, node.marked = (self.now, 1) if fresh else (node.marking_since, node.marked + 1)
        node.marks[name] = Mark(name, service_type, self.now, self.now + rules.mark_ttl_ms)
        self.regroup()
        return Marked(self.now + rules.mark_ttl_ms)

    def drain(self, cell: str, node_id: str) -> Intended | Refusal:
        return self._mark(cell, node_id, "draining")

    def resume(self, cell: str, node_id: str) -> Intended | Refusal:
        return self._mark(cell, node_id, "active")

    def evict(self, cell: str, node_id: str) -> Intended | Refusal:
        answer = self._mark(cell, node_id, "evicted")
        if node_id in self.nodes:
            self.take_away(node_id, "evicted", "evicted")
        return answer

    def _mark(self, cell: str, node_id: str, intent: str) -> Intended | Refusal:  # noqa: ARG002
        if node_id in self.intents:
            self.keep(node_id, intent, self.intents.pop(node_id)[1])
            return Intended(intent, Standing.lost, 0)
        if node_id not in self.nodes:
            return no("UNKNOWN_NODE")
        self.nodes[node_id].intent = intent
        self.judge(node_id)
        return Intended(intent, self.standing(node_id), self.used(node_id))

    def limit(self, cell: str, node_id: str, max_concurrent_jobs: int | None) -> limit.Limited | Refusal:  # noqa: ARG002
        if node_id in self.intents:
            self.keep(node_id, self.intents.pop(node_id)[0], max_concurrent_jobs)
            return limit.Limited(max_concurrent_jobs or 0, 0)
        node = self.nodes.get(node_id)
        if node is None:
            return no("UNKNOWN_NODE")
        node.limit, node.held = max_concurrent_jobs, self.used(node_id)
        self.judge(node_id)
        return limit.Limited(node.max, node.own_max)

    def leave(self, cell: str, node_id: str, epoch: str = "") -> Left | Refusal:  # noqa: ARG002
        node = self.nodes.get(node_id)
        if node is None:
            return no("UNKNOWN_NODE")
        if epoch not in {"", node.epoch}:
            return no("STALE_ATTEMPT")
        moved = len(self.leases_of(node_id, fenced=False))
        node.reported = "offline"
        self.take_away(node_id, "left_early", "left")
        self.forget(node_id)
        return Left(moved)

    def disconnect(
        self,
        cell: str,  # noqa: ARG002
        node_id: str,
        connection: str,
        how: Parting = "closed",
    ) -> Away | Replaced | Refusal:
        node = self.nodes.get(node_id)
        if node is None:
            return no("UNKNOWN_NODE")
        if node.connection != connection:
            return Replaced()
        if not node.lost_at and not node.away_until:
            handover_ms, ping_ms = self.rules.handover_grace_ms, self.rules.ping_interval_ms
            grace_ms = {
                "closed": self.rules.reconnect_grace_ms,
                "handover": handover_ms,
                "unheard": max(handover_ms, ping_ms),
            }[how]
            node.away_until = self.now + grace_ms
            node.unheard = how == "unheard"
            if how == "closed":
                node.gone_at += (self.now,)
            self.judge(node_id)
            self.watch(node_id)
        return Away(node.away_until)


_NAMES = {
    "semantic_langs": "semantic",
    "lenient": "legacy",
    "asr_langs": "asr",
    "nmt_pairs": "nmt",
    "tts_langs": "tts",
    "services": "services",
    "labels": "labels",
    "accept_public_jobs": "public",
}


def _canonical(name: str, value: object) -> object:
    """A word in the form in which it is kept: sorted, pairs as `src:tgt`."""
    if name == "nmt_pairs":
        return True if value == "any" else sorted({":".join(pair) for pair in value})  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return sorted(value.items())
    return sorted(set(value)) if isinstance(value, list) else value


def _said(said: Mapping[str, object]) -> dict[str, object]:
    """What was said. Who names its semantic languages says by that whether it is a field node."""
    if said.get("semantic_langs") is None:
        said = {**said, "lenient": None}
    return {short: _canonical(name, said[name]) for name, short in _NAMES.items() if said.get(name) is not None}


def _word(before: Word, said: Mapping[str, object]) -> Word:
    """What was said, and what was left out as it was before."""
    return replace(before, **_said(said))  # type: ignore[arg-type]  # `_NAMES` maps to its fields


def _digest(said: Mapping[str, object]) -> str:
    """How a node's last change of capability is remembered."""
    found = _said(said)
    return hashlib.sha1(pack(found), usedforsecurity=False).hexdigest() if found else ""
