"""Streams of audio to be cut, and what is expected of them."""

from __future__ import annotations

import struct
from itertools import count, pairwise
from typing import TYPE_CHECKING

from lingua_scheduler.core.cutting import CutLimits, Cutter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.core.audio import Codec
    from lingua_scheduler.core.cutting import Utterance


def packet(size: int, fill: int = 7) -> bytes:
    """An Opus packet behind its length."""
    return struct.pack("<H", size) + bytes([fill]) * size


class Turns:
    """Turn ids that can be foretold: t0, t1, …"""

    def __init__(self) -> None:
        self._numbers = count()

    def __call__(self) -> str:
        return f"t{next(self._numbers)}"


def cutter(codec: Codec, *, pause_ms: int = 300, max_duration_ms: int = 100, max_bytes: int = 10_000) -> Cutter:
    """A cutter with small limits; a full utterance waits for 50 ms."""
    return Cutter(CutLimits(pause_ms, max_duration_ms, max_bytes, full_ms=50), codec, Turns())


def pieces(stream: bytes, cuts: Sequence[int]) -> list[bytes]:
    """A stream, cut at these places."""
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:end] for start, end in pairwise(places)]


def told(utterances: Sequence[Utterance]) -> list[tuple[int, str, str, int, int]]:
    """What matters of utterances beside their audio: index, cut, turn, piece, duration."""
    return [(said.index, said.cut.value, said.turn_id, said.piece, said.duration_ms) for said in utterances]
