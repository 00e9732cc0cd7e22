from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langcodes import Language

from lingua_scheduler.core.language import MAX_TAG_LENGTH, UnknownLanguage, reduce_language

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("zh", "zh"),
        ("ZH", "zh"),
        ("zh-Hans-CN", "zh"),
        ("zh_TW", "zh"),
        ("cmn", "zh"),
        ("zh-cmn-Hans", "zh"),
        ("cmn_Hant_TW", "zh"),
        ("zho", "zh"),
        ("pt-BR", "pt"),
        ("EN-us", "en"),
        ("eng", "en"),
        ("sr-Latn", "sr"),
        ("es-419", "es"),
        ("arb", "ar"),
        ("haw", "haw"),
        ("fil-PH", "fil"),
        ("iw", "he"),
        ("sh", "sr"),
        ("en-x-yue", "en"),
        ("i-klingon", "tlh"),
        ("I-KLINGON", "tlh"),
    ],
)
def test_a_tag_is_reduced_to_its_base_language(tag: str, language: str) -> None:
    assert reduce_language(tag) == language


@pytest.mark.parametrize("tag", ["yue", "YUE", "zh-yue", "zh_yue", "zh-yue-HK", "yue-Hant-HK", "yue_CN"])
def test_cantonese_stays_a_language_of_its_own(tag: str) -> None:
    assert reduce_language(tag) == "yue"


@pytest.mark.parametrize("tag", ["en-Xxxx", "en-QX", "en-abcde"])
def test_an_unknown_script_region_or_variant_does_not_matter(tag: str) -> None:
    assert reduce_language(tag) == "en"


NO_LANGUAGE = (
    *("", "a", "xx", "jp", "english", "*", "auto", "en-", "-en", "en--US", "en US", "en\n", "zh:en", "{zh}"),
    *(
        "und",
        "root",
        "mul",
        "zxx",
        "mis",
        "x-zh",
        "abcd",
        "12",
        "e1",
        "i-enochian",
        "ſq",
        "ｚｈ",
        "\x00",
        "\ud800",
    ),
    *("zh-fra", "en-yue", "zh-Hant-yue", "en-US-US", "en" + "-a" * 40),
)


@pytest.mark.parametrize("tag", NO_LANGUAGE)
def test_what_names_no_language_is_refused(tag: str) -> None:
    with pytest.raises(UnknownLanguage):
        reduce_language(tag)


def test_the_refusal_quotes_the_tag_and_cuts_it_short() -> None:
    with pytest.raises(UnknownLanguage, match=r"^'k\\nx' is not a known language$"):
        reduce_language("k\nx")
    with pytest.raises(UnknownLanguage) as refused:
        reduce_language("z" * 1_000_000)
    assert str(refused.value) == f"'{'z' * MAX_TAG_LENGTH}…' is not a known language"


TAGS = st.one_of(
    st.text(max_size=50),
    st.text(alphabet="azyuexqi019-_ ", max_size=36),
    st.lists(st.text(alphabet=LETTERS + "0189", min_size=1, max_size=9), max_size=5).map("-".join),
)


@given(TAGS)
@example("zh-min-nan")
@example("en-gb-oed")
def test_any_text_gives_a_base_language_or_unknown_language(tag: str) -> None:
    try:
        language = reduce_language(tag)
    except UnknownLanguage:
        return
    assert 2 <= len(language) <= 3
    assert set(language) <= set(LETTERS)
    assert reduce_language(language) == language
    assert reduce_language(language.upper() + "_Latn-US") == language


def test_foreign_tags_do_not_fill_the_library_s_cache() -> None:
    reduce_language("en")
    before = len(Language._PARSE_CACHE)
    for number in range(1000):
        reduce_language(f"en-x-{number}")
    assert len(Language._PARSE_CACHE) == before
