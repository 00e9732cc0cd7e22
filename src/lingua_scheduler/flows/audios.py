"""What the flows about audio have in common: how it is named, and how much of it there may be."""

from __future__ import annotations

from typing import Final

from lingua_scheduler.core.ids import check_id
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.store.keys import audio_tag

#: Whatever the settings say.
MAX_AUDIO_BYTES: Final = 4 * 1024 * 1024
#: No audio is ever kept longer at one word: it outlives a job, or waits for a session with its result; each has a day.
MAX_KEPT_MS: Final = 2 * 86_400_000
MAX_OWNER_CHARS: Final = 128
#: `audio/wav`, `pcm16`, …
MAX_MEDIA_CHARS: Final = 128


def check_ref(value: object) -> str:
    """The slot in which the audio is kept."""
    return audio_tag(check_id("audio_ref", value))


def check_audio(value: object, most: int) -> bytes:
    """At least one byte, and at most so many."""
    if type(value) is not bytes or not value:
        raise Invalid("audio must be bytes, and at least one")
    if len(value) > most:
        raise Invalid(f"The audio has {len(value)} bytes; at most {most} are taken.", "PAYLOAD_TOO_LARGE")
    return value
