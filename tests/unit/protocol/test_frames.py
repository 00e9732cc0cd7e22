from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.protocol.frames import (
    AudioFrame,
    FinalFrame,
    Frame,
    PingFrame,
    PongFrame,
    decode_frame,
    encode_frame,
    job_audio,
)

CHUNK = bytes.fromhex("01 02 03000000 04000000 01 00") + b"s1" + b"pcm"
LAST = bytes.fromhex("02 02 03000000 04000000") + b"s1"
u32 = st.integers(0, 2**32 - 1)
ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", fullmatch=True)
frames = (
    st.builds(AudioFrame, ids, u32, u32, st.booleans(), st.binary())
    | st.builds(FinalFrame, ids, u32, u32)
    | st.builds(PingFrame, st.binary())
    | st.builds(PongFrame, st.binary())
)


@pytest.mark.parametrize(
    ("data", "frame"),
    [
        (CHUNK, AudioFrame("s1", 3, 4, is_final=True, audio=b"pcm")),
        (CHUNK[:-3], AudioFrame("s1", 3, 4, is_final=True, audio=b"")),
        (LAST, FinalFrame("s1", 3, 4)),
        (b"\x10", PingFrame()),
        (b"\x11", PongFrame()),
        (b"\x10hi", PingFrame(b"hi")),
        (b"\x11hi", PongFrame(b"hi")),
    ],
)
def test_a_frame_is_what_the_contract_says(data: bytes, frame: Frame) -> None:
    assert decode_frame(data) == frame
    assert encode_frame(frame) == data


@given(frame=frames)
def test_a_frame_that_was_written_is_read_again(frame: Frame) -> None:
    assert decode_frame(encode_frame(frame)) == frame


def read(data: bytes) -> Frame | Invalid:
    try:
        return decode_frame(data)
    except Invalid as invalid:
        return invalid


@given(data=st.binary() | st.tuples(st.sampled_from([b"\x01", b"\x02"]), st.binary()).map(b"".join))
def test_any_bytes_are_a_frame_or_invalid(data: bytes) -> None:
    found = read(data)
    if isinstance(found, Invalid):
        assert found.refusal.code == "INVALID_MESSAGE"
        assert found.refusal.detail.startswith("frame: ")
    else:
        assert encode_frame(found) == data


def with_byte(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes((value,)) + data[at + 1 :]


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"", "frame: it is empty"),
        (b"\x00", "frame: unknown type 0x00"),
        (b"\x03" + CHUNK, "frame: unknown type 0x03"),
        (CHUNK[:1], "frame: a header of 12 bytes is cut off after 1"),
        (CHUNK[:11], "frame: a header of 12 bytes is cut off after 11"),
        (CHUNK[:13], "frame: a session id of 2 bytes is cut off after 1"),
        (with_byte(CHUNK, 1, 200), "frame: a session id of 200 bytes is cut off after 5"),
        (with_byte(CHUNK, 10, 2), "frame: is_final must be 0 or 1, not 2"),
        (with_byte(CHUNK, 11, 7), "frame: the byte after is_final must be 0, not 7"),
        (LAST[:9], "frame: a header of 10 bytes is cut off after 9"),
        (LAST[:11], "frame: a session id of 2 bytes is cut off after 1"),
        (LAST + b"x", "frame: 1 bytes too many; a final frame has no audio"),
    ],
)
def test_a_malformed_header_is_named(data: bytes, detail: str) -> None:
    with pytest.raises(Invalid) as refused:
        decode_frame(data)
    assert refused.value.refusal.detail == detail


@pytest.mark.parametrize("name", [b"", b"a b", b"{a}", b"-a", b"\xff\xfe", b"a" * 129])
def test_a_session_id_in_a_frame_is_checked(name: bytes) -> None:
    for head in (CHUNK[:12], LAST[:10]):
        with pytest.raises(Invalid, match="frame: session_id must be 1 to 128"):
            decode_frame(with_byte(head, 1, len(name)) + name)


def test_a_wrong_session_id_is_never_written() -> None:
    with pytest.raises(Invalid, match="session_id"):
        encode_frame(FinalFrame("a b", 1, 1))


def test_only_the_low_bits_of_times_and_numbers_travel() -> None:
    frame = decode_frame(encode_frame(FinalFrame("s1", 2**32 + 1, 1_700_000_000_000)))
    assert frame == FinalFrame("s1", 1, 1_700_000_000_000 % 2**32)


def test_the_audio_of_a_job_is_one_final_chunk() -> None:
    assert decode_frame(job_audio("s1", 7, b"pcm", 9)) == AudioFrame("s1", 7, 9, is_final=True, audio=b"pcm")
