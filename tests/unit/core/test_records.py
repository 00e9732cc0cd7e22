from __future__ import annotations

import msgspec
import pytest

from lingua_scheduler.core.records import (
    FORGET_FROM,
    GONE_FROM,
    HEARD_STEP_MS,
    STANDINGS,
    GroupRecord,
    Intent,
    JobRecord,
    NodeRecord,
    Past,
    PastAttempt,
    Record,
    Standing,
    Ticket,
    Wishes,
)
from lingua_scheduler.core.rules import Rules


#: Fields are only ever appended: these are where they were when the first cell of this schema was written.
@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (JobRecord, "state attempt node epoch acks deadline_at_ms run_ms seed created_at_ms reserved_at_ms"),
        (
            NodeRecord,
            "used max seen_at_ms recent ack_ms typical_ms limbo group standing epoch reported intent",
        ),
        (
            Ticket,
            "job session utterance pair fallback ack_ms run_ms timeout_ms max_retry seed trace needs policy",
        ),
        (Past, "tries undelivered overloaded lost released_at_ms reason attempts reasons"),
        (PastAttempt, "attempt node cause ended_at_ms next_state next_attempt reserved_at_ms chosen reasons"),
        (Wishes, "named strict excluded labels back bound last pool seen"),
        (GroupRecord, "signature tts labels pairs"),
        (Intent, "intent limit"),
    ],
)
def test_a_field_never_moves(record: type[Record], fields: str) -> None:
    names = fields.split()
    assert list(record.__struct_fields__[: len(names)]) == names


def test_a_standing_fits_into_the_index() -> None:
    assert max(Standing) < STANDINGS


def test_the_rules_are_those_of_the_design() -> None:
    rules = Rules()
    assert (rules.stale_ms, rules.offline_ms, rules.limbo_ttl_ms) == (35_000, 45_000, 60_000)
    assert (rules.reconnect_grace_ms, rules.handover_grace_ms, rules.confirm_after_ms) == (500, 10_000, 2_000)
    assert (rules.node_record_ttl_ms, rules.job_record_ttl_ms, rules.released_ttl_ms) == (
        3_600_000,
        3_600_000,
        300_000,
    )
    assert (rules.result_ttl_ms, rules.cell_capacity, rules.max_groups) == (120_000, 1_000, 256)
    assert rules.max_waiting == 4_096
    assert (rules.max_undelivered, rules.max_lost) == (10, 2)
    assert rules.intent_ttl_ms == 7 * 86_400_000


def test_what_is_only_to_be_forgotten_is_due_after_every_clock_and_exactly() -> None:
    """A score is a double: all of it must be a whole number there."""
    year_5000_ms = 95_617_584_000_000
    assert year_5000_ms < FORGET_FROM
    assert FORGET_FROM + year_5000_ms < GONE_FROM
    assert GONE_FROM + year_5000_ms < 2**53


def test_a_sign_of_life_is_written_down_far_more_often_than_silence_matters() -> None:
    assert Rules().stale_ms > HEARD_STEP_MS * 100


def test_a_record_is_an_array_in_the_engine() -> None:
    assert msgspec.msgpack.encode(GroupRecord("s", False, [], ["en:zh"])) == b"\x94\xa1s\xc2\x90\x91\xa5en:zh"
    assert msgspec.msgpack.decode(b"\x90", type=Past) == Past()
