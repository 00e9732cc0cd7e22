from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.language import UnknownLanguage
from lingua_scheduler.core.pair import Pair


def test_a_pair_is_directed_and_written_with_a_colon() -> None:
    assert str(Pair("zh", "en")) == "zh:en"
    assert Pair("zh", "en") != Pair("en", "zh")
    assert Pair.parse("zh:en") == Pair("zh", "en")


def test_both_sides_of_a_pair_are_reduced() -> None:
    assert Pair.of("ZH-Hans", "pt_BR") == Pair("zh", "pt")
    assert Pair.parse("zh-yue:en-US") == Pair("yue", "en")


def test_a_pair_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Pair("zh", "en").src = "yue"  # type: ignore[misc]  # the point of the test


@pytest.mark.parametrize("text", ["", ":", "zh", "zh:", ":en", "zh:en:fr", "zh-en", "zh:xx", "*:zh", "zh:" + "e" * 99])
def test_what_is_not_a_pair_is_refused(text: str) -> None:
    with pytest.raises(UnknownLanguage):
        Pair.parse(text)


@pytest.mark.parametrize(
    ("pair", "fallback"),
    [
        ("yue:en", "zh:en"),
        ("en:yue", "en:zh"),
        ("yue:yue", "zh:zh"),
        ("yue:zh", "zh:zh"),
        ("zh:yue", "zh:zh"),
    ],
)
def test_cantonese_falls_back_to_chinese_on_either_side(pair: str, fallback: str) -> None:
    assert Pair.parse(pair).fallback() == Pair.parse(fallback)


@pytest.mark.parametrize("pair", ["zh:en", "en:zh", "zh:zh", "pt:fr"])
def test_no_other_pair_falls_back(pair: str) -> None:
    assert Pair.parse(pair).fallback() is None


@given(st.text(max_size=80) | st.text(alphabet="zhenyu:-_", max_size=12))
def test_any_text_gives_a_pair_or_unknown_language(text: str) -> None:
    try:
        pair = Pair.parse(text)
    except UnknownLanguage:
        return
    assert Pair.parse(str(pair)) == pair
    assert str(pair).count(":") == 1
