from __future__ import annotations

from typing import Any

import pytest

from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.protocol.options import Options, Pipeline
from lingua_scheduler.protocol.session import SessionInit, Speech, Utterance
from lingua_scheduler.protocol.speech import Agreed, Direction, audio_of, direction_of, negotiate, spoken

WEB = SessionInit(
    platform="web",
    src_lang="auto",
    tgt_lang="en",
    mode="two_way_auto",
    lang_a="zh",
    lang_b="en",
    auto_langs=["zh", "en"],
)


@pytest.mark.parametrize(
    ("platform", "codec"),
    [
        ("web", "opus"),
        ("android", "pcm16"),
        ("ios", "pcm16"),
        ("api-gateway", "pcm16"),
        (None, "pcm16"),
        ("tv", "pcm16"),
    ],
)
def test_who_names_no_codec_gets_the_legacy_default_of_his_platform(platform: str | None, codec: str) -> None:
    agreed = Agreed(codec, codec, 16_000, 1, use_binary_frame=False)
    assert negotiate(SessionInit(platform=platform)) == agreed
    assert negotiate(SessionInit(platform=platform, preferred_codec="mp3")) == agreed


def test_who_names_a_codec_gets_it_and_binary_frames_if_he_asks() -> None:
    asked = SessionInit(platform="web", preferred_codec="pcm16", supports_binary_frame=True)
    assert negotiate(asked) == Agreed("pcm16", "pcm16", 16_000, 1, use_binary_frame=True)
    assert negotiate(SessionInit(preferred_codec="opus", supports_binary_frame=False)).codec == "opus"
    assert not negotiate(SessionInit(supports_binary_frame=False)).use_binary_frame


def test_one_way_is_a_pair_of_base_languages() -> None:
    for mode in (None, "one_way"):
        assert direction_of(Speech(src_lang="zh-Hans-CN", tgt_lang="pt_BR", mode=mode)) == Direction(
            Pair("zh", "pt"), two_way=False, src_lang="zh", tgt_lang="pt", mode=mode
        )


def test_both_ways_need_both_pools_and_the_node_decides() -> None:
    assert direction_of(WEB) == Direction(
        pair=Pair("zh", "en"),
        two_way=True,
        src_lang="auto",
        tgt_lang="en",
        mode="two_way_auto",
        lang_a="zh",
        lang_b="en",
        auto_langs=["zh", "en"],
        candidates=["zh", "en"],
    )


def test_what_a_client_gave_is_handed_on_as_given_and_the_candidates_reduced() -> None:
    found = direction_of(
        Speech(src_lang="auto", tgt_lang="en-US", mode="two_way_auto", lang_a="zh-TW", lang_b="en-GB", auto_langs=["x"])
    )
    assert (found.tgt_lang, found.lang_a, found.lang_b, found.auto_langs) == ("en-US", "zh-TW", "en-GB", ["x"])
    assert (found.pair, found.candidates) == (Pair("zh", "en"), ["zh", "en"])


@pytest.mark.parametrize(
    "speech",
    [
        Speech(src_lang="auto", tgt_lang="en", auto_langs=["zh", "en"]),
        Speech(src_lang="auto", tgt_lang="en", lang_a="zh", lang_b="en"),
        Speech(src_lang="auto", tgt_lang="en", lang_a="zh", auto_langs=["zh", "en"]),
        Speech(src_lang="zh", tgt_lang="en", mode="two_way_auto"),
        Speech(src_lang="zh", tgt_lang="en", mode="two_way_auto", auto_langs=[]),
    ],
)
def test_candidates_are_found_where_they_are(speech: Speech) -> None:
    found = direction_of(speech)
    assert (found.pair, found.two_way, found.mode) == (Pair("zh", "en"), True, "two_way_auto")
    assert (found.src_lang, found.candidates, found.lang_a, found.lang_b) == ("auto", ["zh", "en"], "zh", "en")


@pytest.mark.parametrize(
    "speech",
    [
        Speech(src_lang="auto", tgt_lang="en"),
        Speech(src_lang="auto", tgt_lang="en", mode="one_way"),
        Speech(src_lang="auto", tgt_lang="en", mode="two_way_auto"),
        Speech(src_lang="auto", tgt_lang="en", mode="two_way_auto", lang_a="zh"),
        Speech(src_lang="auto", tgt_lang="en", auto_langs=["zh"]),
        Speech(src_lang="auto", tgt_lang="en", auto_langs=["zh", "en", "fr"]),
        Speech(tgt_lang="en", mode="two_way_auto"),
    ],
)
def test_auto_without_candidates_is_invalid(speech: Speech) -> None:
    with pytest.raises(Invalid) as refused:
        direction_of(speech)
    assert refused.value.refusal.code == "INVALID_MESSAGE"
    assert refused.value.refusal.detail.startswith("src_lang: auto needs candidates")


@pytest.mark.parametrize(
    ("speech", "detail"),
    [
        (Speech(src_lang="klingon", tgt_lang="en"), "src_lang: 'klingon' is not a known language"),
        (Speech(src_lang="en", tgt_lang="auto"), "tgt_lang: 'auto' is not a known language"),
        (Speech(src_lang="en"), "tgt_lang: missing"),
        (Speech(tgt_lang="en"), "src_lang: missing"),
        (Speech(src_lang="auto", lang_a="xx", lang_b="en"), "lang_a: 'xx' is not a known language"),
        (Speech(src_lang="auto", lang_a="en", lang_b="xx"), "lang_b: 'xx' is not a known language"),
        (Speech(src_lang="auto", auto_langs=["en", "xx"]), "auto_langs: 'xx' is not a known language"),
    ],
)
def test_an_unknown_language_is_named(speech: Speech, detail: str) -> None:
    with pytest.raises(Invalid) as refused:
        direction_of(speech)
    assert refused.value.refusal.detail == detail


def test_an_utterance_takes_from_its_session_what_it_does_not_say() -> None:
    session = SessionInit(
        src_lang="en",
        tgt_lang="zh",
        dialect="d",
        features={"a": True},
        trace_id="t",
        pipeline=Pipeline(use_tts=True),
        options=Options(policy="spread", wait_ms=5),
    )
    bare = spoken(Utterance(audio="", utterance_index=0), session)
    assert {name: getattr(bare, name) for name in Speech.__struct_fields__} == {
        name: getattr(session, name) for name in Speech.__struct_fields__
    }
    own = spoken(Utterance(audio="x", utterance_index=3, tgt_lang="fr", options=Options(wait_ms=0)), session)
    assert (own.src_lang, own.tgt_lang, own.audio, own.utterance_index) == ("en", "fr", "x", 3)
    assert own.options == Options(policy="spread", wait_ms=0)


def within(session: SessionInit, **said: Any) -> Direction:
    """In which direction an utterance of this session goes."""
    return direction_of(spoken(Utterance(audio="", utterance_index=0, **said), session))


@pytest.mark.parametrize(
    "said",
    [
        {"mode": "two_way_auto"},
        {"lang_a": "zh"},
        {"lang_b": "en"},
        {"auto_langs": ["zh", "en"]},
        {"auto_langs": ["zh", "en"], "mode": "two_way_auto"},
        {"src_lang": "auto", "mode": "two_way_auto"},
    ],
)
def test_the_fields_of_the_mode_are_left_out_one_by_one(said: dict[str, Any]) -> None:
    assert within(WEB, **said) == direction_of(WEB)


def test_candidates_that_an_utterance_names_itself_are_its_own() -> None:
    german = within(WEB, lang_a="fr", lang_b="de")
    assert (german.mode, german.lang_a, german.lang_b) == ("two_way_auto", "fr", "de")
    assert german.candidates == german.auto_langs == ["fr", "de"]
    half = within(WEB, lang_a="fr")
    assert half.candidates == half.auto_langs == ["fr", "en"]
    listed = within(WEB, auto_langs=["fr", "de"])
    assert (listed.lang_a, listed.lang_b, listed.auto_langs) == ("fr", "de", ["fr", "de"])
    three = within(WEB, auto_langs=["zh", "en", "fr"])
    assert (three.candidates, three.auto_langs) == (["zh", "en"], ["zh", "en", "fr"])
    by_list = SessionInit(src_lang="auto", auto_langs=["zh", "en"])
    assert within(by_list, lang_a="zh").candidates == ["zh", "en"]


def test_an_utterance_may_go_one_way_in_a_session_of_both() -> None:
    assert within(WEB, src_lang="fr", tgt_lang="de", mode="one_way") == Direction(
        Pair("fr", "de"), two_way=False, src_lang="fr", tgt_lang="de", mode="one_way"
    )


def test_audio_is_base64() -> None:
    assert audio_of("audio", "UENN") == b"PCM"
    assert audio_of("audio", "") == b""
    for wrong in ("UEN", "UE N", "UENN!", "早", "UENN\n"):
        with pytest.raises(Invalid, match=r"^payload: expected base64$"):
            audio_of("payload", wrong)
