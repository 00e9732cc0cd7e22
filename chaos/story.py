"""The shortest story of a violation: what happened to the job, the node or the session that it is about, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chaos.checker import Violation
    from chaos.history import Event

_MOST_LINES: Final = 60
#: What went wrong around it is told from so long before its first line.
_BEFORE_S: Final = 3.0
_AROUND: Final = frozenset({"fault", "wires", "failed_over", "instance_up", "instance_killed", "instance_ended"})
_LIFE: Final = frozenset({"up", "registered", "apart", "node_ended", "opened", "resumed"})


def story_of(violation: Violation, events: list[Event]) -> list[str]:
    """A line for each event that concerns it, and for what was broken meanwhile."""
    told = [event for event in events if _concerns(violation, event)]
    if not told:
        return []
    first_s = min(event.at_s for event in told) - _BEFORE_S
    last_s = max(violation.at_s, *(event.at_s for event in told))
    around = [event for event in events if event.what in _AROUND and first_s <= event.at_s <= last_s]
    lives = [event for event in events if _is_life(violation, told, event) and first_s <= event.at_s <= last_s]
    lines = sorted({id(event): event for event in (*told, *around, *lives)}.values(), key=lambda event: event.at_s)
    begun_s = events[0].at_s
    left_out = len(lines) - _MOST_LINES
    if left_out > 0:
        # The end of a story says most.
        lines = lines[left_out:]
    head = [f"  … {left_out} lines before"] if left_out > 0 else []
    return head + [line_of(event, begun_s) for event in lines]


def _concerns(violation: Violation, event: Event) -> bool:
    if event.job and event.job in violation.jobs:
        return not violation.node or not event.node or event.node == violation.node
    if violation.request and event.request == violation.request:
        return True
    is_session = bool(violation.session) and event.session == violation.session
    return is_session and not violation.jobs and event.what != "job_is"


def _is_life(violation: Violation, told: list[Event], event: Event) -> bool:
    """How those came and went who play in it."""
    if event.what not in _LIFE:
        return False
    nodes = {violation.node} if violation.node else {one.node for one in told if one.node and violation.jobs}
    return (bool(event.node) and event.node in nodes) or (bool(event.session) and event.session == violation.session)


def line_of(event: Event, begun_s: float) -> str:
    """One event, for people."""
    named = {
        "node": event.node,
        "job": event.job,
        "attempt": event.attempt,
        "session": event.session,
        "index": event.index if event.index >= 0 else "",
        "request": event.request,
    }
    about = " ".join(f"{name}={value}" for name, value in (named | event.more).items() if value not in ("", 0, None))
    return f"  {event.at_s - begun_s:8.3f} s  {event.actor:<10} {event.what:<15} {about}"
