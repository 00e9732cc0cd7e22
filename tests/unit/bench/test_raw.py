from __future__ import annotations

import pytest
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from bench.raw import RawSocket, framed


@pytest.mark.parametrize("length", [0, 1, 125, 126, 65_535, 65_536])
def test_a_frame_is_read_by_others(length: int) -> None:
    stream = StreamReader()
    stream.feed_data(framed(b"x" * length))
    with pytest.raises(StopIteration) as parsed:
        next(Frame.parse(stream.read_exact, mask=True))
    assert parsed.value.value == Frame(Opcode.TEXT, b"x" * length)
    assert stream.buffer == b""


async def test_frames_are_heard_in_whatever_pieces_they_come() -> None:
    heard: list[bytes] = []
    sent = [b"a" * length for length in (0, 5, 126, 70_000)]
    stream = b"HTTP/1.1 101 Switching\r\n\r\n" + b"".join(_from_server(message) for message in sent)
    for size in (1, 7, 1000, len(stream)):
        socket = RawSocket()
        socket.serve(heard.append)
        for at in range(0, len(stream), size):
            socket.data_received(stream[at : at + size])
        assert heard == [b"HTTP/1.1 101 Switching\r\n\r\n", *sent]
        heard.clear()


def _from_server(message: bytes) -> bytes:
    """The same without a mask."""
    frame = framed(message)
    head = len(frame) - len(message) - 4
    return frame[:1] + bytes((frame[1] & 0x7F,)) + frame[2:head] + message
