"""`python -m bench.cluster.victim PORT NODE_ID`: a node that takes a job, says so, and never does it."""

from __future__ import annotations

import asyncio
import json
import sys

from bench.raw import RawSocket
from bench.serving import registration


async def main(port: int, node_id: str) -> None:
    """One line when it has joined, and one with the id of each job that it was given."""
    socket = await RawSocket.connect(port, "/ws/node")
    # Only for jobs that name it: what another victim leaves is not for this one.
    said = registration(node_id, 1, ("job_ack",)) | {"accept_public_jobs": False}
    socket.write(json.dumps({"type": "node_register"} | said).encode())
    while True:
        message = json.loads(await socket.read())
        if message["type"] == "node_register_ack":
            socket.write(json.dumps({"type": "node_heartbeat", "node_id": node_id, "health": "ready"}).encode())
            print("joined", flush=True)
        elif message["type"] == "job_assign":
            about = {name: message[name] for name in ("job_id", "attempt_id")}
            socket.write(json.dumps({"type": "job_ack", "node_id": node_id} | about).encode())
            print(message["job_id"], flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
