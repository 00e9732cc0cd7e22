from __future__ import annotations

from typing import Any

import pytest

from lingua_scheduler.core.capability import MAX_LANGUAGES, MAX_PAIRS, capability, check_joining, why_no_pool
from lingua_scheduler.core.refusal import Invalid


def test_a_word_is_put_into_one_form() -> None:
    word, warnings = capability(
        semantic_langs=["zh-TW", "en", "ZH"],
        asr_langs=("en", "en-GB"),
        nmt_pairs=[["zh", "en"], ["en-US", "zh"], ["en", "zh_CN"], ("*", "fr")],
        tts_langs=[],
        services={"tts": False, "asr": True},
        labels={"region": "eu", "group": "a"},
        accept_public_jobs=False,
    )
    assert word == {
        "semantic": ["en", "zh"],
        "legacy": False,
        "asr": ["en"],
        "nmt": ["*:fr", "en:zh", "zh:en"],
        "tts": [],
        "services": [("asr", True), ("tts", False)],
        "labels": [("group", "a"), ("region", "eu")],
        "public": False,
    }
    assert warnings == []


def test_what_is_left_out_stays_out() -> None:
    assert capability() == ({}, [])
    assert capability(nmt_pairs="any") == ({"nmt": True}, [])
    assert capability(nmt_pairs=[]) == ({"nmt": []}, [])
    assert capability(accept_public_jobs=True) == ({"public": True}, [])


def test_an_empty_list_of_semantic_languages_cannot_be_right() -> None:
    with pytest.raises(Invalid) as refused:
        capability(semantic_langs=[])
    assert refused.value.refusal.code == "INVALID_CAPABILITY_SCHEMA"
    assert capability(semantic_langs=[], lenient=True) == ({"semantic": [], "legacy": True}, [])


@pytest.mark.parametrize("lenient", [True, False])
def test_only_who_says_that_it_is_not_ready_may_join_without_them(lenient: bool) -> None:
    check_joining({}, ["xx"])
    check_joining({"legacy": lenient, "services": [("asr", True), ("semantic", False)]}, [])
    for services in ([], [("semantic", True)], [("asr", False)]):
        with pytest.raises(Invalid) as refused:
            check_joining({"legacy": lenient, "services": services}, [])
        assert refused.value.refusal.code == "INVALID_CAPABILITY_SCHEMA"


@pytest.mark.parametrize("field", ["semantic_langs", "asr_langs", "tts_langs"])
def test_sixty_four_languages_are_the_most(field: str) -> None:
    tags: list[str] = ["en"] * MAX_LANGUAGES
    capability(**{field: tags})  # type: ignore[arg-type]  # any of them
    with pytest.raises(Invalid, match=f"{field} has 65 languages; 64 are the most") as refused:
        capability(**{field: [*tags, "en"]})  # type: ignore[arg-type]  # any of them
    assert refused.value.refusal.code == "INVALID_CAPABILITY_SCHEMA"


def test_a_thousand_and_twenty_four_pairs_are_the_most() -> None:
    capability(nmt_pairs=[["en", "zh"]] * MAX_PAIRS)
    with pytest.raises(Invalid, match="nmt_pairs has 1025 pairs; 1024 are the most") as refused:
        capability(nmt_pairs=[["en", "zh"]] * (MAX_PAIRS + 1))
    assert refused.value.refusal.code == "INVALID_CAPABILITY_SCHEMA"


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        ({"semantic_langs": "en"}, "semantic_langs must be a list of language tags"),
        ({"semantic_langs": [1]}, "semantic_langs must be a list of language tags"),
        ({"asr_langs": {"en": True}}, "asr_langs must be a list of language tags"),
        ({"tts_langs": b"en"}, "tts_langs must be a list of language tags"),
        ({"asr_langs": ["xx"]}, "asr_langs: 'xx' is not a known language"),
        ({"nmt_pairs": "some"}, 'nmt_pairs must be a list of [src, tgt], or "any"'),
        ({"nmt_pairs": {"en": "zh"}}, 'nmt_pairs must be a list of [src, tgt], or "any"'),
        ({"nmt_pairs": ["en"]}, "nmt_pairs must be a list of [src, tgt]"),
        ({"nmt_pairs": [["en"]]}, "nmt_pairs must be a list of [src, tgt]"),
        ({"nmt_pairs": [["en", "zh", "fr"]]}, "nmt_pairs must be a list of [src, tgt]"),
        ({"nmt_pairs": [["en", 1]]}, "nmt_pairs must be a list of language tags"),
        ({"nmt_pairs": [["en", "xx"]]}, "nmt_pairs: 'xx' is not a known language"),
        ({"services": ["asr"]}, "services must map some of asr, nmt, tts, semantic, tone to true or false"),
        ({"services": {"asr": 1}}, "services.asr must be true or false, not 1"),
        ({"services": {"ocr": True, "asr": 1}}, "services.asr must be true or false, not 1"),
        ({"labels": ["eu"]}, "labels must map at most 32 names to texts"),
        ({"labels": {str(n): "" for n in range(33)}}, "labels must map at most 32 names to texts"),
        ({"labels": {"x" * 65: ""}}, "a label's name must be text of at most 64 characters"),
        ({"labels": {"a": "x" * 129}}, "labels.a must be text of at most 128 characters"),
        ({"labels": {"a": 1}}, "labels.a must be text of at most 128 characters"),
        ({"accept_public_jobs": "yes"}, "accept_public_jobs must be true or false, not 'yes'"),
    ],
)
def test_what_does_not_fit_is_refused_by_the_name_of_its_field(said: dict[str, Any], detail: str) -> None:
    with pytest.raises(Invalid) as refused:
        capability(**said)
    assert refused.value.refusal.code == "INVALID_MESSAGE"
    assert refused.value.refusal.detail.startswith(detail)


def test_a_field_node_s_unknown_languages_are_dropped_one_by_one() -> None:
    word, warnings = capability(
        semantic_langs=["en", "xx"], nmt_pairs=[["en", "yy"], ["en", "zh"], ["*", "*"]], lenient=True
    )
    assert word == {"semantic": ["en"], "legacy": True, "nmt": ["*:*", "en:zh"]}
    assert warnings == [
        "semantic_langs: 'xx' is not a known language; dropped",
        "nmt_pairs: 'yy' is not a known language; dropped",
    ]


def test_a_field_node_is_not_forgiven_what_is_no_list() -> None:
    with pytest.raises(Invalid):
        capability(semantic_langs="en", lenient=True)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ({"semantic": []}, "no pool: no language with semantic repair"),
        ({}, ""),
        ({"semantic": ["en"], "asr": []}, "no pool: no language has both semantic repair and asr"),
        ({"semantic": ["en"], "asr": ["zh"]}, "no pool: no language has both semantic repair and asr"),
        ({"semantic": ["en"], "nmt": []}, "no pool: nmt_pairs is empty"),
        (
            {"semantic": ["en"], "nmt": ["zh:en"]},
            "no pool: no nmt pair begins with a language that has semantic repair and asr",
        ),
        ({"semantic": ["en"], "tts": []}, "no pool: nmt_pairs is not declared and tts_langs is empty"),
    ],
)
def test_a_node_without_a_pool_is_told_what_is_missing(word: dict[str, object], why: str) -> None:
    assert why_no_pool(word) == why


@pytest.mark.parametrize("more", [{"ocr": True}, {"ocr": "soon"}, {1: 2}, {"tone": None}, {"ocr": None}])
def test_a_service_that_is_unknown_and_one_that_is_null_are_left_out(more: dict[object, object]) -> None:
    assert capability(services={"tts": False, "asr": True, **more}) == (
        {"services": [("asr", True), ("tts", False)]},
        [],
    )
