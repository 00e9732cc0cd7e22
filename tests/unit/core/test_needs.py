from __future__ import annotations

import itertools

import pytest

from lingua_scheduler.core.capability import SERVICES
from lingua_scheduler.core.needs import (
    LACKING,
    LACKS,
    MARKED,
    MUTE,
    PRIVATE,
    USUAL,
    lacks_of,
    needs_of,
    services_in,
)
from lingua_scheduler.core.records import Profile


def profile(
    services: list[tuple[str, bool]] | None = None, tts: list[str] | bool = False, *, public: bool = True
) -> Profile:
    return Profile("", "", "", 0, ["en"], False, True, tts, services or [], [], public, [], "", "", [], 0, 0, False, 0)


def test_every_need_has_a_bit_of_its_own() -> None:
    bits = [*LACKING.values(), *MARKED.values(), MUTE, PRIVATE]
    assert sorted(bits) == [1 << number for number in range(12)]
    assert LACKS == 1 << 12
    assert list(LACKING) == list(MARKED) == list(SERVICES)


def test_a_job_is_stopped_by_what_its_services_lack_and_by_nothing_else() -> None:
    assert needs_of([]) == PRIVATE
    assert needs_of(["asr"]) == LACKING["asr"] | MARKED["asr"] | PRIVATE
    assert needs_of(["nmt", "asr", "nmt"]) == needs_of(("asr", "nmt"))
    assert needs_of(SERVICES) == LACKS - 1


def test_only_a_voice_needs_the_target_spoken() -> None:
    assert [bool(needs_of([name]) & MUTE) for name in SERVICES] == [name == "tts" for name in SERVICES]
    assert needs_of(USUAL) & (MUTE | LACKING["tts"] | LACKING["tone"]) == 0


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_lacking_only_if_the_node_says_so(service: str) -> None:
    assert lacks_of(profile([(service, False)]), "zh") == LACKING[service] | MUTE
    assert lacks_of(profile([(service, True)]), "zh") == MUTE
    assert lacks_of(profile(), "zh") == MUTE


@pytest.mark.parametrize(
    ("tts", "target", "speaks"),
    [
        (["zh"], "zh", True),
        (["en", "zh"], "en", True),
        (["en"], "zh", False),
        ([], "zh", False),
        (False, "zh", False),
        (["en", "zh"], "*", False),
    ],
)
def test_a_node_speaks_what_it_declares(tts: list[str] | bool, target: str, speaks: bool) -> None:
    assert lacks_of(profile(tts=tts), target) == (0 if speaks else MUTE)


def test_a_private_node_lacks_permission() -> None:
    assert lacks_of(profile(tts=["zh"], public=False), "zh") == PRIVATE
    everything = [(name, False) for name in SERVICES]
    assert lacks_of(profile(everything, public=False), "zh") == sum(LACKING.values()) | MUTE | PRIVATE


def test_a_job_fits_a_node_exactly_if_the_node_has_all_that_it_needs() -> None:
    for declared in itertools.product([False, True], repeat=len(SERVICES)):
        has = {name for name, there in zip(SERVICES, declared, strict=True) if there}
        lacks = lacks_of(profile([(name, name in has) for name in SERVICES], ["zh"]), "zh")
        for count in range(len(SERVICES) + 1):
            for wanted in itertools.combinations(SERVICES, count):
                assert (needs_of(wanted) & lacks == 0) == (set(wanted) <= has)


def test_services_are_named_in_their_usual_order_and_nothing_else_is() -> None:
    assert services_in(0) == []
    assert services_in(LACKING["tone"] | LACKING["asr"]) == ["asr", "tone"]
    assert services_in(sum(LACKING.values())) == list(SERVICES)
    assert services_in(sum(MARKED.values()) | MUTE | PRIVATE) == []
