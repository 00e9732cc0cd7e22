"""What was reached: a run that never saw `STALE_ATTEMPT` proves nothing."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, get_args

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.job_state import MOVES, STATES, WAITING_STATES
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows import (
    ack,
    cancel,
    deliver,
    disconnect,
    dispatch,
    done,
    drain,
    evict,
    fail,
    heartbeat,
    leave,
    limit,
    mark,
    reap,
    register,
    relay,
    release,
    resume,
    started,
    stopped,
    undeliver,
)
from lingua_scheduler.store.face import Face

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from types import ModuleType

    from lingua_scheduler.core.cell import Cell
    from lingua_scheduler.core.records import JobRecord

_MODULES: Final[tuple[ModuleType, ...]] = (
    register,
    heartbeat,
    drain,
    resume,
    evict,
    limit,
    leave,
    mark,
    disconnect,
    dispatch,
    deliver,
    undeliver,
    ack,
    started,
    stopped,
    done,
    fail,
    cancel,
    release,
    reap,
    relay,
)


def _name(module: ModuleType) -> str:
    return module.__name__.rsplit(".", 1)[-1]


FLOWS: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    _name(module): getattr(module, _name(module)) for module in _MODULES
}

FACES: Final[dict[str, Face[Any]]] = {
    _name(module): face for module in _MODULES for face in vars(module).values() if isinstance(face, Face)
}

#: Inside the dispatch script only.
_NEVER_SEEN: Final = {"CREATED"}
#: Only of several cells: `test_directory.py`, `tests/flows/test_withdraw.py`.
_OF_SEVERAL_CELLS: Final = {
    *((flow, "GONE_ON") for flow in ("dispatch", "cancel", "release")),
    ("register", "HOME_GONE"),
}


def _answers(face: Face[Any]) -> Iterator[str]:
    """Every answer that a flow's script may give, by its tag."""
    yield from (str(answer.__struct_config__.tag) for answer in face.answers)
    yield from face.refuses


def everything() -> set[tuple[str, str]]:
    """Every outcome that a run must have seen."""
    found = {(flow, answer) for flow, face in FACES.items() for answer in _answers(face)}
    found |= {("register", how) for how in get_args(register.How)}
    found |= {("state", state) for state in STATES if state not in _NEVER_SEEN}
    found |= {("standing", standing.name) for standing in Standing}
    found |= {("cause", cause.name) for cause in CAUSES}
    found |= {
        ("event", kind)
        for kind in ("ended", "reserved", "fenced", "lost", "cut_off", "forgiven", "refused", "mass_silence")
    }
    found |= {
        ("missing", "none takes …, which needs semantic repair (and asr) for it and a pair from it."),
        ("missing", "none translates into …."),
        ("missing", "some take … and some give …, but none does both."),
        ("missing", "# serve the pair, but none has the service …."),
        ("missing", "# serve the pair, but none speaks …."),
        ("missing", "# serve the pair, but only for jobs that name them."),
        ("missing", "# serve the pair, but none has all of …."),
    }
    found |= {("why", why) for why in ("waited", "suspect", "panic", "bound full", "preferred full", "pool full")}
    found |= {("reason", "poison"), ("reason", "deadline"), ("settled", "more"), ("attempt", "passed over")}
    found |= {
        ("move", f"{source} → {target}")
        for source, targets in MOVES.items()
        for target in targets
        if source not in _NEVER_SEEN
    }
    return found - _OF_SEVERAL_CELLS


def _anonymous(missing: str) -> str:
    counted = re.sub(r"^\d+", "#", missing)
    counted = re.sub(r"(?<=none has all of ).*(?=\.$)", "…", counted)
    return re.sub(r"\b(zh|en|fr|yue)\b|(?<=service )[a-z ]+", "…", counted)


class Outcomes:
    """Counts what the engine, not the model, was seen to do."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, str]] = Counter()

    def answered(self, flow: str, answer: Any) -> None:
        if isinstance(answer, Refusal):
            self.seen[flow, answer.code] += 1
            if answer.code == "NO_CAPABLE_NODE":
                self.seen["missing", _anonymous(answer.detail.partition(": ")[2])] += 1
            return
        tag = answer.__struct_config__.tag or {"register": "REGISTERED", "heartbeat": "BEATEN"}[flow]
        self.seen[flow, str(tag)] += 1
        if isinstance(answer, register.Registered):
            self.seen[flow, answer.how] += 1
        if isinstance(answer, reap.Settled) and answer.more:
            self.seen["settled", "more"] += 1

    def changed(self, before: Cell, after: Cell) -> None:
        """What one step did."""
        for node_id, node in after.nodes.items():
            old_node = before.nodes.get(node_id)
            if old_node is None or old_node.standing != node.standing:
                self.seen["standing", Standing(node.standing).name] += 1
        known = {event for event, _ in before.outbox}
        for event, _ in after.outbox:
            if event not in known:
                self.seen["event", event.kind] += 1
        for job_id, job in after.jobs.items():
            old = before.jobs.get(job_id)
            if old != job:
                self._job_changed(old, job)

    def _job_changed(self, old: JobRecord | None, job: JobRecord) -> None:
        self.seen["state", job.state] += 1
        self.seen["reason", job.past.reason] += 1
        for why in job.choice.reasons:
            self.seen["why", why] += 1
        for past in job.past.attempts[len(old.past.attempts) if old else 0 :]:
            self.seen["cause", past.cause] += 1
        if job.state == "RESERVED" and job.attempt > len(job.past.attempts) + 1:
            self.seen["attempt", "passed over"] += 1
        if old is None:
            return
        # A step that reserved the next attempt ended the old one before.
        path = [old.state, job.state]
        if job.attempt > old.attempt and old.state not in WAITING_STATES:
            path = [old.state, "RETRYING", "RESERVED"]
        for source, target in pairwise(path):
            if source != target:
                self.seen["move", f"{source} → {target}"] += 1
