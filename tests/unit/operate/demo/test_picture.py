"""What a person sees of the demo: the numbers, in terminals of any size."""

from __future__ import annotations

from collections import Counter

import pytest
from rich.console import Console

from lingua_scheduler.core.records import Standing
from lingua_scheduler.operate.demo.begin import Show
from lingua_scheduler.operate.demo.frame import Frame, Place, Pulse
from lingua_scheduler.operate.demo.picture import clock, draw
from lingua_scheduler.operate.demo.tally import Said, Tally
from lingua_scheduler.views.counts import Counts
from lingua_scheduler.views.fleet import Fleet
from lingua_scheduler.views.slots import NodeSlots, by_standing, sum_of

COUNTS = Counts(0, {}, {}, 0, 0, 0, 1_234, 0, 0, {}, {}, 56)


def frame(nodes: int, *, is_draining: bool = False) -> Frame:
    there = [NodeSlots(f"sim-{n}", n % 3, 3, 1, Standing.available) for n in range(nodes)]
    if there:
        there[0] = NodeSlots("sim-0", 1, 3, 1, Standing.lost)
    tally = Tally(submitted=1_200, done=1_178, failed_by=Counter(JOB_FAILED=7))
    tally.latest.append(Said("en", "zh", "Good morning", "早上好", 900))
    for stage in tally.stages_ms.values():
        stage.extend([321, 321, 654])
    fleet = Fleet(0, by_standing(there), sum_of(there), [], 15, 4, COUNTS, there)
    place = Place("http://127.0.0.1:5010", 1)
    languages: dict[str, tuple[str, ...]] = {node.node_id: ("en", "zh") for node in there}
    news = ["sim-7 is back"]
    return Frame(Show(nodes=nodes), place, 75.0, is_draining, tally, fleet, there, languages, Pulse(), news)


def shown(frame: Frame, width: int, height: int) -> str:
    console = Console(width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(draw(frame, width, height))
    return capture.get()


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("nodes", [0, 3, 12, 200])
def test_it_fits_into_any_terminal(width: int, nodes: int) -> None:
    lines = shown(frame(nodes), width, 24).splitlines()
    assert len(lines) <= 24
    assert max(len(line) for line in lines) <= width


def test_the_numbers_are_there() -> None:
    text = shown(frame(12), 100, 30)
    lines = text.splitlines()
    assert "1:15" in lines[0]
    assert lines[2].strip("│ ").split()[:7] == ["1,234", "15", "1,178", "7", "56", "4", "0"]
    assert lines[3].strip("│ ").split("  ")[0] == "dispatched"
    assert [line.split()[1:4] for line in lines[7:8]] == [["hear", "321", "654"]]
    assert "12 of 12 nodes" in text
    assert "Good morning" in text
    assert "早上好" in text
    assert "sim-7 is back" in text
    assert "http://127.0.0.1:5010  /dashboard  /playground  /api/v1/stats  /docs" in text


def test_nodes_have_names_while_there_is_room_and_those_in_trouble_say_so() -> None:
    text = shown(frame(12), 100, 30)
    assert "sim-11 ■■□  en zh" in text
    assert "sim-0  ■□□  lost" in text
    assert "sim-11" not in shown(frame(200), 100, 30)


def test_before_the_first_node_is_there() -> None:
    assert "the first ones are joining" in shown(frame(0), 100, 30)


def test_draining_says_how_to_stop_at_once() -> None:
    assert "draining: 15 to be answered; Ctrl-C again stops at once" in shown(frame(3, is_draining=True), 100, 30)


def test_links_can_be_followed() -> None:
    console = Console(width=100, force_terminal=True)
    with console.capture() as capture:
        console.print(draw(frame(3), 100, 30))
    assert "http://127.0.0.1:5010/docs\x1b\\" in capture.get()


def test_the_pulse_counts_whole_seconds() -> None:
    pulse = Pulse()
    for elapsed_s, done in ((0.0, 0), (0.5, 2), (1.0, 3), (1.9, 5), (2.1, 9), (5.0, 9)):
        pulse.see(elapsed_s, done)
    assert pulse.seconds[-5:] == (2, 3, 4, 0, 0)
    assert pulse.per_second == 9 / 5


def test_a_clock() -> None:
    assert [clock(seconds) for seconds in (0, 9.9, 61, 3_600)] == ["0:00", "0:09", "1:01", "60:00"]
