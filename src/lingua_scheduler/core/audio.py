"""The audio of a stream: whole units (a sample, a packet), how long they last, and what is not whole yet.

A codec object belongs to one stream. Bytes go in as they come, cut anywhere; only whole units come out. What can be
wrong with them is told in words, not raised: the units before the fault are good and stay.
"""

from __future__ import annotations

from typing import Final, Protocol

#: Of one frame: a byte that says what it is, and at most 1275 of audio (RFC 6716, section 3.2.1).
MAX_PACKET: Final = 1_276
PACKET_MS: Final = 20
#: So many may come at once, a minute of them: telling packets apart costs more than their bytes.
MAX_PACKETS: Final = 3_000
_PREFIX: Final = 2
_SAMPLE_BYTES: Final = 2
_SECOND_MS: Final = 1_000


class Codec(Protocol):
    """What cutting needs to know of the audio of one stream."""

    @property
    def largest(self) -> int:
        """An utterance of one unit has at most so many bytes: no limit may be below."""

    @property
    def waiting(self) -> bool:
        """Whether there are whole units to take."""

    @property
    def torn(self) -> bytes:
        """The beginning of a unit whose rest has not come, when all whole ones are taken."""

    def put(self, data: bytes) -> str:
        """Take bytes in. What is wrong with them, or "": from the fault on they are dropped."""

    def take(self, units: int, size: int) -> tuple[bytes, int]:
        """The next units, at most so many and of at most so many bytes, and how many they are."""

    def end(self) -> str:
        """The next bytes begin something new: what is not whole is dropped. What that was, or ""."""

    def units_in(self, ms: int) -> int:
        """How many units last so long, or just less."""

    def ms_of(self, units: int) -> int:
        """How long so many units last, or just less."""


class Samples:
    """Samples of all channels, each so many bytes together, one after the other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._bytes = bytearray()

    def __len__(self) -> int:
        """How many whole samples there are."""
        return len(self._bytes) // self.size

    def put(self, data: bytes) -> None:
        """Add bytes."""
        self._bytes += data

    def take(self, most: int, most_bytes: int) -> tuple[bytes, int]:
        """The next whole samples within these bounds, and how many they are."""
        number = min(len(self), most, most_bytes // self.size)
        taken = bytes(self._bytes[: number * self.size])
        del self._bytes[: number * self.size]
        return taken, number

    @property
    def torn(self) -> bytes:
        """The beginning of a sample at the end."""
        return bytes(self._bytes[len(self) * self.size :])

    def trim(self) -> int:
        """Drop the beginning of a sample at the end. How many bytes that were."""
        torn = len(self._bytes) % self.size
        del self._bytes[len(self._bytes) - torn :]
        return torn


class Pcm16:
    """Bare samples of 16 bits."""

    def __init__(self, sample_rate: int = 16_000, channels: int = 1) -> None:
        self._rate = sample_rate
        self._samples = Samples(_SAMPLE_BYTES * channels)
        self.largest = self._samples.size

    @property
    def waiting(self) -> bool:
        """Whether there are whole samples."""
        return len(self._samples) > 0

    @property
    def torn(self) -> bytes:
        """The beginning of a sample."""
        return self._samples.torn

    def put(self, data: bytes) -> str:
        """Any bytes are samples."""
        self._samples.put(data)
        return ""

    def take(self, units: int, size: int) -> tuple[bytes, int]:
        """The next samples."""
        return self._samples.take(units, size)

    def end(self) -> str:
        """The beginning of a sample is dropped."""
        return "the audio ends inside a sample" if self._samples.trim() else ""

    def units_in(self, ms: int) -> int:
        """How many samples last so long."""
        return ms * self._rate // _SECOND_MS

    def ms_of(self, units: int) -> int:
        """How long samples last."""
        return units * _SECOND_MS // self._rate


class Opus:
    """Packets of 20 ms, each behind its length as a `u16`, low byte first.

    A length that no packet has means that we are not where a packet begins, and nothing after it can be told apart:
    the rest of those bytes is dropped, and the next bytes that come are taken to begin with a packet again.
    """

    largest: Final = _PREFIX + MAX_PACKET

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._whole = 0

    @property
    def waiting(self) -> bool:
        """Whether there are whole packets."""
        return self._whole > 0

    @property
    def torn(self) -> bytes:
        """The beginning of a packet."""
        return bytes(self._bytes[self._whole :])

    def _next(self, start: int) -> int:
        """Where the packet that begins there ends."""
        return start + _PREFIX + int.from_bytes(self._bytes[start : start + _PREFIX], "little")

    def put(self, data: bytes) -> str:
        """Packets, and the beginning of one."""
        self._bytes += data
        packets = 0
        while len(self._bytes) >= self._whole + _PREFIX:
            packets += 1
            if packets > MAX_PACKETS:
                del self._bytes[self._whole :]
                return f"more than {MAX_PACKETS} Opus packets at once"
            end = self._next(self._whole)
            length = end - self._whole - _PREFIX
            if not 1 <= length <= MAX_PACKET:
                del self._bytes[self._whole :]
                return f"an Opus packet has 1 to {MAX_PACKET} bytes, not {length}"
            if end > len(self._bytes):
                break
            self._whole = end
        return ""

    def take(self, units: int, size: int) -> tuple[bytes, int]:
        """The next packets, with their lengths."""
        number, end = 0, 0
        while number < units and end < self._whole and self._next(end) <= size:
            number, end = number + 1, self._next(end)
        taken = bytes(self._bytes[:end])
        del self._bytes[:end]
        self._whole -= end
        return taken, number

    def end(self) -> str:
        """The beginning of a packet is dropped."""
        torn = len(self._bytes) > self._whole
        del self._bytes[self._whole :]
        return "the audio ends inside an Opus packet" if torn else ""

    def units_in(self, ms: int) -> int:
        """How many packets last so long."""
        return ms // PACKET_MS

    def ms_of(self, units: int) -> int:
        """How long packets last."""
        return units * PACKET_MS
