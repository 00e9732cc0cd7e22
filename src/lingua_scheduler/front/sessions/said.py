"""An utterance on its way to a node: what was said, cut from a stream or sent as a whole, with everything filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from lingua_scheduler.core.cutting import Cut
from lingua_scheduler.core.cutting import Utterance as Piece
from lingua_scheduler.core.refusal import CODES, Invalid
from lingua_scheduler.front.sessions.state import Whole
from lingua_scheduler.protocol.options import Options, services_of
from lingua_scheduler.protocol.speech import Agreed, Direction, audio_of, direction_of, spoken

if TYPE_CHECKING:
    from lingua_scheduler.front.sessions.state import About
    from lingua_scheduler.protocol.session import SessionInit, Speech, Utterance

    Spoken = TypeVar("Spoken", SessionInit, Utterance)

#: Pieces of a turn that goes on after them.
_GOES_ON = (Cut.max_duration, Cut.max_length)


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One utterance. `index` is None where the session numbers it."""

    index: int | None
    trace_id: str
    #: The client's span, if it has named one.
    traceparent: str | None = None
    #: When its first audio came, and when all of it was here.
    began_ms: int
    heard_ms: int
    #: How long its last audio was under way, by the client's own clock.
    web_ms: int | None = None
    audio: bytes = b""
    audio_format: str = ""
    sample_rate: int = 0
    direction: Direction | None = None
    services: tuple[str, ...] = ()
    options: Options | None = None
    dialect: str | None = None
    features: dict[str, Any] | None = None
    enable_streaming_asr: bool | None = None
    partial_update_interval_ms: int | None = None
    is_manual_cut: bool = False
    is_timeout_triggered: bool = False
    is_max_duration_triggered: bool = False
    turn_id: str | None = None
    #: Which piece of its turn it is, and the chunk before the one in which it begins.
    piece: int = 0
    before: int = -1
    bind_key: str = ""


def _wishes(speech: Speech) -> dict[str, Any]:
    """What an utterance and its session wish. `Invalid` if nobody can know what they mean."""
    options = speech.options or Options()
    return {
        "direction": direction_of(speech),
        "services": services_of(speech.pipeline, options),
        "options": speech.options,
        "dialect": speech.dialect,
        "features": speech.features,
        "enable_streaming_asr": speech.enable_streaming_asr,
        "partial_update_interval_ms": speech.partial_update_interval_ms,
        "bind_key": options.bind_key or "",
    }


def whole_of(said: Said, index: int | None) -> Whole:
    """A piece of a stream, as it is saved: what its session wants is known there."""
    cuts = {Cut.manual: said.is_manual_cut, Cut.timeout: said.is_timeout_triggered}
    cuts[Cut.max_duration] = said.is_max_duration_triggered
    cut = next((cut for cut, is_so in cuts.items() if is_so), Cut.max_length)
    return Whole(said.turn_id or "", said.piece, cut, said.began_ms, len(said.audio), index, said.before)


def piece_of(whole: Whole, audio: bytes) -> Piece:
    """The same again. Nobody asks how long it was."""
    return Piece(0, audio, whole.cut, whole.turn_id, whole.piece, 0, whole.first_ms, whole.first_ms, whole.before)


def cut_from_stream(piece: Piece, session: SessionInit, agreed: Agreed, nothing: Said, web_ms: int | None) -> Said:
    """A piece of the session's stream. Those of a turn with more than one piece want the same node.

    `nothing` is what is known of it without knowing what its session wants.
    """
    wishes = _wishes(session)
    if not wishes["bind_key"] and (piece.piece or piece.cut in _GOES_ON):
        wishes["bind_key"] = piece.turn_id
    return msgspec.structs.replace(
        nothing,
        web_ms=web_ms,
        audio=piece.audio,
        audio_format=agreed.audio_format,
        sample_rate=agreed.sample_rate,
        is_manual_cut=piece.is_manual_cut,
        is_timeout_triggered=piece.is_timeout_triggered,
        is_max_duration_triggered=piece.is_max_duration_triggered,
        turn_id=piece.turn_id,
        piece=piece.piece,
        before=piece.before,
        **wishes,
    )


def sent_whole(utterance: Utterance, about: About, max_bytes: int, nothing: Said) -> Said:
    """An utterance that came as a whole. `nothing` is what is known of it without looking into it.

    It may wish for what it likes, but for another node than the one that its session is paired with.
    """
    filled, agreed = paired(spoken(utterance, about.init), about.paired_node_id), about.agreed
    audio = audio_of("audio", utterance.audio)
    if not audio:
        raise Invalid("audio: there is none")
    if len(audio) > max_bytes:
        raise Invalid(
            f"{CODES['PAYLOAD_TOO_LARGE'].detail} An utterance has at most {max_bytes} bytes.", "PAYLOAD_TOO_LARGE"
        )
    return msgspec.structs.replace(
        nothing,
        audio=audio,
        audio_format=utterance.audio_format or agreed.audio_format,
        sample_rate=utterance.sample_rate or agreed.sample_rate,
        is_manual_cut=utterance.manual_cut is True,
        **_wishes(filled),
    )


def insisting(init: SessionInit, paired_node_id: str) -> SessionInit:
    """What is kept of how a session began: nothing secret, and the node that it was paired with, if it was."""
    kept = msgspec.structs.replace(init, token=None, resume_token=None, pairing_code=None, last_event_id=None)
    return paired(kept, paired_node_id)


def paired(speech: Spoken, node_id: str) -> Spoken:
    """The same, but insisting on this node, if there is one."""
    if not node_id:
        return speech
    options = msgspec.structs.replace(speech.options or Options(), preferred_node_id=node_id, strict=True)
    return msgspec.structs.replace(speech, options=options)
