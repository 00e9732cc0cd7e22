"""Which names of audio are ours; any other string is somebody else's, handed on as it is and never fetched."""

from __future__ import annotations

import re
from typing import Final

from lingua_scheduler.core.ids import in_cell, name_of

_UPLOADED: Final = re.compile(r"audio-[0-9a-f]{32}").fullmatch


def is_own_ref(ref: str | None) -> bool:
    """Whether a caller's ref names audio that was uploaded here."""
    return ref is not None and _UPLOADED(ref) is not None


def audio_ref_of(job_id: str, first: str) -> str:
    """Under which name the audio of an utterance is kept: the same wherever its job goes.

    `first` is the first cell of the fleet: where there is only one, the name is that of the job.
    """
    return f"{in_cell(job_id, first)}.said"


def is_fetched(ref: str | None, job_id: str) -> bool:
    """Whether the node that has the job can fetch its audio by this ref."""
    return is_own_ref(ref) or (ref is not None and name_of(ref) == f"{name_of(job_id)}.said")
