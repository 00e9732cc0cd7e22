"""What the flows about a session have in common: how it is named, and its bounds."""

from __future__ import annotations

from typing import Final

from lingua_scheduler.core.ids import check_id
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.keys import session_tag

#: How long a session may be remembered after its last use: as long as any record of a job, and a day.
MAX_SESSION_MS: Final = 31 * 86_400_000
#: Of what must be shown to take a session over.
MAX_TOKEN_CHARS: Final = 128
#: What a session needs to go on elsewhere is numbers and names, no text and no audio. More than any session can have.
MAX_STATE_BYTES: Final = 4 * 1024 * 1024


def check_session(value: object) -> str:
    """The slot of a session."""
    return session_tag(check_id("session_id", value))


def others_session(session_id: str) -> Refusal:
    """Somebody else came first to this name."""
    return Refusal("FORBIDDEN", f"session_id: {session_id} is somebody else's; take another.")


def check_principal(value: object) -> str:
    """Whose the session is; "" is nobody in particular."""
    return "" if type(value) is str and not value else check_id("principal", value)


def check_state(value: object) -> bytes:
    """The state of a session: bytes that only its owner can read."""
    if type(value) is bytes and len(value) <= MAX_STATE_BYTES:
        return value
    raise Invalid(f"state must be at most {MAX_STATE_BYTES} bytes")
