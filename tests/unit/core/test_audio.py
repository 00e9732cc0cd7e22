"""What is told apart in audio that comes in."""

from __future__ import annotations

from lingua_scheduler.core.audio import MAX_PACKETS, Opus


def test_no_more_opus_packets_are_told_apart_at_once_than_a_minute_has() -> None:
    opus = Opus()
    assert opus.put(b"\x01\x00x" * MAX_PACKETS) == ""
    assert opus.put(b"\x01\x00x" * (MAX_PACKETS + 1)) == f"more than {MAX_PACKETS} Opus packets at once"
    assert opus.take(10**6, 10**9)[1] == 2 * MAX_PACKETS
