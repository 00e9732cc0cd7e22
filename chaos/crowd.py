"""Some of the sessions, one process: `python -m chaos.crowd PORT …`. SIGTERM: say nothing more, hear the rest, go.

Most speak over bare sockets, as a client must that follows the wire contract to the letter: it says again what may
have been lost, and comes back with its token. Every fourth uses the client library. Every eighth speaks on and on, by
the same library, in binary frames.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from chaos.history import Pen
from lingua_scheduler.operate import leash
from lingua_scheduler.sdk.client import Client
from lingua_scheduler.sdk.client_errors import ClientError, NoResult, SessionLost
from lingua_scheduler.sdk.client_items import Partial, Result

if TYPE_CHECKING:
    from lingua_scheduler.sdk.client_stream import Stream

_AUDIO: Final = bytes(640)
_SAID: Final = base64.b64encode(_AUDIO).decode()
_OPEN_S: Final = 5.0
_AGAIN_S: Final = 0.8
#: More than so much is not said before something was answered.
_MOST_OPEN: Final = 5
_UNKNOWN_SESSION: Final = 4404
_WITH_SDK, _STREAMS, _EVERY = 4, 3, 8
_PIECES: Final = (1, 4)


class Talker:
    """One person with one session at a time, over as many sockets as it takes."""

    def __init__(self, name: str, options: argparse.Namespace, pen: Pen, over: asyncio.Event) -> None:
        self._name, self._pen, self._over = name, pen, over
        self._port, self._every_s, self._ping_s = options.port, options.every_s, options.ping_s
        self._rng = random.Random(f"{options.seed}/{name}")
        # The others leave it to the write.
        self._confirms = self._rng.random() < 0.7
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._session, self._token, self._last_event = "", "", 0
        self._next, self._open = 0, dict[int, None]()
        self._is_closed = False

    async def live(self) -> None:
        """Until everything that was said is answered, and nothing more is to be said."""
        while not (self._is_closed or (self._over.is_set() and not self._session)):
            try:
                async with connect(
                    f"ws://127.0.0.1:{self._port}/ws/session",
                    proxy=None,
                    compression=None,
                    open_timeout=_OPEN_S,
                    close_timeout=0.5,
                    ping_interval=self._ping_s,
                    ping_timeout=self._ping_s,
                ) as socket:
                    with contextlib.suppress(ConnectionClosed):
                        await self._talk(socket)
                self._lost(socket.close_code or 0)
            except (OSError, TimeoutError, WebSocketException, EOFError) as error:
                self._pen.write("no_socket", session=self._session, who=self._name, why=str(error)[:120])
            if not self._is_closed:
                await asyncio.sleep(self._rng.uniform(0.02, _AGAIN_S))

    def _lost(self, code: int) -> None:
        self._pen.write("apart", session=self._session, code=code)
        if code == _UNKNOWN_SESSION and self._session:
            self._pen.write("session_lost", session=self._session, code=code, open=list(self._open))
            self._begin_anew()

    async def _talk(self, socket: ClientConnection) -> None:
        hello: dict[str, Any] = {"type": "session_init", "client_version": "1", "platform": "api-gateway"}
        if self._session:
            hello |= {"resume_token": self._token, "last_event_id": self._last_event}
        else:
            hello |= {"src_lang": "en", "tgt_lang": "zh"}
        await socket.send(json.dumps(hello))
        speaking: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(_OPEN_S) as patience:
                async for raw in socket:
                    message = json.loads(raw)
                    if message["type"] == "session_init_ack":
                        patience.reschedule(None)
                        self._welcome(message)
                        speaking = asyncio.create_task(self._speak(socket))
                    else:
                        await self._hear(message, socket)
        finally:
            if speaking is not None:
                speaking.cancel()
                await asyncio.gather(speaking, return_exceptions=True)

    def _welcome(self, ack: dict[str, Any]) -> None:
        self._pen.write("resumed" if self._session else "opened", session=ack["session_id"], who=self._name)
        self._session, self._token = ack["session_id"], ack["resume_token"]

    async def _speak(self, socket: ClientConnection) -> None:
        """What may have been lost is said again first; the scheduler knows by its number what it has heard."""
        with contextlib.suppress(ConnectionClosed):
            for index in list(self._open):
                await self._say(socket, index)
            while not self._over.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), self._rng.expovariate(1 / self._every_s))
                if not self._over.is_set() and len(self._open) < _MOST_OPEN:
                    self._open[self._next] = None
                    self._pen.write("said", session=self._session, index=self._next)
                    self._next += 1
                    await self._say(socket, self._next - 1)
            while self._open:  # noqa: ASYNC110 - it is over soon
                await asyncio.sleep(0.05)
            await socket.send(json.dumps({"type": "session_close", "session_id": self._session, "reason": "done"}))

    async def _say(self, socket: ClientConnection, index: int) -> None:
        said = {
            "type": "utterance",
            "session_id": self._session,
            "utterance_index": index,
            "manual_cut": True,
            "src_lang": "en",
            "tgt_lang": "zh",
            "audio": _SAID,
            "audio_format": "pcm16",
            "sample_rate": 16_000,
        }
        await socket.send(json.dumps(said))

    async def _hear(self, said: dict[str, Any], socket: ClientConnection) -> None:
        kind = said["type"]
        if kind in {"translation_result", "missing_result"}:
            index, event_id = said["utterance_index"], said["event_id"]
            fields = {"event": event_id, "text": said.get("text_translated"), "reason": said.get("reason")}
            job = said.get("job_id") or ""
            self._pen.write("heard", session=self._session, index=index, job=job, kind=kind, **fields)
            self._last_event = max(self._last_event, event_id)
            self._open.pop(index, None)
            if self._confirms:
                await socket.send(json.dumps({"type": "event_ack", "last_event_id": self._last_event}))
        elif kind == "error":
            detail = str(said.get("message"))[:160]
            self._pen.write("told", session=self._session, code=said.get("code"), detail=detail)
        elif kind == "session_close_ack":
            self._pen.write("closed", session=self._session)
            self._is_closed = True


class SdkTalker:
    """The same by the client library: an utterance at a time, and what an app sees of it."""

    def __init__(self, name: str, options: argparse.Namespace, pen: Pen, over: asyncio.Event) -> None:
        self._name, self._pen, self._over = name, pen, over
        self._url, self._every_s = f"http://127.0.0.1:{options.port}", options.every_s
        self._rng = random.Random(f"{options.seed}/{name}")
        self._next = 0

    async def live(self) -> None:
        """Until nothing more is to be said."""
        while not self._over.is_set():
            try:
                async with Client(self._url) as client:
                    while not self._over.is_set():
                        with contextlib.suppress(TimeoutError):
                            await asyncio.wait_for(self._over.wait(), self._rng.expovariate(1 / self._every_s))
                        if not self._over.is_set():
                            await self._say(client)
            except ClientError as error:
                self._pen.write("no_socket", session=self._name, why=str(error)[:120])
                await asyncio.sleep(self._rng.uniform(0.02, _AGAIN_S))
        self._pen.write("closed", session=self._name)

    async def _say(self, client: Client) -> None:
        index, self._next = self._next, self._next + 1
        about: dict[str, Any] = {"session": self._name, "index": index}
        self._pen.write("said", **about, sdk=True)
        try:
            async for item in client.translate(_AUDIO, "en", "zh"):
                if isinstance(item, Result):
                    fields: dict[str, Any] = {"kind": "translation_result", "text": item.text_translated, "sdk": True}
                    self._pen.write("heard", **about, job=item.job_id, **fields)
        except NoResult as none:
            self._pen.write("heard", **about, kind="missing_result", reason=none.reason, sdk=True)
        except SessionLost as lost:
            self._pen.write("session_lost", session=self._name, code=lost.code, open=[index], sdk=True)
        except ClientError as error:
            self._pen.write("unsaid", **about, why=str(error)[:160], sdk=True)


class Streamer:
    """Somebody whose words the scheduler cuts, and numbers."""

    def __init__(self, name: str, options: argparse.Namespace, pen: Pen, over: asyncio.Event) -> None:
        self._name, self._pen, self._over = name, pen, over
        self._url, self._every_s = f"http://127.0.0.1:{options.port}", options.every_s
        self._rng = random.Random(f"{options.seed}/{name}")

    async def live(self) -> None:
        """Until everything that was said is answered, and nothing more is to be said."""
        while not self._over.is_set():
            session = self._name
            try:
                async with Client(self._url) as client, client.stream("en", "zh") as stream:
                    session = stream.session_id
                    self._pen.write("opened", session=session, who=self._name)
                    async with asyncio.TaskGroup() as both:
                        both.create_task(self._speak(stream))
                        both.create_task(self._listen(stream))
            except* SessionLost as lost:
                code = next(error.code for error in lost.exceptions if isinstance(error, SessionLost))
                self._pen.write("session_lost", session=session, code=code, open=[])
            except* ClientError as error:
                self._pen.write("no_socket", session=session, why=str(error.exceptions[0])[:120])
            await asyncio.sleep(self._rng.uniform(0.02, _AGAIN_S))
        self._pen.write("closed", session=self._name)

    async def _speak(self, stream: Stream) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), self._rng.expovariate(1 / self._every_s))
            if not self._over.is_set():
                pieces = self._rng.randint(*_PIECES)
                for _ in range(pieces):
                    await stream.send(_AUDIO)
                    await asyncio.sleep(len(_AUDIO) / 32_000)
                await stream.cut()
                self._pen.write("streamed", session=stream.session_id, pieces=pieces)
        await stream.end()

    async def _listen(self, stream: Stream) -> None:
        async for item in stream:
            if isinstance(item, Partial):
                continue
            about: dict[str, Any] = {"session": stream.session_id, "index": item.utterance_index, "stream": True}
            if isinstance(item, Result):
                text = item.text_translated
                self._pen.write("heard", **about, job=item.job_id, kind="translation_result", text=text)
            else:
                self._pen.write("heard", **about, kind="missing_result", reason=item.reason)


def _kind_of(number: int) -> type[Talker | SdkTalker | Streamer]:
    if number % _WITH_SDK == 0:
        return SdkTalker
    return Streamer if number % _EVERY == _STREAMS else Talker


async def run(options: argparse.Namespace) -> None:
    """All sessions of this process."""
    pen, over = Pen(Path(options.folder), f"crowd-{options.first}"), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with asyncio.TaskGroup() as group:
        for number in range(options.first, options.sessions, options.step):
            group.create_task(_kind_of(number)(f"p{number:03}", options, pen, over).live())
            await asyncio.sleep(0.02)


def main() -> None:
    """What the command line says: all sessions, and which of them are here."""
    leash.hold()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--sessions", type=int, required=True, help="of the whole run")
    parser.add_argument("--first", type=int, required=True, help="the first that is here")
    parser.add_argument("--step", type=int, required=True, help="from one to the next")
    parser.add_argument("--seed", required=True)
    parser.add_argument("--every-s", type=float, required=True)
    parser.add_argument("--ping-s", type=float, required=True)
    parser.add_argument("--folder", required=True)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
