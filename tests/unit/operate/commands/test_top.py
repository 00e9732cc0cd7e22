"""What `lingua top` draws, in terminals of any size."""

from __future__ import annotations

import pytest
from rich.console import Console

from lingua_scheduler.operate.commands.top import Watch


def stats(**more: object) -> dict[str, object]:
    usual: dict[str, object] = {
        "nodes": {"available": 2, "full": 1, "lost": 1},
        "slots": {"total": 9, "used": 5, "free": 4},
        "pools": [
            {"pair": "en:zh", "nodes": 3, "living": 3, "slots": 8, "free": 4, "waiting": 0},
            {"pair": "zh:en", "nodes": 1, "living": 1, "slots": 1, "free": 0, "waiting": 7},
        ],
        "jobs": {"in_flight": 5, "waiting": 7, "finished_total": 1_234, "failed_total": 2},
        "sessions": 3,
        "instances": 2,
        "dispatch_ms": {"p50": 1.0, "p95": 2.5, "p99": None},
        "health": {"ok": False, "problems": ["1 of 4 nodes is lost"]},
    }
    return usual | more


def node(node_id: str, standing: str = "available") -> dict[str, object]:
    return {"node_id": node_id, "standing": standing, "used": 1, "max": 2}


def drawn(watch: Watch, width: int = 100, height: int = 40) -> str:
    console = Console(width=width, height=height, color_system=None, record=True, file=None, quiet=True)
    console.quiet = False
    with console.capture() as captured:
        console.print(watch.draw(width, height))
    return captured.get()


def test_the_four_numbers_the_pools_and_what_is_wrong() -> None:
    watch = Watch("http://here")
    watch.see(stats(), [node("n1"), node("n2", "lost")])
    text = drawn(watch)
    for said in ("ready nodes", "2.5", "1 of 4 nodes is lost", "zh:en", "one node", "7 wait", "n2", "1,234 done"):
        assert said in text
    assert text.index("zh:en") < text.index("en:zh")


def test_a_suspect_that_is_tried_with_a_job_is_told_from_one_that_is_trusted() -> None:
    watch = Watch("http://here")
    watch.see(stats(), [node("n1") | {"suspect": False}])
    assert "on trial" not in drawn(watch)
    watch.see(stats(), [node("n1") | {"suspect": True}])
    assert "on trial" in drawn(watch)


def test_what_is_old_says_so_and_is_still_shown() -> None:
    watch = Watch("http://here")
    watch.miss("nobody answers")
    assert "nobody answers" in drawn(watch)
    watch.see(stats(health={"ok": True, "problems": []}), [])
    assert "all is well" in drawn(watch)
    watch.miss("nobody answers")
    text = drawn(watch)
    assert "not answered since: nobody answers" in text
    assert "all is well" not in text
    assert "in flight" in text


def test_more_problems_than_there_is_room_for_are_counted_and_nodes_that_nobody_could_see_stay() -> None:
    watch = Watch("http://here")
    watch.see(stats(), [node("n1")])
    watch.see(stats(health={"ok": False, "problems": [f"problem {number}" for number in range(5)]}), None)
    text = drawn(watch)
    assert "and 2 more" in text
    assert "n1" in text


@pytest.mark.parametrize(("width", "height"), [(40, 12), (80, 24), (200, 60)])
def test_a_fleet_of_any_size_fits_any_terminal(width: int, height: int) -> None:
    watch = Watch("http://here")
    many = [
        {"pair": f"en:{number}", "nodes": 2, "living": 2, "slots": 4, "free": 4, "waiting": 0} for number in range(300)
    ]
    for _ in range(100):
        watch.see(stats(pools=many), [node(f"a-node-with-a-long-name-{number}") for number in range(500)])
    text = drawn(watch, width, height)
    assert max(map(len, text.splitlines())) <= width
    assert "288 more" in text
