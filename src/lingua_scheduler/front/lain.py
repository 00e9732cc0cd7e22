"""How long what is being read has lain here. While a process sleeps, what it will read waits with the kernel."""

from __future__ import annotations

import socket
import struct
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import BaseTransport

#: Of Linux' `struct tcp_info`: how many milliseconds ago data last came (`tcpi_last_data_recv`), and where that is.
_LAST_DATA: Final = struct.Struct("@I")
_OFFSET: Final = 52
_SIZE: Final = _OFFSET + _LAST_DATA.size
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
