"""For whoever writes an app: say something, and get what it means.

    async with Client("http://127.0.0.1:5010", token="…") as client:
        async for said in client.translate(audio, src="en", tgt="zh"):
            print(said)

A lost connection is the library's business: it comes back by itself, and hands over every result once, in order. What
it cannot mend is a `ClientError`, which says whether to try again, and when.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypedDict

import msgspec

from lingua_scheduler.core.ids import check_int
from lingua_scheduler.core.traces import trace_in
from lingua_scheduler.protocol.options import Options, Pipeline
from lingua_scheduler.protocol.session import SessionInit, Utterance
from lingua_scheduler.sdk._address import DEFAULT_URL, Address
from lingua_scheduler.sdk._connect import checked_token, version_of_us
from lingua_scheduler.sdk._tracing import asking, traceparent_of
from lingua_scheduler.sdk.client_errors import Refused, SessionLost
from lingua_scheduler.sdk.client_idle import Idle
from lingua_scheduler.sdk.client_items import Missing, Partial, Result
from lingua_scheduler.sdk.client_link import Link
from lingua_scheduler.sdk.client_session import MAX_HELD_BYTES, Conversation
from lingua_scheduler.sdk.client_stream import Stream
from lingua_scheduler.sdk.client_wav import RATES, RIFF, wav_rate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from types import TracebackType
    from typing import Unpack

    from lingua_scheduler.protocol.fields import Mode
    from lingua_scheduler.protocol.session import AudioFormat

SAMPLE_RATE: Final = 16_000
_CODECS: Final = ("pcm16", "opus")


class Wishes(TypedDict, total=False):
    """What else may be asked for, in the words of the wire contract."""

    options: Options
    pipeline: Pipeline
    dialect: str
    features: dict[str, Any]
    mode: Mode
    lang_a: str
    lang_b: str
    auto_langs: list[str]
    enable_streaming_asr: bool
    partial_update_interval_ms: int
    trace_id: str


class Client:
    """One scheduler, as an app sees it. Entering connects, so that a wrong address or token is told at once."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        *,
        connect_timeout_s: float = 5.0,
        resume_for_s: float = 120.0,
        max_held_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        """`resume_for_s`: how long a lost connection is tried again; the scheduler keeps a session for two minutes.

        `max_held_bytes`: how much may wait for an app that does not iterate; beyond that nothing more is read.
        """
        self._address = Address.parse(url)
        self._token = checked_token(token)
        self._connect_timeout_s = connect_timeout_s
        self._resume_for_s = resume_for_s
        self._max_held_bytes = max_held_bytes
        #: A translation has a session to itself, so that none waits for another. These have nothing to do just now.
        self._idle = Idle()
        #: Those that have, or are about to be open.
        self._busy: set[Link] = set()
        self._is_entered = False

    async def __aenter__(self) -> Self:
        self._rest(await self._open(SessionInit()))
        self._is_entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_entered = False
        await asyncio.gather(self._idle.close(), *(link.hang_up() for link in self._busy))
        self._busy.clear()

    async def translate(
        self,
        audio: bytes,
        src: str,
        tgt: str,
        *,
        audio_format: AudioFormat | None = None,
        sample_rate: int | None = None,
        speak: bool = False,
        **wishes: Unpack[Wishes],
    ) -> AsyncGenerator[Partial | Result, None]:
        """One utterance: what is understood so far, and at last its `Result`, or a `NoResult` is raised.

        A wav file tells its format itself; other bytes are 16-bit samples at 16 kHz, unless you say otherwise. With
        `speak` the result has the translation as speech, too.
        """
        with asking(src, tgt) as parent:
            async for item in self._ask(parent, audio, src, tgt, audio_format, sample_rate, speak=speak, wishes=wishes):
                yield item

    async def _ask(
        self,
        parent: str | None,
        audio: bytes,
        src: str,
        tgt: str,
        audio_format: AudioFormat | None,
        sample_rate: int | None,
        *,
        speak: bool,
        wishes: Wishes,
    ) -> AsyncGenerator[Partial | Result, None]:
        if not isinstance(audio, bytes | bytearray | memoryview):
            raise TypeError(f"audio is bytes, not {type(audio).__name__}; of a file, those of Path(…).read_bytes()")
        kind = audio_format or ("wav" if audio[:4] == RIFF else "pcm16")
        said = Utterance(
            audio=base64.b64encode(audio).decode(),
            utterance_index=0,
            manual_cut=True,
            src_lang=src,
            tgt_lang=tgt,
            audio_format=kind,
            sample_rate=_rate_of(audio, kind) if sample_rate is None else check_int("sample_rate", sample_rate, *RATES),
            traceparent=parent,
            **{"trace_id": trace_in(parent) or secrets.token_hex(16)} | _wished(wishes, speak=speak),
        )
        # A session that was lost while it had nothing to do costs nobody anything: there is a new one.
        try:
            async for item in self._translate(said, len(audio)):
                yield item
        except SessionLost:
            async for item in self._translate(said, len(audio)):
                yield item

    async def _translate(self, said: Utterance, size: int) -> AsyncGenerator[Partial | Result, None]:
        link, is_free = await self._borrow(), False
        try:
            await link.may_send()
            _check_size(size, link)
            index = link.conversation.say(said)
            link.ring()
            while (item := await link.next()) is not None:
                if item.utterance_index != index:
                    continue
                if isinstance(item, Missing):
                    raise item.error()
                if isinstance(item, Result):
                    self._rest(link)
                    is_free = True
                yield item
                if is_free:
                    return
        finally:
            if not is_free:
                await self._drop(link)

    def stream(
        self,
        src: str,
        tgt: str,
        *,
        codec: Literal["pcm16", "opus"] = "pcm16",
        speak: bool = False,
        pairing_code: str | None = None,
        **wishes: Unpack[Wishes],
    ) -> Stream:
        """Somebody who speaks: send what is heard, and iterate what it means. The scheduler cuts it into utterances.

        `pcm16`: 16-bit samples at 16 kHz, mono. `opus`: packets of 20 ms, each behind its length (u16, low byte first).
        """
        if codec not in _CODECS:
            raise ValueError(f"codec is one of {', '.join(_CODECS)}, not {codec!r}")
        init = SessionInit(
            src_lang=src,
            tgt_lang=tgt,
            preferred_codec=codec,
            supports_binary_frame=True,
            pairing_code=pairing_code,
            traceparent=traceparent_of(),
            **_wished(wishes, speak=speak),
        )
        return Stream(lambda: self._open(init), self._drop)

    async def _borrow(self) -> Link:
        """A session that nobody uses."""
        if not self._is_entered:
            raise RuntimeError("a client is used inside `async with`")
        link = self._idle.take()
        if link is None:
            return await self._open(SessionInit())
        self._busy.add(link)
        return link

    def _rest(self, link: Link) -> None:
        """It is free for whoever comes next."""
        self._busy.discard(link)
        self._idle.add(link)

    async def _open(self, init: SessionInit) -> Link:
        init = msgspec.structs.replace(init, client_version=version_of_us(), platform="api-gateway")
        link = Link(
            self._address,
            self._token,
            Conversation(init, max_held_bytes=self._max_held_bytes),
            connect_timeout_s=self._connect_timeout_s,
            resume_for_s=self._resume_for_s,
        )
        self._busy.add(link)
        try:
            await link.open()
        except BaseException:
            self._busy.discard(link)
            raise
        return link

    async def _drop(self, link: Link) -> None:
        """Nobody wants what it may still say."""
        self._busy.discard(link)
        await link.hang_up()


def _wished(wishes: Wishes, *, speak: bool) -> dict[str, Any]:
    said: dict[str, Any] = dict(wishes)
    if speak:
        options = msgspec.convert(wishes.get("options", Options()), Options)
        said["options"] = msgspec.structs.replace(options, require_tts=True)
    return said


def _rate_of(audio: bytes, kind: AudioFormat) -> int:
    """What a wav file says of itself; else the usual."""
    return wav_rate(audio) if kind == "wav" else SAMPLE_RATE


def _check_size(size: int, link: Link) -> None:
    """A message that is too large would cost the connection."""
    agreed = link.conversation.ack
    if agreed is not None and size > agreed.limits.max_utterance_bytes:
        most = agreed.limits.max_utterance_bytes
        raise Refused("PAYLOAD_TOO_LARGE", f"An utterance has at most {most} bytes; this one has {size}.")
