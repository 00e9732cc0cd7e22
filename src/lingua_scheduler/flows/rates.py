"""What the flows that count how much comes have in common: a bucket's bounds, and the "not yet"."""

from __future__ import annotations

from typing import Final

from lingua_scheduler.core.ids import check_int
from lingua_scheduler.core.refusal import CODES, Refusal
from lingua_scheduler.store.face import Answer

#: Of tokens in a second, and of tokens in a bucket: with these every count is exact.
MAX_TOKENS: Final = 1_000_000


class Limited(Answer, frozen=True, tag="RATE_LIMITED"):
    """Too much came; in so many milliseconds there is room for this one, if nobody takes it before."""

    retry_after_ms: int

    def refusal(self) -> Refusal:
        """The same as a refusal."""
        return Refusal("RATE_LIMITED", CODES["RATE_LIMITED"].detail, after_ms=self.retry_after_ms)


def check_rate(rate_per_s: object, burst: object) -> tuple[int, int]:
    """How many tokens a second, and how many at once."""
    return check_int("rate_per_s", rate_per_s, 1, MAX_TOKENS), check_int("burst", burst, 1, MAX_TOKENS)
