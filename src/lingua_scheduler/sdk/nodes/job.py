"""What a handler is given, and how it says that it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.protocol.fields import cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.protocol.node import JobAssign
    from lingua_scheduler.protocol.options import Pipeline

#: A partial that is longer is cut: it must fit into a small message, however it is written.
MAX_PARTIAL: Final = 10_000


class JobError(Exception):
    """Raised by a handler that cannot do its job: the attempt fails, and other nodes try.

    `code` is for programs. Some are known to the scheduler: `NODE_OVERLOADED` costs the job no try, and the node gets
    no other for `retry_after_ms`; `MODEL_NOT_AVAILABLE` with `details={"service_type": "tts"}` marks that service of
    the node for a minute. `retryable=False` says that no other node will succeed either; it travels as
    `details.retryable`, and changes nothing: the protocol has no word for it, and the job is tried elsewhere.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        retryable: bool = True,
        retry_after_ms: int | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.details = details


class Job:
    """One attempt of a job. Everything in it is the scheduler's word; its names are those of `job_assign`."""

    def __init__(
        self, message: JobAssign, audio: bytes, partial: Callable[[str, bool], None] = lambda _text, _is_final: None
    ) -> None:
        self._partial = partial
        self._is_cancelled = False
        self.job_id = message.job_id
        #: From 1; a job that was tried before has a higher one.
        self.attempt_id = message.attempt_id
        self.session_id = message.session_id
        #: Which utterance of its session it is.
        self.utterance_index = message.utterance_index
        self.trace_id = message.trace_id
        #: A base language, like `zh`. With `mode` `two_way_auto` the first is `auto`: see `candidates`.
        self.src_lang = message.src_lang
        self.tgt_lang = message.tgt_lang
        self.dialect = message.dialect
        self.mode = message.mode
        self.lang_a = message.lang_a
        self.lang_b = message.lang_b
        self.auto_langs = message.auto_langs
        #: Among which languages the node decides; empty if the direction is given.
        self.candidates = list(message.lid.candidates) if message.lid else []
        #: What was said, however it travelled; b"" if the job has no audio of ours.
        self.audio = audio
        #: `pcm16` (mono, low byte first), `wav`, or `opus` (packets, each behind its length as two bytes, low first).
        self.audio_format = message.audio_format
        self.sample_rate = message.sample_rate
        #: Somebody else's name for the audio, handed on as it is.
        self.audio_ref = message.audio_ref
        self.payload: dict[str, Any] = message.payload or {}
        self.features: dict[str, Any] = message.features or {}
        #: Which services are wanted. None: as usual.
        self.pipeline: Pipeline = message.pipeline
        self.enable_streaming_asr = message.enable_streaming_asr
        self.partial_update_interval_ms = message.partial_update_interval_ms
        self.context_text = message.context_text
        self.padding_ms = message.padding_ms
        self.group_id = message.group_id
        self.part_index = message.part_index
        #: Pieces of a turn that was cut because it was long have the same.
        self.turn_id = message.turn_id
        self.room_id = message.room_id
        self.is_manual_cut = message.is_manual_cut
        self.is_timeout_triggered = message.is_timeout_triggered
        self.is_max_duration_triggered = message.is_max_duration_triggered
        #: When the job's time is over, in ms by the scheduler's clock, which is not this machine's.
        self.deadline_ms = message.deadline_ms

    def __repr__(self) -> str:
        """Without what was said in it."""
        return f"<Job {self.job_id} attempt {self.attempt_id} {self.src_lang}:{self.tgt_lang}>"

    def partial(self, text: str, *, is_final: bool = False) -> None:
        """Show what was understood so far. It returns at once, may be called from any thread, and may be lost."""
        if not isinstance(text, str):
            raise TypeError(f"a partial is text, not {type(text).__name__}")
        self._partial(cut(text, MAX_PARTIAL).encode("utf-8", "replace").decode(), is_final)

    @property
    def is_cancelled(self) -> bool:
        """Nobody wants the result any more. An async handler is cancelled; a blocking one may look here and return."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Called by the node when the scheduler takes the job back."""
        self._is_cancelled = True
