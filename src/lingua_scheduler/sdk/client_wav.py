"""What a wav file says of itself, whatever its samples are: `wave` reads only files of whole numbers."""

from __future__ import annotations

import struct
from typing import Final

from lingua_scheduler.core.ids import check_int

RIFF: Final = b"RIFF"
#: A sample rate is one of these.
RATES: Final = (1, 768_000)
_HEAD: Final = 12
_CHUNK: Final = struct.Struct("<4sI")
#: Kind, channels and rate of its samples.
_FORMAT: Final = struct.Struct("<HHI")


def wav_rate(audio: bytes) -> int:
    """Its sample rate. `ValueError`: it does not say it."""
    at = _HEAD
    while audio[:4] == RIFF and audio[8:_HEAD] == b"WAVE" and at + _CHUNK.size + _FORMAT.size <= len(audio):
        name, size = _CHUNK.unpack_from(audio, at)
        if name == b"fmt ":
            _, _, rate = _FORMAT.unpack_from(audio, at + _CHUNK.size)
            return check_int("the sample rate of this wav file", rate, *RATES)
        # A chunk begins at an even place.
        at += _CHUNK.size + size + size % 2
    raise ValueError("this wav file does not say its sample rate: name it as sample_rate=")
