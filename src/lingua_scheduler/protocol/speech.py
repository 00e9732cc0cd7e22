"""What a session and its utterances mean: in which direction they go, and how their audio travels."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from lingua_scheduler.core.language import UnknownLanguage, reduce_language
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.protocol.fields import Mode
from lingua_scheduler.protocol.options import combined
from lingua_scheduler.protocol.session import SessionInit, Speech, Utterance

PROTOCOL_VERSION: Final = "1.0"
SAMPLE_RATE: Final = 16_000
#: What the audio of a stream can be. `wav` is for whole utterances only.
CODECS: Final = ("pcm16", "opus")
#: The legacy default of a platform that is not `pcm16`.
_CODEC_OF: Final = {"web": "opus"}
AUTO: Final = "auto"
_TWO_WAY: Final = "two_way_auto"


class Agreed(msgspec.Struct, frozen=True):
    """How the audio of a session travels."""

    codec: str
    audio_format: str
    sample_rate: int
    channel_count: int
    use_binary_frame: bool


def negotiate(init: SessionInit) -> Agreed:
    """What the client prefers if it can be had, else the default of its platform. Binary frames only if it asks."""
    default = _CODEC_OF.get(init.platform or "", "pcm16")
    codec = init.preferred_codec if init.preferred_codec in CODECS else default
    return Agreed(codec, codec, SAMPLE_RATE, 1, init.supports_binary_frame is True)


def spoken(utterance: Utterance, session: Speech) -> Utterance:
    """An utterance with everything filled in that it leaves to its session, field by field."""
    left = {name for name in Speech.__struct_fields__ if getattr(utterance, name) is None}
    filled = {name: getattr(session, name) for name in left.difference(outdated(utterance, session))}
    filled["options"] = combined(utterance.options, session.options)
    filled["pipeline"] = combined(utterance.pipeline, session.pipeline)
    return msgspec.structs.replace(utterance, **filled)


def outdated(said: Speech, before: Speech) -> tuple[str, ...]:
    """What was said before of the candidates, and does not hold any more because they are named anew the other way.

    `lang_a` and `lang_b` name them, or two `auto_langs` do.
    """
    both, both_before = (said.lang_a or before.lang_a, said.lang_b or before.lang_b), (before.lang_a, before.lang_b)
    if both != both_before:
        return () if None in both else ("auto_langs",)
    is_new = said.auto_langs is not None and len(said.auto_langs) == len(both) and said.auto_langs != before.auto_langs
    return ("lang_a", "lang_b") if is_new else ()


class Direction(msgspec.Struct, frozen=True):
    """From which language to which: the pair that a node must serve, and what its job says of it."""

    pair: Pair
    #: The node must serve the way back too, because it decides the direction.
    two_way: bool
    src_lang: str
    tgt_lang: str
    mode: Mode | None = None
    lang_a: str | None = None
    lang_b: str | None = None
    auto_langs: list[str] | None = None
    #: Among which languages the node decides.
    candidates: list[str] | None = None


def direction_of(speech: Speech) -> Direction:
    """The direction; `Invalid` names what is missing or unknown.

    Both ways: the candidates are `lang_a` and `lang_b`, or the two `auto_langs`. A session that says `two_way_auto` and
    names both of its languages, and no other candidates, means these.
    """
    if speech.mode != _TWO_WAY and speech.src_lang != AUTO:
        pair = Pair(_reduced("src_lang", speech.src_lang), _reduced("tgt_lang", speech.tgt_lang))
        return Direction(pair, two_way=False, src_lang=pair.src, tgt_lang=pair.tgt, mode=speech.mode)
    one, other = _candidates(speech)
    return Direction(
        pair=Pair(one, other),
        two_way=True,
        src_lang=AUTO,
        tgt_lang=speech.tgt_lang or other,
        mode=_TWO_WAY,
        lang_a=speech.lang_a or one,
        lang_b=speech.lang_b or other,
        auto_langs=speech.auto_langs or [one, other],
        candidates=[one, other],
    )


def _candidates(speech: Speech) -> tuple[str, str]:
    if speech.lang_a is not None and speech.lang_b is not None:
        return _reduced("lang_a", speech.lang_a), _reduced("lang_b", speech.lang_b)
    match speech.auto_langs:
        case [one, other]:
            return _reduced("auto_langs", one), _reduced("auto_langs", other)
    if speech.src_lang not in {AUTO, None} and speech.tgt_lang is not None:
        return _reduced("src_lang", speech.src_lang), _reduced("tgt_lang", speech.tgt_lang)
    raise Invalid("src_lang: auto needs candidates: lang_a and lang_b, or two auto_langs")


def _reduced(field: str, tag: str | None) -> str:
    if tag is None:
        raise Invalid(f"{field}: missing")
    try:
        return reduce_language(tag)
    except UnknownLanguage as unknown:
        raise Invalid(f"{field}: {unknown}") from None


def audio_of(field: str, text: str) -> bytes:
    """The bytes behind base64; `Invalid` names the field."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid(f"{field}: expected base64") from None
