"""admit: one more, if a bucket has tokens for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_id, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.rates import Limited, check_rate
from lingua_scheduler.store.face import Answer, Face, No, pack
from lingua_scheduler.store.keys import rate_tag

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Admitted(Answer, frozen=True, tag="ADMITTED"):
    """There was room; it is taken."""


_ADMIT: Final = Face[Admitted | Limited]("flows/admit", Admitted, Limited)


async def admit(engine: Engine, name: str, rate_per_s: int, burst: int, cost: int = 1) -> Admitted | Refusal:
    """Take `cost` tokens from the bucket `name`, which gets `rate_per_s` of them a second and holds `burst`.

    RATE_LIMITED says when to come again, to the millisecond. Who is refused pays nothing.
    """
    try:
        tag = rate_tag(check_id("name", name))
        rate, most = check_rate(rate_per_s, burst)
        item = pack((rate, most, check_int("cost", cost, 1, most)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _ADMIT(engine, tag, item)
    assert not isinstance(answer, No)  # noqa: S101 - it has but one refusal, and that is spelled out
    return answer.refusal() if isinstance(answer, Limited) else answer
