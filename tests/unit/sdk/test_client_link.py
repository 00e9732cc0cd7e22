"""The sockets of a client, against somebody who does with them what a scheduler would not."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from lingua_scheduler.core.refusal import refuse
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import error_message
from lingua_scheduler.sdk import Client
from lingua_scheduler.sdk.client_errors import Refused
from tests.support.people import PATIENCE_S

if TYPE_CHECKING:
    from typing import Self


class Deaf:
    """Refuses every session, and hears nothing after that: not even that the socket is to be closed."""

    async def __aenter__(self) -> Self:
        self.ended = asyncio.Event()
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol, is_refused = ServerProtocol(), False
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                if is_refused:
                    continue
                protocol.receive_data(data)
                for event in protocol.events_received():
                    if isinstance(event, Request):
                        protocol.send_response(protocol.accept(event))
                    elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                        protocol.send_text(encode(error_message(refuse("INVALID_MESSAGE"))))
                        is_refused = True
                writer.write(b"".join(protocol.data_to_send()))
        writer.close()
        self.ended.set()


async def test_a_session_that_is_refused_leaves_no_socket_behind() -> None:
    async with Deaf() as deaf, asyncio.timeout(PATIENCE_S):
        with pytest.raises(Refused):
            await Client(deaf.url).__aenter__()
        await deaf.ended.wait()
