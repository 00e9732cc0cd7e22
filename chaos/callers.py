"""Services that submit jobs over HTTP, each under a request id of its own, and follow them to their end."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any, Final

import httpx2

from lingua_scheduler.core.job_state import ENDS

if TYPE_CHECKING:
    from chaos.history import Pen

_ANSWER_S: Final = 4.0
_WAIT_MS: Final = 2_000
#: A caller that never got an answer does not know whether there is a job; it gives up after this.
_PATIENCE_S: Final = 20.0
_STORM: Final = 12
_OK, _UNKNOWN_JOB = 200, 404
_CANCELS: Final = 0.06


class Callers:
    """All of them. What is asked again has the same body: it must mean the same job."""

    def __init__(self, pen: Pen, url: str, seed: str, every_s: float, follow_s: float) -> None:
        self._pen, self._url, self._every_s, self._follow_s = pen, url, every_s, follow_s
        self._rng = random.Random(seed)
        self._seed, self._made = seed, 0
        self._over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, number: int) -> None:
        """So many that ask at their own pace."""
        for _ in range(number):
            self._spawn(self._ask_on())

    def poison(self) -> None:
        """A job that takes its nodes down."""
        self._spawn(self._follow(self._new("poison"), poison=True))

    def storm(self) -> None:
        """The same request, again and again and at once, wherever it lands."""
        request = self._new("storm")
        for _ in range(_STORM):
            self._spawn(self._follow(request))

    def hush(self) -> None:
        """Ask nothing more, and follow what there is to its end."""
        self._over.set()

    @property
    def waiting(self) -> int:
        """How many did not come to an end yet."""
        return len(self._tasks)

    async def close(self) -> None:
        """Hang up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, call: Any) -> None:  # noqa: ANN401 - a coroutine of ours
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _new(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made}"

    async def _ask_on(self) -> None:
        while not self._over.is_set():
            try:
                await asyncio.wait_for(self._over.wait(), self._rng.expovariate(1 / self._every_s))
            except TimeoutError:
                await self._follow(self._new("ask"))

    async def _follow(self, request: str, *, poison: bool = False) -> None:
        async with httpx2.AsyncClient(base_url=self._url, timeout=_ANSWER_S, trust_env=False) as http:
            job_id = await self._submit(http, request, poison=poison)
            if job_id:
                await self._see_the_end(http, request, job_id)

    async def _submit(self, http: httpx2.AsyncClient, request: str, *, poison: bool) -> str:
        body = {
            "session_id": f"h-{request}",
            "src_lang": "en",
            "tgt_lang": "zh",
            "audio_ref": "blob://1",
            "request_id": request,
            "payload": {"request": request, "poison": poison},
            "options": {"wait_ms": 1_000},
        }
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            self._pen.write("asked", request=request)
            try:
                answer = await http.post("/v1/dispatch/f2f", json=body)
                said = answer.json()
            except (httpx2.HTTPError, ValueError) as error:
                self._pen.write("unknown", request=request, why=type(error).__name__)
            else:
                if answer.status_code == _OK:
                    self._pen.write("answered", request=request, job=said["job_id"], node=said["node_id"])
                    return str(said["job_id"])
                self._pen.write("refused", request=request, code=said.get("error"))
                if not said.get("retryable"):
                    return ""
            await asyncio.sleep(self._rng.uniform(0.05, 0.6))
        self._pen.write("gave_up", request=request)
        return ""

    async def _see_the_end(self, http: httpx2.AsyncClient, request: str, job_id: str) -> None:
        if self._rng.random() < _CANCELS:
            await self._ask(http, request, job_id, "cancel")
        until = time.monotonic() + self._follow_s
        while time.monotonic() < until:
            state = await self._ask(http, request, job_id, "look")
            if state in ENDS:
                # An end is final: whoever looks again sees the same.
                await self._ask(http, request, job_id, "look")
                return
            await asyncio.sleep(self._rng.uniform(0.05, 0.3))

    async def _ask(self, http: httpx2.AsyncClient, request: str, job_id: str, what: str) -> str:
        about: dict[str, Any] = {"request": request, "job": job_id}
        try:
            if what == "cancel":
                answer = await http.post("/v1/job/cancel", json={"job_id": job_id, "reason": "chaos"})
            else:
                answer = await http.get(f"/v1/job/{job_id}?wait_ms={_WAIT_MS}")
            said = answer.json()
        except (httpx2.HTTPError, ValueError) as error:
            self._pen.write("unknown", **about, why=type(error).__name__)
            return ""
        if answer.status_code != _OK:
            what = "job_unknown" if answer.status_code == _UNKNOWN_JOB else "refused"
            self._pen.write(what, **about, code=said.get("error"))
            return ""
        result = said.get("result") or {}
        fields = {"state": said["state"], "text": result.get("text_translated")}
        self._pen.write("seen", **about, attempt=said.get("attempt_id", 0), node=said.get("node_id") or "", **fields)
        return str(said["state"])
