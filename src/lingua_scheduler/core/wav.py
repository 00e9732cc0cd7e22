"""Wav in a stream. A wav file has its length in front, which a stream does not know, so this is how we read it.

A stream begins with a header. Behind it come as many samples as it says (0: no end is known), then another header, a
chunk that is no audio, or, because such lengths are often wrong, more samples. After a cut by the client, the same:
each utterance may have its own header, or only the first. A header that cannot be understood drops what follows, up to
the next header. Every utterance leaves as a whole file, with a header of its own that tells its true length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.audio import Samples, ms_of_samples, samples_in

if TYPE_CHECKING:
    from collections.abc import Callable

#: In front of the samples. Some writers fill it up to a page; none is longer than two.
MAX_HEADER: Final = 8_192
#: One sample of all channels.
MAX_SAMPLE: Final = 64
MIN_RATE: Final = 1_000
MAX_RATE: Final = 768_000
_RIFF: Final = b"RIFF"
_RIFF_BYTES: Final = 12
_CHUNK_BYTES: Final = 8
#: What a file has beside its format and its samples: three heads, and perhaps a byte that makes its length even.
_FRAME_BYTES: Final = _RIFF_BYTES + 2 * _CHUNK_BYTES + 1
_FORMAT_SIZES: Final = (16, 18, 40)
#: What may stand behind the samples of a file.
_EXTRAS: Final = (b"LIST", b"id3 ", b"ID3 ", b"fact", b"cue ", b"bext", b"JUNK")
_ENDLESS: Final = 2**63


class _NotWav(Exception):
    """What is wrong with a header."""


def _u32(raw: bytes, at: int) -> int:
    return int.from_bytes(raw[at : at + 4], "little")


def _padded(size: int) -> int:
    return size + size % 2


class Format(msgspec.Struct, frozen=True):
    """How samples are to be read: the `fmt ` chunk as it came, and what matters to us of it."""

    raw: bytes
    rate: int
    size: int


class Header(msgspec.Struct, frozen=True):
    """All that stands before the samples: its length, their format, and their length as it was said."""

    length: int
    format: Format
    data: int


def _format(raw: bytes) -> Format:
    """The format that a `fmt ` chunk describes, if samples of it can be counted."""
    if len(raw) not in _FORMAT_SIZES:
        raise _NotWav(f"a wav format of {len(raw)} bytes")
    rate, byte_rate, size = _u32(raw, 4), _u32(raw, 8), int.from_bytes(raw[12:14], "little")
    if not MIN_RATE <= rate <= MAX_RATE:
        raise _NotWav(f"a wav sample rate of {rate}")
    if not 1 <= size <= MAX_SAMPLE or byte_rate != rate * size:
        raise _NotWav("a wav that is compressed cannot be cut")
    return Format(raw, rate, size)


def read_header(raw: bytes) -> Header | None:
    """The header that begins these bytes, or None while it is not all there."""
    if len(raw) < _RIFF_BYTES:
        return None
    if raw[:4] != _RIFF or raw[8:12] != b"WAVE":
        raise _NotWav("wav audio begins with RIFF and WAVE")
    at, found = _RIFF_BYTES, None
    while len(raw) >= at + _CHUNK_BYTES:
        name, size = raw[at : at + 4], _u32(raw, at + 4)
        at += _CHUNK_BYTES
        if name == b"data":
            if found is None:
                raise _NotWav("a wav without a format before its data")
            return Header(at, found, size)
        if at + _padded(size) + _CHUNK_BYTES > MAX_HEADER:
            raise _NotWav("the header of a wav is too long")
        if name == b"fmt " and len(raw) >= at + size:
            found = _format(raw[at : at + size])
        at += _padded(size)
    return None


class Wav:
    """A stream of wav audio; see the top of this file."""

    def __init__(self) -> None:
        self._read: Callable[[], bool] = self._header
        self._unread = bytearray()
        self._left = 0
        self._pad = 0
        self._format = Format(b"", MIN_RATE, 1)
        self._samples = Samples(1)
        self._taken = False
        self.largest = _FRAME_BYTES + max(_FORMAT_SIZES) + MAX_SAMPLE

    @property
    def overhead(self) -> int:
        """The header of a file, and a byte to make its length even."""
        return _FRAME_BYTES + len(self._format.raw)

    @property
    def waiting(self) -> bool:
        """Whether there are whole samples."""
        return len(self._samples) > 0

    @property
    def torn(self) -> bytes:
        """Nothing: what follows it could not be read without the header before it."""
        return b""

    def put(self, data: bytes) -> str:
        """Headers, samples, and what is no audio, cut anywhere."""
        self._unread += data
        try:
            while self._read():
                pass
        except _NotWav as wrong:
            self._unread.clear()
            return str(wrong)
        return ""

    def _header(self) -> bool:
        """A header must come. Only here can something be wrong, and then it is still a header that must come."""
        header = read_header(bytes(self._unread[:MAX_HEADER]))
        if header is None:
            return False
        self._agree(header.format)
        del self._unread[: header.length]
        self._left, self._pad = header.data or _ENDLESS, header.data % 2
        self._read = self._data
        return True

    def _agree(self, new: Format) -> None:
        """Samples of two formats cannot be in one file."""
        if new == self._format:
            return
        if self._taken or self.waiting:
            raise _NotWav("the format of a wav cannot change within an utterance")
        self._format, self._samples = new, Samples(new.size)

    def _data(self) -> bool:
        """So many samples come."""
        number = min(self._left, len(self._unread))
        self._samples.put(bytes(self._unread[:number]))
        del self._unread[:number]
        self._left -= number
        if self._left:
            return False
        self._samples.trim()
        self._left, self._read = self._pad, self._skip
        return True

    def _skip(self) -> bool:
        """So many bytes come that are no audio."""
        number = min(self._left, len(self._unread))
        del self._unread[:number]
        self._left -= number
        if self._left:
            return False
        self._read = self._between
        return True

    def _between(self) -> bool:
        """A header may come, or something that is no audio, or samples."""
        name = bytes(self._unread[:4])
        if not any(known.startswith(name) for known in (_RIFF, *_EXTRAS)):
            self._left, self._pad, self._read = _ENDLESS, 0, self._data
            return True
        if len(self._unread) < _CHUNK_BYTES:
            return False
        if name == _RIFF:
            self._read = self._header
            return True
        self._left, self._read = _padded(_u32(bytes(self._unread[:_CHUNK_BYTES]), 4)), self._skip
        del self._unread[:_CHUNK_BYTES]
        return True

    def take(self, units: int, size: int) -> tuple[bytes, int]:
        """The next samples."""
        self._taken = True
        return self._samples.take(units, size)

    def end(self) -> str:
        """The beginning of a sample, or of a header, is dropped."""
        torn = self._samples.trim() + len(self._unread)
        self._unread.clear()
        if self._read != self._header:
            self._read = self._between
        return "the audio ends inside a sample or a header of a wav" if torn else ""

    def file(self, audio: bytes) -> bytes:
        """Samples behind a header that fits them."""
        self._taken = False
        form = self._format.raw
        body = b"WAVEfmt " + len(form).to_bytes(4, "little") + form + b"data" + len(audio).to_bytes(4, "little")
        body += audio + bytes(len(audio) % 2)
        return _RIFF + len(body).to_bytes(4, "little") + body

    def units_in(self, ms: int) -> int:
        """How many samples last so long."""
        return samples_in(ms, self._format.rate)

    def ms_of(self, units: int) -> int:
        """How long samples last."""
        return ms_of_samples(units, self._format.rate)
