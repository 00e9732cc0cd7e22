"""`Node`: what a node developer writes."""

from __future__ import annotations

import asyncio
import os
import platform
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from lingua_scheduler.core.capability import capability
from lingua_scheduler.core.ids import check_id, check_int
from lingua_scheduler.core.node import MAX_SLOTS
from lingua_scheduler.protocol.node import NodeRegister
from lingua_scheduler.protocol.registration import Services
from lingua_scheduler.sdk._address import Address, address_of
from lingua_scheduler.sdk._connect import checked_token, token_of, version_of_us
from lingua_scheduler.sdk.client_errors import ClientError
from lingua_scheduler.sdk.nodes.attempts import Attempts
from lingua_scheduler.sdk.nodes.membership import Membership
from lingua_scheduler.sdk.nodes.runner import STOPPED, Runner
from lingua_scheduler.sdk.nodes.work import in_thread, is_async

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lingua_scheduler.sdk.nodes.work import Handler

#: How audio comes: as a binary frame, in the message, or by a ref that the node fetches over HTTP.
Audio = Literal["frame", "inline", "fetch"]
_FEATURES: Final[dict[str, list[str]]] = {"frame": ["binary_audio"], "inline": [], "fetch": ["audio_ref"]}
_TELLS: Final = ["job_ack", "job_started", "job_stopped"]

H = TypeVar("H", bound="Callable[..., Any]")


class Node:
    """A node of the fleet. Give it a handler with `@node.job`, and call `node.cli()`, or `await node.run()`."""

    def __init__(
        self,
        semantic: Sequence[str],
        *,
        asr: Sequence[str] | None = None,
        tts: Sequence[str] | None = None,
        pairs: Sequence[tuple[str, str]] | Literal["any"] | None = None,
        max_jobs: int = 1,
        services: Mapping[str, bool] | None = None,
        labels: Mapping[str, str] | None = None,
        public: bool = True,
        node_id: str | None = None,
        url: str | None = None,
        token: str | None = None,
        load_fn: Callable[[], object] | None = None,
        audio: Audio = "frame",
        drain_s: float = 30.0,
    ) -> None:
        """`semantic`, `asr`, `tts` and `pairs` say which jobs it gets, as docs/node-sdk.md tells.

        `node_id`, `url` and `token` may come from LINGUA_NODE_ID, LINGUA_URL and LINGUA_TOKEN. Without an id the
        scheduler gives one. `load_fn` says how busy the machine is, from 0 to 1, with every heartbeat.
        """
        if audio not in _FEATURES:
            raise ValueError(f"audio is one of {', '.join(_FEATURES)}, not {audio!r}")
        named = node_id or os.environ.get("LINGUA_NODE_ID") or None
        self.node_id = None if named is None else check_id("node_id", named)
        self.max_jobs = check_int("max_jobs", max_jobs, 1, MAX_SLOTS)
        self._address = Address.parse(url) if url else None
        self.drain_s = drain_s
        self._token = checked_token(token)
        self._audio = audio
        self._load_fn = load_fn
        self._handler: Handler | None = None
        self._setup: Callable[[], object] | None = None
        self._is_set_up = False
        #: What the set-up has raised.
        self.setup_error: Exception | None = None
        self._runner: Runner | None = None
        self._is_running = False
        #: It was told to go before its set-up was over.
        self._is_unwanted = False
        #: Set-up is over and it is on its way, or it has run and will not be any more.
        self._is_known = asyncio.Event()
        #: Why it has ended, when it has.
        self._why_out: Exception = ClientError("NODE_STOPPED", STOPPED)
        self.declaration = _declaration(semantic, asr, tts, pairs, self.max_jobs, services, labels, public, audio)

    @property
    def address(self) -> Address:
        """Where it goes. Whether LINGUA_URL is an address counts only where it is asked for."""
        return self._address or address_of(None)

    @address.setter
    def address(self, address: Address) -> None:
        self._address = address

    def job(self, handler: H) -> H:
        """The handler: it takes a job and returns its result. `async def`, or a plain `def`, which runs in a thread."""
        if self._handler is not None:
            raise ValueError("a node has one handler; this is the second @node.job")
        self._handler = handler
        return handler

    def setup(self, function: H) -> H:
        """What is called once before the node joins: load the models here. It may take its time, and may block."""
        self._setup = function
        return function

    @property
    def handler(self) -> Handler:
        """What `@node.job` was written over."""
        if self._handler is None:
            raise ValueError("this node has no handler: write @node.job over the function that does a job")
        return self._handler

    async def prepare(self) -> None:
        """Do the set-up, once."""
        if self._setup is not None and not self._is_set_up:
            try:
                await _set_up(self._setup)
            except Exception as error:
                self.setup_error = error
                raise
        self._is_set_up = True

    async def run(self) -> None:
        """Serve until `drain` or `stop`; raises `Refused` if the scheduler does not take such a node."""
        if self._is_running:
            raise RuntimeError("this node runs already")
        self._is_running, self._is_unwanted = True, False
        self._is_known.clear()
        self._why_out = ClientError("NODE_STOPPED", STOPPED)
        try:
            await self._run()
        except Exception as error:
            self._why_out = error
            raise
        finally:
            self._is_running = False
            self._is_known.set()

    async def _run(self) -> None:
        handler, address, token = self.handler, self.address, token_of(self._token)
        attempts = Attempts(self.max_jobs, takes_frames=self._audio == "frame")
        membership = Membership(self.declaration_of(), attempts)
        await self.prepare()
        if self._is_unwanted:
            return
        self._runner = Runner(
            membership,
            attempts,
            handler,
            address=address,
            token=token,
            drain_s=self.drain_s,
            load=self._load_fn,
        )
        self._is_known.set()
        try:
            await self._runner.run()
        finally:
            self._runner = None
            self.node_id = membership.node_id

    def declaration_of(self) -> NodeRegister:
        """What it says of itself when it joins."""
        return NodeRegister(**self.declaration, node_id=self.node_id)

    async def joined(self) -> None:
        """Wait until it is in the fleet. What keeps it out for good is raised: also what has ended `run` before."""
        # A `run` that was asked for just now begins first: what the one before it came to does not count any more.
        await asyncio.sleep(0)
        await self._is_known.wait()
        if self._runner is None:
            raise self._why_out
        await self._runner.in_fleet()

    @property
    def has_begun(self) -> bool:
        """Whether its set-up is over, and it is in the fleet or on its way there."""
        return self._runner is not None

    @property
    def is_joined(self) -> bool:
        """Whether it is in the fleet now."""
        return self._runner is not None and self._runner.joined.is_set()

    def drain(self) -> None:
        """Take no new job, end those that are here, and go; before it is set up: as soon as it is.

        Call it in the loop in which it runs.
        """
        if self._runner is None:
            self._is_unwanted = True
        else:
            self._runner.drain()

    def stop(self) -> None:
        """Go at once, or as soon as it is set up; what it works on goes to other nodes.

        Call it in the loop in which it runs.
        """
        if self._runner is None:
            self._is_unwanted = True
        else:
            self._runner.stop()

    def cli(self, arguments: Sequence[str] | None = None) -> None:
        """The command line of a node: `check`, `dev` and `start`. It ends the process."""
        from lingua_scheduler.sdk.nodes.cli import main  # noqa: PLC0415 - only a program needs it

        raise SystemExit(main(self, arguments))


async def _set_up(function: Callable[[], Any]) -> None:
    if is_async(function):
        await function()
    else:
        await in_thread(function, name="setup")


def _declaration(
    semantic: Sequence[str],
    asr: Sequence[str] | None,
    tts: Sequence[str] | None,
    pairs: Sequence[tuple[str, str]] | Literal["any"] | None,
    max_jobs: int,
    services: Mapping[str, bool] | None,
    labels: Mapping[str, str] | None,
    public: bool,
    audio: Audio,
) -> dict[str, Any]:
    """Checked as the scheduler would check it: what cannot be right is told where it was written."""
    capability(
        semantic_langs=semantic,
        asr_langs=asr,
        nmt_pairs=pairs,
        tts_langs=tts,
        services=services,
        labels=labels,
        accept_public_jobs=public,
    )
    return {
        "semantic_langs": list(semantic),
        "asr_langs": None if asr is None else list(asr),
        "nmt_pairs": pairs if pairs is None or isinstance(pairs, str) else [(src, tgt) for src, tgt in pairs],
        "tts_langs": None if tts is None else list(tts),
        "max_concurrent_jobs": max_jobs,
        "services": None if services is None else Services(**services),
        "labels": None if labels is None else dict(labels),
        "accept_public_jobs": public,
        "advanced_features": _TELLS + _FEATURES[audio],
        "version": version_of_us(),
        "platform": platform.system().lower(),
    }
