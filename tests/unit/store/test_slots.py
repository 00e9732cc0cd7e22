from __future__ import annotations

import pytest

from lingua_scheduler.core.errors import EngineUnfit
from lingua_scheduler.store.address import Address
from lingua_scheduler.store.slots import ANY, Span, Turn, slot_of, spans_of, turn_of

ASKED = Address("asked", 7000, tls=True, username="ops", password="pw")  # noqa: S106


@pytest.mark.parametrize(("cell", "slot"), [("c0", 10_282), ("123456789", 12_739), ("", ANY)])
def test_a_cell_has_one_slot_and_no_cell_has_none(cell: str, slot: int) -> None:
    assert slot_of(cell) == slot


@pytest.mark.parametrize(
    ("message", "turn"),
    [
        ("MOVED 3999 127.0.0.1:6381", Turn("MOVED", 3_999, "127.0.0.1", 6_381)),
        ("ASK 3999 ::1:6381", Turn("ASK", 3_999, "::1", 6_381)),
        ("MOVED 3999 :6381", Turn("MOVED", 3_999, "", 6_381)),
        ("MOVED 3999 ?:6381", Turn("MOVED", 3_999, "", 6_381)),
        ("TRYAGAIN Multiple keys request during rehashing of slot", Turn("TRYAGAIN")),
        ("MOVEDABOUT 3999 127.0.0.1:6381", None),
        ("ERR MOVED 3999 127.0.0.1:6381", None),
        ("CLUSTERDOWN The cluster is down", None),
    ],
)
def test_a_server_says_where_to_go(message: str, turn: Turn | None) -> None:
    assert turn_of(message) == turn


def test_a_server_without_a_name_is_where_the_answer_came_from() -> None:
    reply = [[0, 99, [b"10.0.0.1", 1, b"id", []], [b"", 2, b"id"]], [100, 16_383, [None, 3, b"id"], [b"?", 4, b"id"]]]
    spans = spans_of(reply, ASKED)
    assert spans == [
        Span(0, 99, (ASKED.at("10.0.0.1", 1), ASKED.at("asked", 2))),
        Span(100, 16_383, (ASKED.at("asked", 3), ASKED.at("asked", 4))),
    ]
    assert [len(span) for span in spans] == [100, 16_284]
    assert spans[0].primary == Address("10.0.0.1", 1, tls=True, username="ops", password="pw")  # noqa: S106


def test_a_server_that_knows_of_no_slots_is_in_no_cluster() -> None:
    with pytest.raises(EngineUnfit, match="belongs to no Cluster") as caught:
        spans_of([], ASKED)
    assert "pw" not in str(caught.value)
