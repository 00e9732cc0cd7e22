"""Which names of audio are ours; any other string is somebody else's, handed on as it is and never fetched."""

from __future__ import annotations

import re
from typing import Final

_UPLOADED: Final = re.compile(r"audio-[0-9a-f]{32}").fullmatch


def is_own_ref(ref: str | None) -> bool:
    """Whether a caller's ref names audio that was uploaded here."""
    return ref is not None and _UPLOADED(ref) is not None


def audio_ref_of(job_id: str) -> str:
    """Under which name the audio of an utterance is kept."""
    return f"{job_id}.said"


def is_fetched(ref: str | None, job_id: str) -> bool:
    """Whether the node that has the job can fetch its audio by this ref."""
    return is_own_ref(ref) or ref == audio_ref_of(job_id)
