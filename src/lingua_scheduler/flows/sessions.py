"""What the flows about a session have in common: how it is named, and its bounds."""

from __future__ import annotations

from typing import Final

from lingua_scheduler.core.ids import check_bool, check_id, check_int, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.core.ticket import LAST_INDEX
from lingua_scheduler.store.face import Answer, No
from lingua_scheduler.store.keys import session_tag

#: How long a session may be remembered after its last use: as long as any record of a job, and a day.
MAX_SESSION_MS: Final = 31 * 86_400_000
#: Of what must be shown to take a session over.
MAX_TOKEN_CHARS: Final = 128
#: What a session needs to go on elsewhere is numbers and names, no text and no audio. More than any session can have.
MAX_STATE_BYTES: Final = 4 * 1024 * 1024
#: What it has heard stands beside it: as much as may be on its way to a node, and an utterance. No session has more.
MAX_HEARD_BYTES: Final = 12 * 1024 * 1024


class Saved(Answer, frozen=True, tag="SAVED"):
    """Whoever takes the session over goes on from here."""


def check_session(value: object) -> str:
    """The slot of a session."""
    return session_tag(check_id("session_id", value))


def others_session(session_id: str) -> Refusal:
    """Somebody else came first to this name."""
    return Refusal("FORBIDDEN", f"session_id: {session_id} is somebody else's; take another.")


def check_saving(
    principal: object,
    owner: object,
    token: object,
    next_index: object,
    create: object,
    ttl_ms: object,
    opened_ms: object,
) -> tuple[str, str, str, int, bool, int, int]:
    """What every save says, beside the state."""
    return (
        check_principal(principal),
        check_id("owner", owner),
        check_text("token", token, MAX_TOKEN_CHARS),
        check_int("next_index", next_index, 0, LAST_INDEX),
        check_bool("create", create),
        check_int("ttl_ms", ttl_ms, 1, MAX_SESSION_MS),
        check_int("opened_ms", opened_ms, 0, 2**53),
    )


def not_saved(session_id: str, answer: No) -> Refusal:
    """Why not."""
    return others_session(session_id) if answer.code == "FORBIDDEN" else refuse(answer.code, audio_ref="heard")


def check_principal(value: object) -> str:
    """Whose the session is; "" is nobody in particular."""
    return "" if type(value) is str and not value else check_id("principal", value)


def check_state(value: object) -> bytes:
    """The state of a session: bytes that only its owner can read."""
    if type(value) is bytes and len(value) <= MAX_STATE_BYTES:
        return value
    raise Invalid(f"state must be at most {MAX_STATE_BYTES} bytes")
