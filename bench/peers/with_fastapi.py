"""A plain FastAPI handler that runs our own dispatch script by redis-py: what one would write without a scheduler.

It validates, packs, asks the engine and answers. It delivers nothing to anybody.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from redis.asyncio import Redis

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

VERSION = version("fastapi")
#: What the bench says of the script: source, keys, rules and a ticket to copy, whose first fields are job and session.
SCRIPT = json.loads(Path(os.environ["PEER_SCRIPT"]).read_text(encoding="utf-8"))
RULES = bytes.fromhex(SCRIPT["rules"])
redis = Redis.from_url(os.environ["PEER_STORE"], max_connections=64)
sha = ""


class Ask(BaseModel):
    session_id: str
    src_lang: str
    tgt_lang: str
    audio_ref: str | None = None
    payload: dict[str, Any] | None = None


class Placed(BaseModel):
    job_id: str
    node_id: str
    attempt_id: int
    state: str


@asynccontextmanager
async def _loaded(_app: FastAPI) -> AsyncIterator[None]:
    global sha  # noqa: PLW0603 - as examples of FastAPI do
    sha = await redis.script_load(SCRIPT["source"])
    yield


app = FastAPI(lifespan=_loaded)


@app.post("/v1/dispatch/f2f")
async def dispatch(ask: Ask) -> Placed:
    job_id = f"{SCRIPT['cell']}.{uuid.uuid4().hex}"
    ticket = [job_id, ask.session_id, *SCRIPT["ticket"][2:]]
    body = json.dumps({"audio_ref": ask.audio_ref, "payload": ask.payload})
    keys = SCRIPT["keys"]
    answers = await redis.evalsha(sha, len(keys), *keys, "", RULES, msgpack.packb(ticket), body)
    tag, *told = msgpack.unpackb(answers[0])
    if tag != "PLACED":
        raise HTTPException(503, tag)
    state, node_id, _epoch, attempt, *_ = told
    return Placed(job_id=job_id, node_id=node_id, attempt_id=attempt, state=state)
