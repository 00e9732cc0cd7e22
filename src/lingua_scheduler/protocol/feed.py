"""What happened to the fleet, as people and machines are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.protocol.fields import Message

if TYPE_CHECKING:
    from lingua_scheduler.core.notice import Notice


class EventAnswer(Message, frozen=True, kw_only=True):
    """One thing: docs/events.md. Of an operator's act: who did it, from where, and `ok` or the code of the refusal."""

    id: str
    at_ms: int
    kind: str
    about: str
    detail: str
    instance_id: str
    who: str | None = None
    where: str | None = None
    outcome: str | None = None


class EventsAnswer(Message, frozen=True, kw_only=True):
    """Events, the oldest first. `last` is what to ask with as `after` for what comes next; "" if there was none yet."""

    events: list[EventAnswer]
    last: str


def event_answer(event_id: str, notice: Notice) -> EventAnswer:
    """A notice of the feed."""
    is_act = bool(notice.outcome)
    return EventAnswer(
        id=event_id,
        at_ms=notice.at_ms,
        kind=notice.kind,
        about=notice.about,
        detail=notice.detail,
        instance_id=notice.instance,
        who=notice.who if is_act else None,
        where=notice.where if is_act else None,
        outcome=notice.outcome or None,
    )
