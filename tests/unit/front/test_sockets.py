"""When those who are sent away are to come back."""

from __future__ import annotations

import pytest

from lingua_scheduler.front.socket import RETURN_EACH_MS, RETURN_MS, RETURN_SPREAD_MS, Sockets


@pytest.mark.parametrize(("open_now", "spread_ms"), [(0, 0), (6, 6 * RETURN_EACH_MS), (100_000, RETURN_SPREAD_MS - 1)])
def test_few_come_back_at_once_and_many_one_by_one(open_now: int, spread_ms: int) -> None:
    sockets = Sockets()
    for number in range(open_now):
        sockets.add(number, "node")  # type: ignore[arg-type] # they are only counted
    told = [sockets.return_ms() - RETURN_MS for _ in range(2_000)]
    assert min(told) >= 0
    assert spread_ms * 0.9 <= max(told) <= spread_ms
