"""The figures of the doors: `./dev bench front [--json]`. Some two minutes on two cores.

One `lingua serve`, its engine beside it, and clients on bare sockets. What is counted is the server's CPU time, so that
the clients, which share the machine, cost nothing but time. Each figure is the median of several turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from bench.fleet import cpu_us
from bench.raw import RawHttp, RawSocket
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

CALLERS: Final = 32
NODES: Final = 8
SLOTS: Final = 64
ROUNDS: Final = 5
#: Complete jobs, or requests, of one turn.
EACH_TURN: Final = 2_000
#: A client confirms so many results at a time: nobody speaks as fast as these, so as few are kept as usual.
CONFIRMED: Final = 16
_NUMBERS: Final = count()

#: Rates are for strangers: here they would measure themselves.
UNBOUNDED: Final = {
    "LINGUA_RATES__SUBMITS_PER_S": "1000000",
    "LINGUA_RATES__SUBMITS_BURST": "1000000",
    "LINGUA_RATES__UTTERANCES_PER_S": "1000000",
    "LINGUA_RATES__UTTERANCES_BURST": "1000000",
}


@contextmanager
def serving(store: str) -> Iterator[tuple[int, int]]:
    """A scheduler of its own: its pid and its port."""
    command = [str(Path(sys.executable).parent / "lingua"), "serve", "--port", "0", "--store", store, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | UNBOUNDED) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - it is piped
            ready = json.loads(process.stdout.readline())
            yield process.pid, ready["port"]
        finally:
            process.terminate()


def _registration(node_id: str, *, features: list[str] | None = None) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "semantic_langs": ["en", "zh"],
        "nmt_pairs": [["en", "zh"]],
        "tts_langs": [],
        "max_concurrent_jobs": SLOTS,
        "advanced_features": features,
    }


def _job(session: str) -> bytes:
    return json.dumps(
        {"session_id": session, "src_lang": "en", "tgt_lang": "zh", "audio_ref": "blob://1", "payload": {"n": 1}}
    ).encode()


class Node:
    """A node on a socket: it does every job at once, and says nothing before that, as the nodes in the field."""

    def __init__(self, socket: RawSocket, node_id: str) -> None:
        self._socket = socket
        self._node_id = node_id
        self.done: dict[str, asyncio.Event] = {}

    @classmethod
    async def join(cls, port: int, node_id: str) -> tuple[Node, asyncio.Task[None]]:
        """A node that serves until the socket closes."""
        socket = await RawSocket.connect(port, "/ws/node")
        socket.write(json.dumps({"type": "node_register"} | _registration(node_id)).encode())
        ack = json.loads(await socket.read())
        if ack["type"] != "node_register_ack":
            raise RuntimeError(ack)
        socket.write(json.dumps({"type": "node_heartbeat", "node_id": node_id, "health": "ready"}).encode())
        node = cls(socket, node_id)
        return node, asyncio.create_task(socket.serve(node.answer))

    def answer(self, message: dict[str, Any]) -> bytes | None:
        """The result of a job."""
        if message["type"] != "job_assign":
            return None
        said = {name: message[name] for name in ("job_id", "attempt_id", "session_id", "utterance_index", "trace_id")}
        said |= {
            "type": "job_result",
            "node_id": self._node_id,
            "success": True,
            "text_asr": "a",
            "text_translated": "b",
        }
        return json.dumps(said).encode()


class Turn:
    """What is measured in turns."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.callers: list[RawHttp] = []
        self.sessions: list[tuple[RawSocket, str]] = []

    async def open(self) -> None:
        """Connect the callers once."""
        self.callers = [await RawHttp.connect(self.port) for _ in range(CALLERS)]

    async def begin_sessions(self) -> None:
        """Open the sessions. Not before they speak: nobody answers their pings until then."""
        for number in range(CALLERS):
            socket = await RawSocket.connect(self.port, "/ws/session")
            init = {"type": "session_init", "client_version": "1", "platform": "api-gateway"}
            socket.write(json.dumps(init | {"src_lang": "en", "tgt_lang": "zh"}).encode())
            ack = json.loads(await socket.read())
            if ack["type"] != "session_init_ack":
                raise RuntimeError(f"{number}: {ack}")
            self.sessions.append((socket, ack["session_id"]))

    async def livez(self, caller: RawHttp, _number: int) -> None:
        """Nothing but HTTP."""
        await caller.ask("GET", "/livez")

    async def heartbeat(self, caller: RawHttp, number: int) -> None:
        """One flow."""
        await caller.post("/v1/node/heartbeat", {"node_id": f"http-{number % NODES}"})

    async def http_job(self, caller: RawHttp, number: int) -> None:
        """A job of an HTTP node: dispatch, ack, done."""
        placed = json.loads((await caller.ask("POST", "/v1/dispatch/f2f", _job(f"s{number % CALLERS}")))[1])
        attempt = {name: placed[name] for name in ("job_id", "attempt_id", "node_id")}
        await caller.post("/v1/job/ack", attempt)
        await caller.post("/v1/job/done", attempt | {"status": "ok", "result": {"text_translated": "b"}})

    async def socket_job(self, caller: RawHttp, number: int) -> None:
        """A job over HTTP for a node on a socket, and its result."""
        status, body = await caller.ask("POST", "/v1/dispatch/f2f", _job(f"s{number % CALLERS}"))
        job_id = json.loads(body)["job_id"] if status == 200 else body.decode()
        status, body = await caller.ask("GET", f"/v1/job/{job_id}?wait_ms=10000")
        if json.loads(body).get("state") != "FINISHED":
            raise RuntimeError(body.decode())

    async def session_job(self, place: int, number: int) -> None:
        """An utterance on a session's socket, and its translation."""
        socket, session_id = self.sessions[place]
        utterance = {
            "type": "utterance",
            "session_id": session_id,
            "utterance_index": number,
            "manual_cut": True,
            "src_lang": "en",
            "tgt_lang": "zh",
            "audio": "AAAA" * 16,
            "audio_format": "pcm16",
            "sample_rate": 16_000,
        }
        socket.write(json.dumps(utterance).encode())
        while True:
            message = json.loads(await socket.read())
            if message["type"] == "translation_result":
                if message["event_id"] % CONFIRMED == 0:
                    socket.write(json.dumps({"type": "event_ack", "last_event_id": message["event_id"]}).encode())
                return
            if message["type"] in {"error", "missing_result"}:
                raise RuntimeError(message)

    async def run(self, work: Callable[[Any, int], Awaitable[None]], by: list[Any]) -> None:
        """So much work, by all of these side by side, each one after the other."""
        numbers = iter([next(_NUMBERS) for _ in range(EACH_TURN)])

        async def one(worker: Any) -> None:  # noqa: ANN401
            for number in numbers:
                await work(worker, number)

        await asyncio.gather(*(one(worker) for worker in by))


async def measure(store: str, engine_pid: int) -> dict[str, dict[str, float]]:
    """Per server-CPU-second: requests, and complete jobs."""
    found: dict[str, list[tuple[float, float]]] = {}
    with serving(store) as (pid, port):
        turn = Turn(port)
        await turn.open()

        async def timed(name: str, work: Callable[[Any, int], Awaitable[None]], by: list[Any]) -> None:
            before, engine_before = cpu_us(pid), cpu_us(engine_pid)
            await turn.run(work, by)
            spent = (cpu_us(pid) - before) / EACH_TURN, (cpu_us(engine_pid) - engine_before) / EACH_TURN
            found.setdefault(name, []).append(spent)

        first = turn.callers[0]
        for number in range(NODES):
            await first.post("/v1/node/register", _registration(f"http-{number}"))
        for _ in range(ROUNDS):
            await timed("livez", turn.livez, turn.callers)
            await timed("heartbeat", turn.heartbeat, turn.callers)
            await timed("http_job", turn.http_job, turn.callers)
        for number in range(NODES):
            await first.post("/v1/node/offline", {"node_id": f"http-{number}"})
        nodes = [await Node.join(port, f"ws-{number}") for number in range(NODES)]
        for _ in range(ROUNDS):
            await timed("socket_job", turn.socket_job, turn.callers)
        await turn.begin_sessions()
        for _ in range(ROUNDS):
            await timed("session_job", turn.session_job, list(range(CALLERS)))
        for _, task in nodes:
            task.cancel()
    return {name: _figures(samples) for name, samples in found.items()}


def _figures(samples: list[tuple[float, float]]) -> dict[str, float]:
    server = statistics.median(spent for spent, _ in samples)
    engine = statistics.median(spent for _, spent in samples)
    return {"per_cpu_second": round(1e6 / server), "server_us": round(server, 1), "engine_us": round(engine, 1)}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder))
        try:
            figures = asyncio.run(measure(server.url, server.pid))
        finally:
            server.stop()
    if args.json:
        sys.stdout.write(json.dumps(figures) + "\n")
        return
    table = Table("what", "per CPU-second of the server", "server µs", "engine µs", title="The doors")
    for name, row in figures.items():
        table.add_row(name.replace("_", " "), *(f"{value:,}" for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
