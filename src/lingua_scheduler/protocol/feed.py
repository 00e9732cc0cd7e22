"""What happened to the fleet, as people and machines are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.protocol.fields import Message

if TYPE_CHECKING:
    from lingua_scheduler.core.notice import Notice


class EachAnswer(Message, frozen=True, kw_only=True):
    """One of many to which the same happened at once, and what is said of it."""

    about: str
    detail: str


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
    #: All to which it happened, if these are many.
    each: list[EachAnswer] | None = None


class EventsAnswer(Message, frozen=True, kw_only=True):
    """Events, the oldest first. `last` is what to ask with as `after` for what comes next; "" if there was none yet."""

    events: list[EventAnswer]
    last: str


def is_about(notice: Notice, name: str) -> bool:
    """Whether it happened to this one, alone or with others."""
    return notice.about == name or any(about == name for about, _ in notice.each)


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
        each=[EachAnswer(about=about, detail=detail) for about, detail in notice.each] or None,
    )
