"""A bucket of tokens, with time as an argument."""

from __future__ import annotations

from typing import Final

#: A token is so many parts: at one token a second, one comes in each millisecond.
_PARTS: Final = 1_000


class Bucket:
    """Holds `burst` tokens and gets `rate_per_s` of them back each second."""

    def __init__(self, rate_per_s: int, burst: int, now_ms: int) -> None:
        self._rate = rate_per_s
        self._most = burst * _PARTS
        self._level = self._most
        self._at_ms = now_ms

    def take(self, now_ms: int) -> int:
        """Take one. 0: it was there; else nothing was taken, and the next one is there in so many milliseconds."""
        passed_ms = max(0, now_ms - self._at_ms)
        self._at_ms += passed_ms
        self._level = min(self._most, self._level + passed_ms * self._rate)
        if self._level < _PARTS:
            return -((self._level - _PARTS) // self._rate)
        self._level -= _PARTS
        return 0
