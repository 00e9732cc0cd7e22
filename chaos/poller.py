"""A simulated node without a socket: it asks for its work over HTTP, and tells there what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from typing import TYPE_CHECKING, Any, Final

import httpx2
import msgspec

from chaos.hands import Cannot, Hands, Job

if TYPE_CHECKING:
    import argparse

    from chaos.history import Pen

_ANSWER_S: Final = 4.0
_WAIT_MS: Final = 2_000
_LEAVES_S: Final = 1.0
_AGAIN_S: Final = (0.05, 0.4)
#: Nobody is interested any more in what could not be told for so long.
_PATIENCE_S: Final = 30.0
_OK: Final = 200
#: Who hears these must say again who he is.
_UNKNOWN: Final = frozenset({"UNKNOWN_NODE", "STALE_ATTEMPT"})


class PollNode:
    """Every word of it may arrive at another instance, late, twice or not at all; it says each until it is answered.

    It works on nothing that it could not accept, and names what it is about to accept as if it worked on it.
    """

    def __init__(self, options: argparse.Namespace, langs: list[str], pen: Pen, hands: Hands) -> None:
        self._node_id, self._slots, self._beat_s = options.node_id, options.slots, options.beat_s
        self._url, self._langs = f"http://127.0.0.1:{options.port}", langs
        self._pen, self._hands = pen, hands
        self._rng = random.Random(options.seed)
        self._epoch, self._process_id = "", secrets.token_hex(8)
        self._is_known = asyncio.Event()
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._seen: set[tuple[str, int]] = set()
        self.over = asyncio.Event()

    async def run(self) -> None:
        """Until it is told to go."""
        async with httpx2.AsyncClient(base_url=self._url, timeout=_ANSWER_S, trust_env=False) as self._http:
            loops = [asyncio.create_task(loop()) for loop in (self._register, self._beat, self._poll)]
            await self.over.wait()
            for task in (*loops, *self._tasks.values()):
                task.cancel()
            await asyncio.gather(*loops, *self._tasks.values(), return_exceptions=True)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._post("/v1/node/offline", epoch=self._epoch or None), _LEAVES_S)

    async def _post(self, path: str, **said: Any) -> tuple[int, dict[str, Any]]:  # noqa: ANN401 - any field
        """The status and what was said; 0: nobody knows whether it arrived."""
        try:
            answer = await self._http.post(path, json={"node_id": self._node_id} | said)
            return answer.status_code, answer.json()
        except (httpx2.HTTPError, ValueError) as error:
            self._pen.write("apart", node=self._node_id, why=f"{path}: {type(error).__name__}")
            return 0, {}

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.uniform(*_AGAIN_S))

    def _running(self) -> list[dict[str, Any]]:
        return [{"job_id": job_id, "attempt_id": attempt} for job_id, attempt in self._tasks]

    # Who it is.

    async def _register(self) -> None:
        """Whenever nobody knows it."""
        while True:
            if not self._is_known.is_set():
                status, said = await self._post(
                    "/v1/node/register",
                    **{f"{name}_langs": self._langs for name in ("asr", "semantic", "tts")},
                    max_concurrent_jobs=self._slots,
                    epoch=self._epoch or None,
                    process_id=self._process_id,
                    running=self._running(),
                )
                if status == _OK:
                    self._epoch = said["epoch"]
                    self._is_known.set()
                    self._pen.write("registered", node=self._node_id, epoch=self._epoch)
            await self._pause()

    async def _beat(self) -> None:
        """What it works on; the answer says what it must stop."""
        while True:
            await self._is_known.wait()
            status, said = await self._post("/v1/node/heartbeat", epoch=self._epoch, running=self._running())
            if self._is_doubted(status, said):
                continue
            for attempt in said.get("cancel", ()):
                self._cancelled(attempt["job_id"], attempt["attempt_id"])
            await asyncio.sleep(self._beat_s)

    def _is_doubted(self, status: int, said: dict[str, Any]) -> bool:
        """Whether it must register again first."""
        if said.get("error") in _UNKNOWN or (status == _OK and said.get("must_register")):
            self._is_known.clear()
            return True
        return False

    def _cancelled(self, job_id: str, attempt: int) -> None:
        self._pen.write("told_to_stop", node=self._node_id, job=job_id, attempt=attempt)
        task = self._tasks.get((job_id, attempt))
        if task is not None:
            task.cancel()

    # Its work.

    async def _poll(self) -> None:
        while True:
            await self._is_known.wait()
            status, said = await self._post("/v1/node/poll", epoch=self._epoch, wait_ms=_WAIT_MS)
            if self._is_doubted(status, said) or status != _OK:
                await self._pause()
                continue
            for assigned in said["jobs"]:
                self._assigned(msgspec.convert(assigned, Job))

    def _assigned(self, job: Job) -> None:
        key = (job.job_id, job.attempt_id)
        if key in self._seen:
            self._pen.write("again", node=self._node_id, job=job.job_id, attempt=job.attempt_id)
            return
        self._seen.add(key)
        task = self._tasks[key] = asyncio.create_task(self._work(job))
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def _work(self, job: Job) -> None:
        try:
            if not await self._tell("ack", job):
                return
            await self._tell("started", job)
            text = await self._hands.work(job)
        except asyncio.CancelledError:
            if not self.over.is_set():
                await asyncio.shield(self._tell("stopped", job))
            raise
        except Cannot as error:
            self._write_result(job, ok=False)
            await self._tell("fail", job, status="error", reason=str(error))
            return
        self._write_result(job, ok=True)
        await self._tell("done", job, status="ok", result={"text_asr": text, "text_translated": text})

    def _write_result(self, job: Job, *, ok: bool) -> None:
        self._tasks.pop((job.job_id, job.attempt_id), None)
        self._pen.write("result", node=self._node_id, job=job.job_id, attempt=job.attempt_id, ok=ok, sent=True)

    async def _tell(self, what: str, job: Job, **said: Any) -> bool:  # noqa: ANN401 - any field
        """Say it until it is answered: whether it counts."""
        until = asyncio.get_running_loop().time() + _PATIENCE_S
        about = {"job_id": job.job_id, "attempt_id": job.attempt_id}
        while asyncio.get_running_loop().time() < until:
            status, answer = await self._post(f"/v1/job/{what}", **about, **said)
            if status == _OK:
                return True
            if status and not answer.get("retryable"):
                detail = f"{what}: {answer.get('detail', '')}"[:160]
                self._pen.write(
                    "told",
                    node=self._node_id,
                    job=job.job_id,
                    attempt=job.attempt_id,
                    code=answer.get("error"),
                    detail=detail,
                )
                return False
            await self._pause()
        return False
