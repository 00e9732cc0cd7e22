"""The rate of a wav file, whatever its samples are."""

from __future__ import annotations

import struct

import pytest

from lingua_scheduler.sdk.client_wav import wav_rate
from tests.support.sdk_clients import wav

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE


def chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)


def riff(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def fmt(kind: int, rate: int, more: bytes = b"") -> bytes:
    return chunk(b"fmt ", struct.pack("<HHIIHH", kind, 1, rate, rate * 4, 4, 32) + more)


@pytest.mark.parametrize(
    "head",
    [
        (fmt(PCM, 48_000),),
        (fmt(FLOAT, 48_000),),
        (fmt(EXTENSIBLE, 48_000, struct.pack("<HHI16x", 22, 32, 4)),),
        (chunk(b"JUNK", b"odd"), fmt(FLOAT, 48_000)),
    ],
)
def test_a_wav_file_says_its_rate(head: tuple[bytes, ...]) -> None:
    assert wav_rate(riff(*head, chunk(b"data", bytes(8)))) == 48_000


def test_a_wav_file_that_is_still_written_says_it_too() -> None:
    assert wav_rate(wav(22_050)[:44]) == 22_050


@pytest.mark.parametrize(
    "audio",
    [
        b"RIFF",
        b"RIFF\x04\x00\x00\x00AVI " + fmt(PCM, 48_000),
        riff(chunk(b"data", bytes(8))),
        riff(chunk(b"JUNK", bytes(2)))[:-1],
        riff(fmt(PCM, 0)),
        riff(fmt(PCM, 768_001)),
        wav()[:27],
    ],
)
def test_what_does_not_say_it_is_an_error(audio: bytes) -> None:
    with pytest.raises(ValueError, match="sample rate"):
        wav_rate(audio)
