"""What a mailbox remembers of its polls. What is in it is the engine's: tests/contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.front.bells import Bells
from lingua_scheduler.front.mailbox import AGAIN_MS, LOOK_MS, Mailboxes

if TYPE_CHECKING:
    from lingua_scheduler.front.directory import Directory
    from lingua_scheduler.store.engine import Engine


async def test_what_another_instance_put_there_is_found_while_the_node_can_still_accept_it() -> None:
    assert Limits().ack_ms // 4 >= LOOK_MS


async def test_nodes_that_never_poll_again_are_forgotten() -> None:
    now_ms = 0
    boxes: Any = Mailboxes(cast("Engine", None), cast("Directory", None), Bells().listening)
    boxes._now = lambda: now_ms
    for number in range(100):
        boxes._give(f"gone-{number}", [("c0.a", 1)])
    assert len(boxes._given) == 100
    assert boxes._give("gone-0", [("c0.a", 1)])[0] == [], "it was given just now"
    for _ in range(100):
        now_ms += AGAIN_MS
        assert boxes._give("here", [("c0.b", 1)])[0] == [("c0.b", 1)]
    assert set(boxes._given) == {"here"}


async def test_what_was_given_just_now_is_not_forgotten() -> None:
    now_ms = 0
    boxes: Any = Mailboxes(cast("Engine", None), cast("Directory", None), Bells().listening)
    boxes._now = lambda: now_ms
    boxes._give("n1", [("c0.a", 1)])
    now_ms = AGAIN_MS - 1
    boxes._give("n2", [("c0.b", 1)])
    assert boxes._give("n1", [("c0.a", 1), ("c0.c", 1)]) == ([("c0.c", 1)], 1)
    now_ms = AGAIN_MS
    boxes._give("n2", [("c0.b", 1)])
    assert set(boxes._given) == {"n1", "n2"}, "one of its two is still fresh"
