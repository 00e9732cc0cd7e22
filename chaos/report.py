"""What a run says of itself: figures for people and programs, and a story for each violation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from chaos.checker import RESULT
from chaos.story import story_of

if TYPE_CHECKING:
    from chaos.run import Outcome

_MOST_STORIES: Final = 3


def figures(outcome: Outcome) -> dict[str, Any]:
    """How much happened, and what came of it."""
    events = outcome.events
    count = Counter(event.what for event in events)
    heard = [event for event in events if event.what == "heard"]
    jobs = [event for event in events if event.what == "job_is"]
    causes = Counter(cause for event in jobs for cause in event.more["causes"])
    return {
        "took_s": round(outcome.took_s, 1),
        "faults": dict(sorted(outcome.faults.items())),
        "jobs": dict(Counter(event.more["state"] for event in jobs)),
        "attempts_begun": count["begin"],
        "attempts_ended_without_a_result": dict(causes.most_common()),
        "assigned_twice": count["again"],
        "utterances": count["said"],
        "streamed": count["streamed"],
        "answers": dict(Counter(_kind(event.more) for event in heard)),
        "requests": len({event.request for event in events if event.what == "asked"}),
        "submits": count["asked"],
        "submits_unknown": count["unknown"],
        "submits_refused": dict(Counter(event.more["code"] for event in events if event.what == "refused")),
        "sessions_resumed": count["resumed"],
        "nodes_registered": count["registered"],
        "audits": outcome.looks,
        "calm_s": outcome.calm_s,
        "fail_overs": count["failed_over"],
        "forgotten_by_fail_overs": dict(Counter(violation.rule for violation in outcome.forgotten)),
        "violations": dict(Counter(violation.rule for violation in outcome.violations)),
    }


def _kind(more: dict[str, Any]) -> str:
    return "result" if more["kind"] == RESULT else f"missing: {more['reason']}"


def stories(outcome: Outcome) -> list[str]:
    """The first violation of each rule, told in full; the rest only counted."""
    lines: list[str] = []
    told: Counter[str] = Counter()
    for violation in outcome.violations:
        told[violation.rule] += 1
        if told[violation.rule] == 1 and len(told) <= _MOST_STORIES:
            lines += [f"{violation.rule}: {violation.detail}", *story_of(violation, outcome.events), ""]
    lines += [f"{number} × {rule}" for rule, number in told.items()]
    return lines
