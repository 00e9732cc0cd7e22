"""What the callers of the demo count while it runs, and what is said at the end."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lingua_scheduler.sdk import Result
    from lingua_scheduler.views.counts import Counts

#: From the end of an utterance to its translation at the caller, and what of that was whose. `rest` is all that no
#: model did: the ways, the wait for a slot, and tries that failed.
STAGES: Final = ("asr", "nmt", "tts", "rest", "answer")
#: Codes with which a job ends that was accepted. Any other is a refusal: there never was a job.
_ENDS: Final = {"JOB_FAILED": "FAILED", "JOB_TIMEOUT": "EXPIRED", "CANCELLED": "CANCELLED"}
#: Of the last ones only, so that a long demo does not grow.
_MEASURED: Final = 5_000
_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Said:
    """An utterance and what it means."""

    src: str
    tgt: str
    text: str
    translated: str
    answer_ms: float


@dataclass(slots=True)
class Tally:
    """Counted where the callers are; the server's own numbers are compared with these."""

    submitted: int = 0
    done: int = 0
    #: Utterances without a result, by code.
    failed_by: Counter[str] = field(default_factory=Counter)
    latest: deque[Said] = field(default_factory=lambda: deque(maxlen=_SHOWN))
    stages_ms: dict[str, deque[float]] = field(
        default_factory=lambda: {stage: deque(maxlen=_MEASURED) for stage in STAGES}
    )

    @property
    def failed(self) -> int:
        """Utterances that ended without a result."""
        return self.failed_by.total()

    @property
    def refused(self) -> int:
        """Those of them that never were a job."""
        return sum(number for code, number in self.failed_by.items() if code not in _ENDS)

    @property
    def ended(self) -> int:
        """Utterances of which the end was heard."""
        return self.done + self.failed

    @property
    def open(self) -> int:
        """Utterances whose answer is waited for."""
        return self.submitted - self.ended

    def hear(self, src: str, tgt: str, result: Result, answer_ms: float) -> None:
        """An utterance has a result."""
        self.done += 1
        self.latest.append(Said(src, tgt, result.text_asr, result.text_translated, answer_ms))
        timed = result.service_timings
        took = {stage: getattr(timed, f"{stage}_ms", None) or 0.0 for stage in STAGES[:3]}
        took |= {"rest": max(0.0, answer_ms - sum(took.values())), "answer": answer_ms}
        for stage, ms in took.items():
            self.stages_ms[stage].append(ms)

    def percentile_ms(self, stage: str, share: float) -> int:
        """How long a stage took at most, for this share of the last utterances."""
        ordered = sorted(self.stages_ms[stage])
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))]) if ordered else 0

    def stages(self) -> dict[str, dict[str, int]]:
        """All of them, as they are reported."""
        return {
            stage: {"p50": self.percentile_ms(stage, 0.50), "p95": self.percentile_ms(stage, 0.95)} for stage in STAGES
        }


def report(tally: Tally, counts: Counts) -> dict[str, Any]:
    """The callers' numbers beside the server's own.

    submitted = ended = done + failed; refused is a part of failed. What the server accepted is everything else, and it
    ended there as the callers heard; `others` is what somebody else submitted meanwhile.
    """
    return {
        "submitted": tally.submitted,
        "ended": tally.ended,
        "done": tally.done,
        "failed": tally.failed,
        "refused": tally.refused,
        "failed_by": dict(sorted(tally.failed_by.items())),
        "server": {
            "accepted": counts.accepted,
            **{state.lower(): number for state, number in counts.ended.items()},
            "dispatched": counts.reserved,
            "retried": counts.retried,
        },
        "others": counts.accepted - (tally.ended - tally.refused),
        "stages_ms": tally.stages(),
    }


def discrepancies(tally: Tally, counts: Counts) -> list[str]:
    """What does not add up. Jobs of others may be among the server's: it may have more of everything, never less."""
    found = []
    if tally.submitted != tally.ended:
        found.append(f"{tally.submitted} were submitted, and {tally.ended} have ended")
    others = counts.accepted - (tally.ended - tally.refused)
    heard = {"FINISHED": tally.done, **{state: tally.failed_by[code] for code, state in _ENDS.items()}}
    for state, number in heard.items():
        if not number <= counts.ended[state] <= number + others:
            found.append(f"the callers heard of {number} that are {state}, the server counts {counts.ended[state]}")
    under_way = counts.accepted - sum(counts.ended.values())
    if not 0 <= under_way <= max(others, 0):
        found.append(f"the server accepted {counts.accepted}, and {under_way} of them have not ended")
    return found
