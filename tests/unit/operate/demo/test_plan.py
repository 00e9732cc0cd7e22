"""Who is in a demo, by its seed."""

from __future__ import annotations

from itertools import islice

import pytest

from lingua_scheduler.operate.demo.plan import Conversation, conversations_of, fleet_of, processes_for


def test_the_same_seed_is_the_same_demo_and_another_is_not() -> None:
    fleet = fleet_of(7, 12)
    assert fleet == fleet_of(7, 12)
    assert fleet != fleet_of(8, 12)
    callers = conversations_of(7, 20, fleet)
    assert callers == conversations_of(7, 20, fleet)
    assert callers != conversations_of(8, 20, fleet)


def test_a_larger_fleet_begins_with_the_smaller_one() -> None:
    assert fleet_of(1, 40)[:12] == fleet_of(1, 12)


@pytest.mark.parametrize("nodes", [1, 2, 12, 200])
def test_somebody_serves_each_conversation(nodes: int) -> None:
    fleet = fleet_of(1, nodes)
    for conversation in conversations_of(1, 50, fleet):
        assert any(set(conversation.languages) <= set(member.languages) for member in fleet)


def test_people_talk_in_turns_in_both_directions() -> None:
    conversation = Conversation("caller-0", ("en", "zh"), "a seed")
    turns = list(islice(conversation.turns(), 40))
    assert turns == list(islice(conversation.turns(), 40))
    assert {(turn.src, turn.tgt) for turn in turns} == {("en", "zh"), ("zh", "en")}
    # Each of the two has a voice.
    assert len({(turn.src, turn.pitch_hz) for turn in turns}) == 2
    assert len({turn.speech_s for turn in turns}) == 40


@pytest.mark.parametrize(("nodes", "processes"), [(1, 1), (2, 2), (3, 3), (12, 3), (150, 3), (151, 4), (500, 10)])
def test_nodes_share_processes(nodes: int, processes: int) -> None:
    assert processes_for(nodes) == processes


def test_no_process_takes_a_language_with_it() -> None:
    fleet = fleet_of(1, 15)
    everywhere = {language for member in fleet for language in member.languages}
    for first in range(processes_for(15)):
        assert {language for member in fleet[first::3] for language in member.languages} == everywhere
