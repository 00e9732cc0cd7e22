"""A simulated node, one process: `python -m chaos.node KIND NODE_ID PORT …`. It writes down all that it does.

`legacy`: the words of the field nodes, no epoch, no process id, no acks. `stubborn`: the same, and it does not stop
when it is told to. `ours`: bare sockets, every word. `sdk`: as a node developer writes it. `polls`: see `chaos.poller`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import secrets
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from chaos.hands import Cannot, Hands, Job
from chaos.history import Pen
from chaos.poller import PollNode
from lingua_scheduler.operate import leash

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

KINDS: Final = ("legacy", "stubborn", "ours", "sdk", "polls")
LANGS: Final = ["en", "zh"]
_OPEN_S: Final = 5.0
_AGAIN_S: Final = 0.6
_ABOUT: Final = ("job_id", "attempt_id", "session_id", "utterance_index", "trace_id")


class BareNode:
    """A node on a bare socket, which comes back whenever it lost it."""

    def __init__(self, options: argparse.Namespace, pen: Pen, hands: Hands) -> None:
        self._node_id, self._port, self._slots = options.node_id, options.port, options.slots
        self._beat_s, self._patience_s = options.beat_s, options.patience_s
        self._is_legacy, self._is_stubborn = options.kind != "ours", options.kind == "stubborn"
        self._pen, self._hands = pen, hands
        self._rng = random.Random(options.seed)
        self._epoch, self._process_id = "", secrets.token_hex(8)
        self._socket: ClientConnection | None = None
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._seen: set[tuple[str, int]] = set()
        self._utterances: set[tuple[str, int]] = set()
        self.over = asyncio.Event()

    async def run(self) -> None:
        """Until it is told to go."""
        leaving = asyncio.create_task(self.over.wait())
        while not self.over.is_set():
            life = asyncio.create_task(self._once())
            await asyncio.wait([life, leaving], return_when=asyncio.FIRST_COMPLETED)
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), self._rng.uniform(0.05, _AGAIN_S))

    async def _once(self) -> None:
        url = f"ws://127.0.0.1:{self._port}/ws/node"
        try:
            async with connect(
                url,
                proxy=None,
                compression=None,
                open_timeout=_OPEN_S,
                close_timeout=0.5,
                ping_interval=self._beat_s,
                ping_timeout=self._patience_s,
            ) as socket:
                await socket.send(json.dumps(self._registration()))
                beating = asyncio.create_task(self._beat(socket))
                try:
                    async for raw in socket:
                        self._hear(json.loads(raw), socket)
                finally:
                    beating.cancel()
        except (OSError, TimeoutError, WebSocketException, EOFError) as error:
            self._pen.write("apart", node=self._node_id, why=str(error)[:120])
        finally:
            self._socket = None

    def _registration(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "type": "node_register",
            "node_id": self._node_id,
            "version": "2.0.0",
            "capability_schema_version": "2.0",
            "platform": "linux",
            "capability_by_type": [{"type": kind, "ready": True} for kind in ("asr", "nmt", "tts", "semantic")],
            "accept_public_jobs": True,
            "language_capabilities": {f"{name}_languages": LANGS for name in ("asr", "semantic", "tts")},
        }
        if self._is_legacy:
            return said
        return said | {
            "max_concurrent_jobs": self._slots,
            "advanced_features": ["job_ack", "job_started", "job_stopped"],
            "epoch": self._epoch or None,
            "process_id": self._process_id,
            "running": self._running(),
        }

    def _running(self) -> list[dict[str, Any]]:
        return [{"job_id": job_id, "attempt_id": attempt} for job_id, attempt in self._tasks]

    async def _beat(self, socket: ClientConnection) -> None:
        with contextlib.suppress(WebSocketException):
            while True:
                usage = {"cpu_percent": 1.0, "mem_percent": 1.0, "running_jobs": len(self._tasks)}
                said = {"type": "node_heartbeat", "node_id": self._node_id, "timestamp": 1, "resource_usage": usage}
                if self._socket is not None:
                    own = {} if self._is_legacy else {"running": self._running(), "health": "ready"}
                    await socket.send(json.dumps(said | own))
                    await asyncio.sleep(self._beat_s)
                else:
                    await asyncio.sleep(0.02)

    def _hear(self, said: dict[str, Any], socket: ClientConnection) -> None:
        kind = said.get("type")
        if kind == "node_register_ack":
            self._epoch, self._socket = said["epoch"], socket
            self._pen.write("registered", node=self._node_id, epoch=self._epoch)
        elif kind == "job_assign":
            self._assigned(msgspec.convert(said, Job))
        elif kind == "job_cancel":
            self._cancelled(said["job_id"], said["attempt_id"])
        elif kind == "error":
            self._pen.write("told", node=self._node_id, code=said.get("code"), detail=str(said.get("message"))[:160])

    def _assigned(self, job: Job) -> None:
        key = (job.job_id, job.attempt_id)
        if key in self._seen:
            self._pen.write("again", node=self._node_id, job=job.job_id, attempt=job.attempt_id)
            if key in self._tasks and not self._is_legacy:
                self._say("job_ack", job)
            return
        self._seen.add(key)
        if self._is_legacy:
            # Field nodes take an utterance once.
            if (job.session_id, job.utterance_index) in self._utterances:
                self._pen.write("seen_before", node=self._node_id, job=job.job_id, attempt=job.attempt_id)
                self._say("job_result", job, success=False, error={"code": "DUPLICATE", "message": "seen before"})
                return
            self._utterances.add((job.session_id, job.utterance_index))
        self._tasks[key] = asyncio.create_task(self._work(job))

    async def _work(self, job: Job) -> None:
        if not self._is_legacy:
            self._say("job_ack", job)
            self._say("job_started", job)
        said: dict[str, Any]
        try:
            text = await self._hands.work(job)
            said = {"success": True, "text_asr": text, "text_translated": text}
        except Cannot as error:
            said = {"success": False, "error": {"code": "DICE", "message": str(error)}}
        finally:
            del self._tasks[job.job_id, job.attempt_id]
        self._say("job_result", job, **said)

    def _cancelled(self, job_id: str, attempt: int) -> None:
        self._pen.write("told_to_stop", node=self._node_id, job=job_id, attempt=attempt)
        task = self._tasks.get((job_id, attempt))
        if self._is_stubborn:
            return
        if task is not None:
            task.cancel()
        if not self._is_legacy:
            stopped = {"job_id": job_id, "attempt_id": attempt}
            asyncio.get_running_loop().call_soon(lambda: self._send({"type": "job_stopped"} | stopped))

    def _say(self, kind: str, job: Job, **said: Any) -> None:  # noqa: ANN401 - any field of a message
        about = {name: getattr(job, name) for name in _ABOUT}
        is_sent = self._send({"type": kind, "node_id": self._node_id} | about | said)
        if kind == "job_result":
            fields = {"ok": said["success"], "sent": is_sent}
            self._pen.write("result", node=self._node_id, job=job.job_id, attempt=job.attempt_id, **fields)

    def _send(self, said: dict[str, Any]) -> bool:
        """Whether there was a socket to write it to."""
        if self._socket is None:
            return False
        said.setdefault("node_id", self._node_id)
        sending = asyncio.create_task(self._socket.send(json.dumps(said)))
        sending.add_done_callback(lambda task: task.cancelled() or task.exception())
        return True


async def run_sdk(options: argparse.Namespace, pen: Pen, hands: Hands) -> None:
    """The same by the SDK, which has its own guard against too many jobs: that it had to use it is written down."""
    from lingua_scheduler import sdk  # noqa: PLC0415 - the other kinds need none of it

    node = sdk.Node(
        semantic=LANGS,
        asr=LANGS,
        tts=LANGS,
        max_jobs=options.slots,
        node_id=options.node_id,
        url=f"http://127.0.0.1:{options.port}",
        audio="inline",
        drain_s=1.0,
    )

    @node.job
    async def translate(job: sdk.Job) -> dict[str, object]:
        fields = {name: getattr(job, name) for name in (*_ABOUT, "payload")}
        named = {"node": options.node_id, "job": job.job_id, "attempt": job.attempt_id}
        try:
            text = await hands.work(Job(**fields))
        except Cannot as error:
            pen.write("result", **named, ok=False)
            raise sdk.JobError("DICE", str(error)) from None
        pen.write("result", **named, ok=True)
        return {"text_asr": text, "text_translated": text}

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.drain)
    await node.run()


async def run(options: argparse.Namespace) -> None:
    """One life of a node."""
    pen = Pen(Path(options.folder), f"{options.node_id}.{options.life}")
    hands = Hands(pen, options.node_id, options.seed, options.stuck_s)
    pen.write("up", node=options.node_id, pid=os.getpid(), slots=options.slots, kind=options.kind)
    if options.kind == "sdk":
        await run_sdk(options, pen, hands)
    else:
        node = PollNode(options, LANGS, pen, hands) if options.kind == "polls" else BareNode(options, pen, hands)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.over.set)
        await node.run()
    pen.write("down", node=options.node_id)


def main() -> None:
    """What the command line says."""
    leash.hold()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("node_id")
    parser.add_argument("port", type=int)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--life", type=int, required=True, help="how often it was started before")
    parser.add_argument("--seed", required=True)
    parser.add_argument("--beat-s", type=float, required=True)
    parser.add_argument("--patience-s", type=float, required=True)
    parser.add_argument("--stuck-s", type=float, required=True, help="how long a job takes that takes too long")
    parser.add_argument("--folder", required=True)
    asyncio.run(run(parser.parse_args()))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
