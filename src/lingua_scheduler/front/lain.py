"""What lies here unread, and how long it has. While a process sleeps, what it will read waits with the kernel."""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import termios
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import BaseTransport

#: Of Linux' `struct tcp_info`: how many milliseconds ago data last came (`tcpi_last_data_recv`), and where that is.
_LAST_DATA: Final = struct.Struct("@I")
_OFFSET: Final = 52
_SIZE: Final = _OFFSET + _LAST_DATA.size
_COUNT: Final = struct.Struct("@i")
#: The kernel counts in steps of at most this.
_STEP_MS: Final = 10


def lain_ms(transport: BaseTransport) -> int:
    """So long ago, at most, the last bytes came over this connection; 0 where the system does not say so."""
    link = transport.get_extra_info("socket")
    if sys.platform != "linux" or link is None:
        return 0
    try:
        told = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
    except OSError:
        return 0  # it is no TCP, or closed by now
    ago: int = _LAST_DATA.unpack_from(told, _OFFSET)[0]
    return ago + _STEP_MS if ago > _STEP_MS else 0


def has_unread(transport: BaseTransport) -> bool:
    """Whether something has come over this connection that nobody has read yet."""
    link = transport.get_extra_info("socket")
    if link is None:
        return False
    try:
        told = fcntl.ioctl(link.fileno(), termios.FIONREAD, bytes(_COUNT.size))
    except OSError:
        return False  # it is closed by now
    size: int = _COUNT.unpack(told)[0]
    return size > 0
