from __future__ import annotations

import pytest

from lingua_scheduler.front.prefer import preferred_wait_ms


@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        (b"wait=10", 10_000),
        (b"Wait = 3", 3_000),
        (b'respond-async, wait="7"', 7_000),
        (b"wait=2; why=not, return=minimal", 2_000),
        (b"wait=0", 0),
        (b"wait", 0),
        (b"wait=-1", 0),
        (b"wait=soon", 0),
        (b"wait=1.5", 0),
        (b"awaits=10", 0),
        (b"", 0),
    ],
)
def test_how_long_somebody_would_rather_wait(header: bytes, wait_ms: int) -> None:
    assert preferred_wait_ms(header) == wait_ms
