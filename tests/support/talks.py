"""Sessions and nodes over real sockets: an instance on a port of its own, clients that speak, nodes that answer."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from lingua_scheduler.front.delivery import Delivery
from lingua_scheduler.front.hearing import Hearing
from lingua_scheduler.front.hints import Hints
from lingua_scheduler.front.nodes.links import Links
from lingua_scheduler.front.nodes.socket import serve_node
from lingua_scheduler.front.sessions.sessions import Sessions
from lingua_scheduler.front.sessions.socket import serve_session
from lingua_scheduler.loops.reaper import Reaper
from lingua_scheduler.loops.relayer import Relayer
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.job import Job, read_job
from tests.support.doors import PATIENCE_S, open_door

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from websockets.asyncio.client import ClientConnection

    from lingua_scheduler.core.records import Event
    from tests.support.doors import Open

    Answer = Callable[[dict[str, Any]], dict[str, Any] | None]

#: A tenth of a second of pcm16.
TENTH: Final = bytes(range(256)) * 12 + bytes(128)


@asynccontextmanager
async def open_instance(url: str, **flags: Any) -> AsyncIterator[Open]:
    """Doors, loops, sessions, links: all that an instance has. At the end every invariant holds."""
    async with AsyncExitStack() as stack:
        served = {"serve_node": serve_node, "serve_session": serve_session}
        instance = await stack.enter_async_context(open_door(url, [], **served, **flags))
        desk = instance.desk
        engine, cell = desk.engine, desk.directory.first
        desk.links, desk.sessions = Links(), Sessions(desk)
        desk.hints = Hints(engine, desk.sessions, desk.neighbours)
        desk.delivery = Delivery(engine, desk.links, desk.submitter, desk.hints, desk.neighbours, desk.clock)
        desk.hearing = Hearing(engine, desk.directory, desk.links, desk.delivery, desk.sessions, desk.neighbours)

        async def hear(event: Event) -> None:
            desk.submitter.hear(event)
            await desk.hearing.hear(event)

        await stack.enter_async_context(Reaper(engine, cell, 50))
        await stack.enter_async_context(Relayer(engine, cell, 5, hear))
        try:
            yield instance
        finally:
            desk.is_draining.set()
            await desk.sessions.close()
            await instance.door.close_sockets()
            await desk.delivery.close()
        assert await audit_whole(engine, cell, overdue_ms=10**12) == []


class Peer:
    """One end of a socket that keeps what it heard."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.heard: list[dict[str, Any]] = []

    async def say(self, kind: str, **said: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **said}))

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            message: dict[str, Any] = json.loads(await self.socket.recv())
        self.heard.append(message)
        return message

    async def until(self, *kinds: str) -> dict[str, Any]:
        """The next message of one of these kinds."""
        while (message := await self.next())["type"] not in kinds:
            pass
        return message

    async def closed(self) -> int | None:
        """Until the other end closes: with what."""
        try:
            while True:
                await self.next()
        except ConnectionClosed as over:
            return over.rcvd.code if over.rcvd else None

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.heard if message["type"] == kind]


class Client(Peer):
    """Somebody who speaks."""

    session_id = ""
    token = ""

    async def begin(self, **said: Any) -> dict[str, Any]:
        await self.say("session_init", **{"src_lang": "en", "tgt_lang": "zh", "platform": "android", **said})
        ack = await self.until("session_init_ack", "error")
        if ack["type"] == "session_init_ack":
            self.session_id, self.token = ack["session_id"], ack["resume_token"]
        return ack

    async def utter(self, index: int, audio: bytes = TENTH, **said: Any) -> None:
        text = base64.b64encode(audio).decode()
        await self.say("utterance", session_id=self.session_id, utterance_index=index, audio=text, **said)

    async def chunk(self, seq: int, audio: bytes = b"", *, is_final: bool = False) -> None:
        payload = base64.b64encode(audio).decode()
        await self.say("audio_chunk", session_id=self.session_id, seq=seq, is_final=is_final, payload=payload)

    async def shown(self, event: str) -> None:
        """Until this is shown."""
        while (await self.until("ui_event"))["event"] != event:
            pass

    async def answers(self, number: int) -> list[dict[str, Any]]:
        """The next answers."""
        return [await self.until("translation_result", "missing_result") for _ in range(number)]


def outcomes(answers: Sequence[dict[str, Any]]) -> list[tuple[int, str]]:
    """Which utterance, and what it means or why it is missing."""
    return [
        (one["utterance_index"], one["text_translated"] if one["type"] == "translation_result" else one["reason"])
        for one in answers
    ]


@asynccontextmanager
async def client(instance: Open, **options: Any) -> AsyncIterator[Client]:
    async with connect(f"{instance.ws}/ws/session", compression=None, **options) as socket:
        yield Client(socket)


class Node(Peer):
    """A field node: it registers, and answers every job as it is told."""

    node_id = ""

    def __init__(self, socket: ClientConnection, answer: Answer) -> None:
        super().__init__(socket)
        self._answer = answer
        self.jobs: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.cancelled: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def register(self, node_id: str, langs: list[str], slots: int) -> None:
        self.node_id = node_id
        types = [{"type": kind, "ready": True} for kind in ("asr", "nmt", "tts", "semantic", "tone")]
        await self.say(
            "node_register",
            node_id=node_id,
            capability_by_type=types,
            accept_public_jobs=True,
            max_concurrent_jobs=slots,
            health="ready",
            language_capabilities={"asr_languages": langs, "semantic_languages": langs, "tts_languages": langs},
        )
        await self.until("node_register_ack")
        await self.say("node_heartbeat", node_id=node_id, capability_by_type=types)

    async def work(self) -> None:
        try:
            while True:
                message = await self.next_job()
                result = self._answer(message)
                if result is not None:
                    await self.result(message, **result)
        except ConnectionClosed:
            return

    async def next_job(self) -> dict[str, Any]:
        while True:
            message: dict[str, Any] = json.loads(await self.socket.recv())
            self.heard.append(message)
            if message["type"] == "job_assign":
                self.jobs.put_nowait(message)
                return message
            if message["type"] == "job_cancel":
                self.cancelled.put_nowait(message)

    async def result(self, job: dict[str, Any], **said: Any) -> None:
        named = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "utterance_index", "trace_id")}
        await self.say("job_result", node_id=self.node_id, **{"success": True, **named, **said})

    async def partial(self, job: dict[str, Any], text: str, *, is_final: bool = False) -> None:
        named = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
        await self.say("asr_partial", node_id=self.node_id, text=text, is_final=is_final, **named)

    async def job(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            return await self.jobs.get()


def translate(job: dict[str, Any]) -> dict[str, Any]:
    """What a node says that does its work."""
    index = job["utterance_index"]
    return {"text_asr": f"said {index}", "text_translated": f"meant {index}", "processing_time_ms": 1}


def keep(_job: dict[str, Any]) -> None:
    """A node that says nothing until the test lets it."""


@asynccontextmanager
async def node(
    instance: Open,
    node_id: str = "n1",
    answer: Answer = translate,
    *,
    langs: Sequence[str] = ("en", "zh"),
    slots: int = 4,
) -> AsyncIterator[Node]:
    async with connect(f"{instance.ws}/ws/node", compression=None, max_size=None) as socket:
        one = Node(socket, answer)
        await one.register(node_id, list(langs), slots)
        worker = asyncio.create_task(one.work())
        try:
            yield one
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)


async def job_of(instance: Open, job_id: str) -> Job:
    job = await read_job(instance.desk.engine, job_id)
    assert isinstance(job, Job)
    return job


async def eventually(instance: Open, job_id: str) -> Job:
    """The job, once its text is erased."""
    async with asyncio.timeout(PATIENCE_S):
        while (job := await job_of(instance, job_id)).payload:  # noqa: ASYNC110 - only the engine knows
            await asyncio.sleep(0.01)
    return job
