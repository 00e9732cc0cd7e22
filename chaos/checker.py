"""Proves from the history that nothing was broken, or says what was. Pure: a made-up history will do.

What timed out is unknown: it may have happened, or not, and nothing is concluded from it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.job_state import ENDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chaos.history import Event

RESULT, MISSING = "translation_result", "missing_result"
#: So many parts has the text of an answer: see `hands.answer`.
_PARTS: Final = 5


class Expect(msgspec.Struct, frozen=True):
    """What the run promised. `is_over`: the faults have stopped and everything had time to end.

    `may_forget`: the engine answers before a replica has it, so a fail-over may forget what it had confirmed.
    """

    is_over: bool
    may_forget: bool = False


class Violation(msgspec.Struct, frozen=True):
    """Something that must never be so: the invariant, what it is about, and when it was seen.

    `since_s`: when that was confirmed which it contradicts. None: nothing was, and nobody can have forgotten it.
    """

    rule: str
    detail: str
    at_s: float
    jobs: tuple[str, ...] = ()
    node: str = ""
    session: str = ""
    request: str = ""
    since_s: float | None = None


class Facts:
    """The history, by what the rules ask for."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = list(events)
        self.by: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            self.by[event.what].append(event)
        #: How each job ended in the engine, or did not, when the run was over.
        self.jobs = {event.job: event for event in self.by["job_is"]}
        #: When an attempt's result was given away by the node that did it.
        self.results = {(e.node, e.job, e.attempt): e.at_s for e in reversed(self.by["result"]) if e.more["ok"]}
        #: When replicas became primaries, as far as anybody saw it.
        self.fail_overs = [event.at_s for event in self.by["failed_over"]]

    def is_forgotten(self, violation: Violation) -> bool:
        """Whether the engine failed over between what was confirmed and what contradicts it."""
        since_s = violation.since_s
        return since_s is not None and any(
            since_s - _NOTICED_S <= at_s <= violation.at_s + _NOTICED_S for at_s in self.fail_overs
        )


#: A client that hears these has its session; and for so long after that it may come back.
_MEETS: Final = frozenset({"opened", "resumed", "heard"})
_RESUME_WINDOW_S: Final = 120.0
#: What a node can do to an utterance by itself, or an engine that is late because the machine is busy.
_BY_OTHERS: Final = frozenset({"job_failed", "job_timeout", "gap_timeout", "scheduler_dependency_down"})
#: An old primary may confirm something for so long after it has a successor, and the director sees that so much later.
_NOTICED_S: Final = 3.0


def check(events: Iterable[Event], expect: Expect) -> tuple[list[Violation], list[Violation]]:
    """Every violation, the earliest first; and apart from these what a fail-over has forgotten, where it may."""
    facts = Facts(events)
    found = [violation for rule in _ALWAYS for violation in rule(facts)]
    if expect.is_over:
        found += [violation for rule in _AT_LAST for violation in rule(facts)]
    found.sort(key=lambda violation: violation.at_s)
    forgotten = [violation for violation in found if expect.may_forget and facts.is_forgotten(violation)]
    return [violation for violation in found if violation not in forgotten], forgotten


def never_oversold(facts: Facts) -> Iterator[Violation]:
    """S1, counted on the nodes' own side: never more in work than slots. Work ends with its process."""
    slots: dict[str, int] = {}
    held: dict[str, dict[tuple[str, int], Event]] = defaultdict(dict)
    for event in facts.events:
        if event.what == "up":
            slots[event.node] = event.more["slots"]
            held[event.node] = {}
        elif event.what == "node_ended":
            held[event.node] = {}
        elif event.what == "begin":
            held[event.node][event.job, event.attempt] = event
            if len(held[event.node]) > slots.get(event.node, 0):
                names = ", ".join(f"{job} attempt {attempt}" for job, attempt in held[event.node])
                detail = f"{event.node} has {slots.get(event.node, 0)} slots and works on {names}"
                jobs = tuple(dict.fromkeys(job for job, _ in held[event.node]))
                yield Violation("S1 oversold", detail, event.at_s, jobs, event.node)
        elif event.what == "end":
            held[event.node].pop((event.job, event.attempt), None)


def the_auditor_is_content(facts: Facts) -> Iterator[Violation]:
    """S1 to S6, S16: what the auditor saw in the engine."""
    for event in facts.by["audit"]:
        yield Violation(f"{event.more['invariant']} auditor", event.more["detail"], event.at_s, _job_in(event))


def _job_in(event: Event) -> tuple[str, ...]:
    """The job that the auditor's subject names, if any: `node:job:attempt`, or the job."""
    parts = event.more["subject"].split(":")
    return tuple(part for part in parts if "." in part)


def one_end(facts: Facts) -> Iterator[Violation]:
    """S5: whoever sees a job's end sees the same ever after, over HTTP and in the engine."""
    ends: dict[str, Event] = {}
    for event in facts.events:
        # The answer to a cancel says no attempt.
        if event.what not in {"seen", "job_is"} or not event.attempt:
            continue
        state, before = event.more["state"], ends.get(event.job)
        if before is not None and (before.more["state"], before.attempt) != (state, event.attempt):
            was = f"{before.more['state']} (attempt {before.attempt})"
            detail = f"{event.job} was {was}, and is {state} (attempt {event.attempt})"
            yield Violation("S5 ended twice", detail, event.at_s, (event.job,), since_s=before.at_s)
        if state in ENDS:
            ends.setdefault(event.job, event)


def idempotent(facts: Facts) -> Iterator[Violation]:
    """S10: one request is one job, by what is answered and by what nodes were given."""
    jobs: dict[str, Event] = {}
    for event in facts.events:
        if event.what not in {"answered", "begin"} or not event.request:
            continue
        first = jobs.setdefault(event.request, event)
        if first.job != event.job:
            detail = f"request {event.request} is {first.job} ({first.what}) and {event.job} ({event.what})"
            about: dict[str, Any] = {"jobs": (first.job, event.job), "request": event.request}
            yield Violation("S10 two jobs", detail, event.at_s, since_s=first.at_s, **about)


def authentic(facts: Facts) -> Iterator[Violation]:
    """S7, S17: a result is of the very utterance, was given by the node that says so, and is the one that counted."""
    for event in facts.events:
        is_seen = event.what == "seen" and event.attempt and event.more["state"] == "FINISHED"
        if not (is_seen or (event.what == "heard" and event.more["kind"] == RESULT)):
            continue
        about: dict[str, Any] = {"jobs": (event.job,), "session": event.session, "request": event.request}
        parts = (event.more["text"] or "").split("|")
        if len(parts) != _PARTS:
            yield Violation("S11 no text", f"{event.job} is finished, and its text is {parts}", event.at_s, **about)
            continue
        session, index, job, attempt, node = parts
        is_own = event.what == "seen" or event.more.get("sdk") or (session, index) == (event.session, str(event.index))
        if job != event.job or not is_own:
            detail = f"{event.session} {event.index} ({event.job}) got the result of {session} {index} ({job})"
            yield Violation("S17 foreign result", detail, event.at_s, **(about | {"jobs": (event.job, job)}))
        given_s = facts.results.get((node, job, int(attempt)))
        if given_s is None or given_s > event.at_s:
            detail = f"nobody gave the result of {job} attempt {attempt} on {node}"
            yield Violation("S7 invented result", detail, event.at_s, **about)
        record = facts.jobs.get(job)
        if record is not None and (record.more["state"], record.attempt, record.node) != (
            "FINISHED",
            int(attempt),
            node,
        ):
            detail = f"attempt {attempt} on {node} counted, but the job is {record.more['state']}"
            detail += f" (attempt {record.attempt} on {record.node})"
            yield Violation("S7 fenced result", detail, record.at_s, since_s=event.at_s, **about)


def in_turn(facts: Facts) -> Iterator[Violation]:
    """S18 and S5: each utterance of a session ends once, in order, and a gap is announced."""
    last: dict[str, Event] = {}
    first: dict[tuple[str, int], float] = {}
    for event in facts.by["heard"]:
        before = last.get(event.session)
        last[event.session] = event
        # What was heard before may have been forgotten; what comes next is then the one after that.
        since_s = first.setdefault((event.session, event.index), event.at_s)
        about: dict[str, Any] = {"jobs": tuple(filter(None, (event.job,))), "session": event.session}
        about["since_s"] = since_s if before is None or since_s < event.at_s else before.at_s
        # The library hands each answer to whoever asked; what it heard nothing of is `unsaid`. Of a stream the
        # scheduler gives the numbers, and not every one of them to an utterance.
        if event.more.get("sdk") or event.more.get("stream"):
            if before is not None and event.index <= before.index:
                yield Violation("S18 twice", f"{event.session} heard {event.index} twice", event.at_s, **about)
            continue
        due = 0 if before is None else before.index + 1
        if event.index != due:
            rule = "S18 twice" if event.index < due else "S18 out of order"
            yield Violation(rule, f"{event.session} heard {event.index}, and {due} was due", event.at_s, **about)
        if before is not None and event.more["event"] <= before.more["event"]:
            detail = f"{event.session} heard event {event.more['event']} after event {before.more['event']}"
            yield Violation("S18 event again", detail, event.at_s, **about)


def no_session_is_lost(facts: Facts) -> Iterator[Violation]:
    """S13, S15: who comes back within the resume window goes on."""
    met: dict[str, float] = {}
    for event in facts.events:
        if event.what in _MEETS:
            met[event.session] = event.at_s
        elif event.what == "session_lost" and event.at_s - met.get(event.session, event.at_s) < _RESUME_WINDOW_S:
            detail = f"{event.session} came back with its token and was sent away ({event.more['code']})"
            yield Violation("S15 session lost", detail, event.at_s, session=event.session, since_s=0.0)


def not_lost(facts: Facts) -> Iterator[Violation]:
    """S6, S15: what was accepted is known to the engine."""
    if not facts.jobs:
        return
    end_s = facts.by["job_is"][-1].at_s
    for event in facts.by["answered"]:
        if event.job not in facts.jobs:
            detail = f"{event.job} was accepted, and the engine does not know it"
            about: dict[str, Any] = {"jobs": (event.job,), "request": event.request}
            yield Violation("S15 lost", detail, end_s, since_s=event.at_s, **about)


def all_jobs_end(facts: Facts) -> Iterator[Violation]:
    """L2: every job has ended."""
    for event in facts.by["job_is"]:
        if event.more["state"] not in ENDS:
            yield Violation("L2 no end", f"{event.job} is {event.more['state']}", event.at_s, (event.job,))


def everybody_is_answered(facts: Facts) -> Iterator[Violation]:
    """L2, S11: every utterance that was said has its one end, unless its session was lost."""
    open_now: dict[tuple[str, int], Event] = {}
    for event in facts.events:
        if event.what == "said":
            open_now[event.session, event.index] = event
        elif event.what in {"heard", "unsaid"}:
            open_now.pop((event.session, event.index), None)
        elif event.what == "session_lost":
            for index in event.more["open"]:
                open_now.pop((event.session, index), None)
    for event in open_now.values():
        detail = f"{event.session} said {event.index}, and never heard of it"
        yield Violation("L2 no answer", detail, event.at_s, session=event.session)


def restarts_are_invisible(facts: Facts) -> Iterator[Violation]:
    """Of a rolling restart nobody who speaks notices: what is missing meanwhile is missing for another reason."""
    for begun, ended in zip(facts.by["restart_begins"], facts.by["restart_ends"], strict=False):
        for event in facts.by["heard"]:
            is_missing = event.more["kind"] == MISSING and event.more["reason"] not in _BY_OTHERS
            if is_missing and begun.at_s <= event.at_s <= ended.at_s:
                detail = f"{event.session} misses {event.index} ({event.more['reason']})"
                yield Violation("restart noticed", detail, event.at_s, session=event.session)


def nothing_is_left(facts: Facts) -> Iterator[Violation]:
    """S4, S12, S16: nothing is left behind, and what was to happen in time did."""
    for event in facts.by["left"]:
        yield Violation(event.more["rule"], event.more["detail"], event.at_s)


_ALWAYS: Final = (
    never_oversold,
    the_auditor_is_content,
    one_end,
    idempotent,
    authentic,
    in_turn,
    no_session_is_lost,
    not_lost,
)
_AT_LAST: Final = (all_jobs_end, everybody_is_answered, restarts_are_invisible, nothing_is_left)
