from __future__ import annotations

import msgspec
import pytest

from lingua_scheduler.core.health import FAILURES, WINDOW, failures, health, is_suspect
from lingua_scheduler.core.records import NodeRecord, Standing

GOOD = NodeRecord(
    used=0,
    max=4,
    seen_at_ms=0,
    recent=0,
    ack_ms=0,
    typical_ms=0,
    limbo=0,
    group=1,
    standing=Standing.available,
    epoch="1-a",
    reported="ready",
    intent="active",
    lost_at_ms=0,
    away_until_ms=0,
    rest_until_ms=0,
    cut_off=0,
    acks=1,
    tells=1,
    ceiling=4,
    probe_at_ms=0,
    flaps=0,
    flapped_at_ms=0,
    own_max=4,
    limit=0,
    nonce="",
)

ALL_PASTS = range(2**WINDOW)


def node(**said: int) -> NodeRecord:
    return msgspec.structs.replace(GOOD, **said)


@pytest.mark.parametrize("recent", ALL_PASTS)
def test_each_of_the_last_five_jobs_that_failed_counts_whichever_it_was(recent: int) -> None:
    failed = f"{recent:b}".count("1")
    assert failures(node(recent=recent)) == failed
    assert is_suspect(node(recent=recent)) == (failed >= 3)
    assert health(node(recent=recent)) == 100 - 12 * failed


def test_three_of_five_are_too_many() -> None:
    assert (FAILURES, WINDOW) == (3, 5)
    assert sum(is_suspect(node(recent=recent)) for recent in ALL_PASTS) == 16


@pytest.mark.parametrize(
    ("used", "slots", "expected"),
    [(0, 4, 100), (1, 4, 95), (2, 4, 90), (3, 4, 85), (4, 4, 80), (1, 3, 94), (2, 3, 87), (1, 1, 80), (1, 1000, 100)],
)
def test_a_fifth_is_lost_with_the_last_free_slot(used: int, slots: int, expected: int) -> None:
    assert health(node(used=used, max=slots)) == expected


@pytest.mark.parametrize("used", [2, 3, 100])
def test_more_than_full_is_no_worse_than_full(used: int) -> None:
    """Its slots were lowered below what it holds, or it came with work of its own."""
    assert health(node(used=used, max=2)) == 80


@pytest.mark.parametrize(
    ("ack_ms", "expected"),
    [(0, 100), (49, 100), (50, 99), (99, 99), (100, 98), (999, 81), (1_000, 80), (1_049, 80), (60_000, 80)],
)
def test_each_50_ms_of_an_ack_cost_a_point_up_to_a_second(ack_ms: int, expected: int) -> None:
    assert health(node(ack_ms=ack_ms)) == expected


def test_all_of_it_adds_up_and_the_worst_node_has_nothing_left() -> None:
    assert health(node(recent=0b101, used=1, max=4, ack_ms=130)) == 100 - 24 - 5 - 2
    assert health(node(recent=0b11111, used=4, max=4, ack_ms=5_000)) == 0


@pytest.mark.parametrize(
    "field", ["typical_ms", "limbo", "flaps", "rest_until_ms", "cut_off", "probe_at_ms", "standing"]
)
def test_nothing_else_counts(field: str) -> None:
    assert health(node(**{field: 7})) == 100
