from __future__ import annotations

import msgspec
import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.needs import USUAL
from lingua_scheduler.core.wanted import USUAL_WANTED, Policy, Wanted
from lingua_scheduler.protocol.options import (
    Options,
    Pipeline,
    combined,
    full_pipeline,
    limits_of,
    services_of,
    wanted_of,
)

SAID = Options(
    preferred_node_id="n1",
    strict=True,
    exclude_node_ids=["n2"],
    labels={"region": "eu"},
    policy="spread",
    bind_key="turn-1",
    wait_ms=5,
    timeout_ms=7,
)


def test_a_pipeline_is_asr_nmt_and_semantic_unless_something_is_said() -> None:
    assert set(services_of()) == set(services_of(Pipeline(), Options())) == set(USUAL)


@pytest.mark.parametrize(
    ("pipeline", "options", "services"),
    [
        (Pipeline(use_asr=False), None, {"nmt", "semantic"}),
        (Pipeline(use_nmt=False), None, {"asr", "semantic"}),
        (Pipeline(use_semantic=False), None, {"asr", "nmt"}),
        (Pipeline(use_tts=True), None, {"asr", "nmt", "semantic", "tts"}),
        (Pipeline(use_tone=True), None, {"asr", "nmt", "semantic", "tone"}),
        (None, Options(require_tts=True), {"asr", "nmt", "semantic", "tts"}),
        (Pipeline(use_tts=False), Options(require_tts=True), {"asr", "nmt", "semantic", "tts"}),
        (None, Options(require_tts=False), {"asr", "nmt", "semantic"}),
    ],
)
def test_a_job_needs_what_its_pipeline_switches_on(
    pipeline: Pipeline | None, options: Options | None, services: set[str]
) -> None:
    assert set(services_of(pipeline, options)) == services


def test_a_node_is_told_the_whole_pipeline() -> None:
    told = full_pipeline(("asr", "tts"))
    assert msgspec.to_builtins(told) == {
        "use_asr": True,
        "use_nmt": False,
        "use_tts": True,
        "use_semantic": False,
        "use_tone": False,
    }
    assert full_pipeline(services_of(told)) == told


def test_what_most_ask_for_needs_no_looking_at() -> None:
    assert wanted_of(None, services_of()) is USUAL_WANTED
    assert wanted_of(Options(strict=False, labels={}, exclude_node_ids=[]), services_of()) is USUAL_WANTED


def test_what_is_asked_for_is_looked_for() -> None:
    assert wanted_of(SAID, ("asr",), two_way=True) == Wanted(
        services=("asr",),
        preferred_node_id="n1",
        strict=True,
        exclude_node_ids=["n2"],
        labels={"region": "eu"},
        policy="spread",
        two_way=True,
        wait_ms=5,
    )


def test_who_does_not_say_how_long_he_waits_waits_as_his_door_says() -> None:
    assert wanted_of(None, wait_ms=2000).wait_ms == 2000
    assert wanted_of(Options(wait_ms=0), wait_ms=2000).wait_ms == 0


def test_the_deadline_is_the_callers_if_he_gives_one() -> None:
    limits = Limits(1, 2, 3, 4)
    assert limits_of(None, limits) == limits_of(Options(), limits) == limits
    assert limits_of(SAID, limits) == Limits(1, 2, 7, 4)


def test_an_utterance_may_ask_for_something_else_than_its_session() -> None:
    assert combined(None, None) is None
    assert combined(SAID, None) == combined(None, SAID) == combined(Options(), SAID) == SAID
    assert combined(Options(wait_ms=0, strict=False), SAID) == msgspec.structs.replace(SAID, wait_ms=0, strict=False)


def test_every_policy_can_be_asked_for() -> None:
    for policy in Policy.__members__:
        assert msgspec.convert({"policy": policy}, Options).policy == policy
