from __future__ import annotations

from typing import Any

import pytest

from lingua_scheduler.core.capability import MAX_LABELS, SERVICES
from lingua_scheduler.core.needs import USUAL, needs_of
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.records import Wishes
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.core.ticket import make_ticket
from lingua_scheduler.core.wanted import (
    MAX_NAMED,
    NO_HINTS,
    USUAL_WANTED,
    Hints,
    Policy,
    Wanted,
    check_policy,
    check_services,
    wishes_of,
)

PAIR = Pair("en", "zh")


def wishes(**what: Any) -> list[Wishes]:
    """What is wished by fields of `Wanted` and `Hints`."""
    hints = {name: what.pop(name) for name in Hints.__struct_fields__ if name in what}
    return wishes_of(Wanted(**what), Hints(**hints), PAIR)


# Services and policies.


@pytest.mark.parametrize("services", [[], ["asr"], USUAL, SERVICES, ("tts", "tts", "asr")], ids=str)
def test_services_are_put_into_one_form(services: list[str]) -> None:
    assert check_services(services) == sorted(set(services))


@pytest.mark.parametrize(
    "wrong", [None, "asr", b"asr", 1, {"asr": True}, {"asr"}, ["ASR"], ["asr", None], ["asr", ""], [["asr"]]], ids=repr
)
def test_what_is_no_list_of_services_is_refused(wrong: object) -> None:
    with pytest.raises(Invalid, match="services must be a list of some of asr, nmt, tts, semantic, tone"):
        check_services(wrong)


@pytest.mark.parametrize("name", ["random", "spread", "sticky_pool", "least_loaded"])
def test_a_policy_is_known_by_its_name(name: str) -> None:
    assert check_policy(name).name == name


def test_a_job_that_says_nothing_is_placed_at_random_with_the_usual_services() -> None:
    assert Wanted().policy == ""
    assert check_policy("") is Policy.random
    assert check_services(Wanted().services) == ["asr", "nmt", "semantic"]


@pytest.mark.parametrize("wrong", [None, "Random", "best", 0, Policy.random, ["random"], b"random"], ids=repr)
def test_a_policy_that_nobody_knows_is_refused(wrong: object) -> None:
    with pytest.raises(Invalid, match="policy must be one of random, spread, sticky_pool, least_loaded"):
        check_policy(wrong)


# Wishes.


def test_most_jobs_wish_for_nothing() -> None:
    assert wishes() == []
    usual: dict[str, Any] = {"services": SERVICES, "policy": "spread", "wait_ms": 7}
    assert wishes(**usual, exclude_node_ids=(), labels={}, seen_node_ids=[]) == []


@pytest.mark.parametrize(
    ("what", "wish"),
    [
        ({"preferred_node_id": "n1"}, Wishes(named="n1")),
        ({"preferred_node_id": "n1", "strict": True}, Wishes(named="n1", strict=1)),
        ({"exclude_node_ids": ("n2", "n1", "n2")}, Wishes(excluded=["n1", "n2"])),
        ({"labels": {"b": "2", "a": "1"}}, Wishes(labels=[("a", "1"), ("b", "2")])),
        ({"two_way": True}, Wishes(back="zh:en")),
        ({"bound_node_id": "n1"}, Wishes(bound="n1")),
        ({"last_node_id": "n1", "policy": "spread"}, Wishes(last="n1")),
        ({"last_pool": "a pool: any text", "policy": "sticky_pool"}, Wishes(pool="a pool: any text")),
        ({"seen_node_ids": ["n2", "n1", "n1"]}, Wishes(seen=["n1", "n2"])),
    ],
    ids=str,
)
def test_a_wish_is_put_into_one_form(what: dict[str, Any], wish: Wishes) -> None:
    assert wishes(**what) == [wish]


def test_all_wishes_are_one_record() -> None:
    found = wishes(
        preferred_node_id="n1",
        strict=True,
        exclude_node_ids=["n2"],
        labels={"a": "1"},
        two_way=True,
        bound_node_id="n1",
        policy="spread",
        last_node_id="n1",
        last_pool="blue",
        seen_node_ids=["n1", "n2"],
    )
    assert found == [Wishes("n1", 1, ["n2"], [("a", "1")], "zh:en", "n1", "n1", "", ["n1", "n2"])]


@pytest.mark.parametrize("policy", ["", "random", "least_loaded"])
def test_what_a_policy_does_not_ask_for_is_no_wish(policy: str) -> None:
    assert wishes(policy=policy, last_node_id="n1", last_pool="blue") == []


@pytest.mark.parametrize("field", ["exclude_node_ids", "seen_node_ids"])
def test_sixteen_nodes_are_the_most_that_can_be_named(field: str) -> None:
    names = [f"n{number:02}" for number in range(MAX_NAMED)]
    assert MAX_NAMED == 16
    assert {tuple(wish.excluded or wish.seen) for wish in wishes(**{field: names})} == {tuple(names)}
    with pytest.raises(Invalid, match=f"{field} must be a list of at most 16 node ids"):
        wishes(**{field: [*names, "n99"]})
    with pytest.raises(Invalid, match=f"{field} must be a list of at most 16 node ids"):
        wishes(**{field: ["n1"] * 17})


@pytest.mark.parametrize("field", ["exclude_node_ids", "seen_node_ids"])
@pytest.mark.parametrize("wrong", [None, "n1", b"n1", 1, {"n1"}, {"n1": 1}, [None], [1], [""], ["{c0}"], [["n1"]]])
def test_what_is_no_list_of_node_ids_is_refused_by_its_name(field: str, wrong: object) -> None:
    with pytest.raises(Invalid, match=field):
        wishes(**{field: wrong})


@pytest.mark.parametrize("field", ["preferred_node_id", "bound_node_id", "last_node_id"])
@pytest.mark.parametrize("wrong", ["{c0}", "a b", "a:b", "-n", "n\n", "x" * 129, 1, True, b"n1", ["n1"]], ids=repr)
def test_what_is_no_node_id_is_refused_by_its_name(field: str, wrong: object) -> None:
    with pytest.raises(Invalid, match=f"{field} must be 1 to 128 of"):
        wishes(**{field: wrong})


@pytest.mark.parametrize("field", ["strict", "two_way"])
@pytest.mark.parametrize("wrong", [None, 0, 1, "", "true", []], ids=repr)
def test_yes_or_no_is_true_or_false(field: str, wrong: object) -> None:
    with pytest.raises(Invalid, match=f"{field} must be true or false"):
        wishes(preferred_node_id="n1", **{field: wrong})


@pytest.mark.parametrize("wrong", [None, 1, "x" * 129, "\ud800", b"blue"], ids=repr)
def test_a_pool_is_a_short_text(wrong: object) -> None:
    with pytest.raises(Invalid, match="last_pool"):
        wishes(last_pool=wrong)


@pytest.mark.parametrize(
    "wrong", [None, [], [("a", "b")], "a", {"a": 1}, {1: "a"}, {"a": "x" * 129}, {"x" * 65: ""}], ids=repr
)
def test_labels_are_short_texts_by_name(wrong: object) -> None:
    with pytest.raises(Invalid, match="label"):
        wishes(labels=wrong)


def test_thirty_two_labels_are_the_most() -> None:
    labels = {str(number): "" for number in range(MAX_LABELS)}
    assert len(wishes(labels=labels)[0].labels) == 32
    with pytest.raises(Invalid, match="labels must map at most 32 names to texts"):
        wishes(labels=labels | {"one": "more"})


def test_a_node_cannot_be_preferred_and_excluded() -> None:
    with pytest.raises(Invalid, match="preferred_node_id is among exclude_node_ids"):
        wishes(preferred_node_id="n1", exclude_node_ids=["n2", "n1"])
    assert wishes(preferred_node_id="n1", exclude_node_ids=["n2"]) == [Wishes(named="n1", excluded=["n2"])]


def test_nobody_can_insist_on_no_node() -> None:
    with pytest.raises(Invalid, match="strict needs a preferred_node_id"):
        wishes(strict=True)
    with pytest.raises(Invalid, match="strict needs a preferred_node_id"):
        wishes(strict=True, bound_node_id="n1")


def test_what_needs_no_looking_at_is_what_looking_at_it_gives() -> None:
    asked = ("c0.j", "s1", "en", "zh")
    usual = make_ticket(*asked, wanted=USUAL_WANTED, hints=NO_HINTS, seed=1)
    assert usual == make_ticket(*asked, wanted=Wanted(), hints=Hints(), seed=1)
    assert usual[1].needs == needs_of(USUAL)
