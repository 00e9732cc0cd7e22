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


def wav_format(rate: int = 1_000, channels: int = 1, bits: int = 16, *, byte_rate: int | None = None) -> bytes:
    """A `fmt ` chunk's body."""
    size = channels * bits // 8
    return struct.pack("<HHIIHH", 1, channels, rate, rate * size if byte_rate is None else byte_rate, size, bits)


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    """A chunk of a wav, with a length that may be wrong."""
    return name + struct.pack("<I", len(body) if size is None else size) + body + bytes(len(body) % 2)


def wav_file(data: bytes, form: bytes | None = None, *, size: int | None = None, before: bytes = b"") -> bytes:
    """A whole wav file."""
    inner = b"WAVE" + before + chunk(b"fmt ", wav_format() if form is None else form) + chunk(b"data", data, size)
    return chunk(b"RIFF", inner)


def wav_data(file: bytes) -> bytes:
    """The samples of a file as we write them: a plain header, all lengths true."""
    form = struct.unpack_from("<I", file, 16)[0]
    at = 20 + form
    size = struct.unpack_from("<I", file, at + 4)[0]
    data = file[at + 8 : at + 8 + size]
    assert file == wav_file(data, file[20:at])
    return data


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
