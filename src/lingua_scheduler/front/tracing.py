"""Spans of what is done for a job, for whoever collects them. Without a collector there is none of it.

A span is made when it is over. That of a job has the id that everybody can know (`core/traces.py`); all others are its
children.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.traces import parent_of, read_parent, span_number, trace_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import SpanContext

    from lingua_scheduler.config.traces import Traces
    from lingua_scheduler.front.ask import Submitted

    Waits = Callable[[], None] | None


_NOTHING: Final = nullcontext()


class NotInstalled(LinguaError):
    """Spans are wanted, and what makes them is not here."""


class Submission:
    """A job that is asked for, from the caller's word to his answer."""

    def __init__(self, waits: Waits) -> None:
        #: Told when nobody has room, and the job begins to wait.
        self.waits = waits

    def dispatched(self) -> None:
        """It has a node, or there is none."""

    def over(self, outcome: Submitted | Refusal) -> None:
        """What the caller is told."""


class Tracing:
    """Nobody collects spans. Whoever would make one asks `is_on` first."""

    is_on = False

    def parent(self, trace_id: str, job_id: str) -> str | None:  # noqa: ARG002 - there is none
        """What a node is told of the trace of its job; None: nothing but its id."""
        return None

    def during(self, name: str, trace_id: str, job_id: str, **told: object) -> AbstractContextManager[None]:  # noqa: ARG002
        """A part of a job, while it lasts."""
        return _NOTHING

    def submission(self, trace_id: str, parent: str | None, waits: Waits) -> Submission:  # noqa: ARG002 - as above
        """A caller asks for a job. `parent` is his own span, if he has named it."""
        return Submission(waits)

    def close(self) -> None:
        """Send what is left."""


class Spans(Tracing):
    """Spans by OpenTelemetry, to a collector that speaks OTLP over HTTP."""

    is_on = True

    def __init__(self, provider: TracerProvider, ids: Any) -> None:  # noqa: ANN401 - its class is made late
        self._provider = provider
        self._ids = ids
        self._tracer = provider.get_tracer("lingua-scheduler")

    def parent(self, trace_id: str, job_id: str) -> str | None:
        """The span of the job, if its trace is recorded."""
        return parent_of(trace_id, job_id) if self._is_recorded(trace_id) else None

    def during(self, name: str, trace_id: str, job_id: str, **told: object) -> AbstractContextManager[None]:
        """A part of a job, while it lasts."""
        return self._during(name, trace_id, job_id, told)

    @contextmanager
    def _during(self, name: str, trace_id: str, job_id: str, told: dict[str, object]) -> Iterator[None]:
        began_ns = time.time_ns()
        try:
            yield
        finally:
            self._make(
                name, _context(trace_id, span_number(job_id)), began_ns, {"lingua.job_id": job_id} | _named(told)
            )

    def submission(self, trace_id: str, parent: str | None, waits: Waits) -> Submission:
        """The same, as spans."""
        return _SpannedSubmission(self, trace_id, parent, waits)

    def submitted(self, about: _SpannedSubmission, job_id: str, refused: str) -> None:
        """The span of a job, or of the refusal of one, and of its dispatch."""
        trace_id, found = about.trace_id, read_parent(about.parent)
        above = _context(trace_id, int(found[1], 16)) if found and found[0] == trace_id else None
        told = {"lingua.job_id": job_id, "lingua.refused": refused, "lingua.trace_id": trace_id}
        self._ids.next_trace, self._ids.next_span = trace_number(trace_id), span_number(job_id) if job_id else None
        self._make("submit", above, about.began_ns, told, refused=refused)
        if job_id:
            told = {"lingua.job_id": job_id}
            self._make(
                "dispatch", _context(trace_id, span_number(job_id)), about.began_ns, told, end_ns=about.dispatched_ns
            )

    def close(self) -> None:
        """Send what is left; a collector that is away is not waited for for long."""
        self._provider.shutdown()

    def _is_recorded(self, trace_id: str) -> bool:
        decided = self._provider.sampler.should_sample(None, trace_number(trace_id), "")
        return decided.decision.name == "RECORD_AND_SAMPLE"

    def _make(
        self,
        name: str,
        above: SpanContext | None,
        began_ns: int,
        told: dict[str, Any],
        *,
        refused: str = "",
        end_ns: int | None = None,
    ) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - only where spans are wanted

        context = trace.set_span_in_context(trace.INVALID_SPAN if above is None else trace.NonRecordingSpan(above))
        known = {name: value for name, value in told.items() if value not in (None, "")}
        span = self._tracer.start_span(name, context, start_time=began_ns, attributes=known)
        self._ids.next_trace = self._ids.next_span = None
        if refused:
            span.set_status(trace.StatusCode.ERROR, refused)
        span.end(end_ns)


class _SpannedSubmission(Submission):
    def __init__(self, spans: Spans, trace_id: str, parent: str | None, waits: Waits) -> None:
        super().__init__(self._begins_to_wait)
        self._spans = spans
        self._waits = waits
        self._has_waited = False
        self.trace_id = trace_id
        self.parent = parent
        self.began_ns = self.dispatched_ns = time.time_ns()

    def _begins_to_wait(self) -> None:
        self._has_waited = True
        if self._waits is not None:
            self._waits()

    def dispatched(self) -> None:
        self.dispatched_ns = time.time_ns()

    def over(self, outcome: Submitted | Refusal) -> None:
        if isinstance(outcome, Refusal):
            self._spans.submitted(self, "", outcome.code)
        else:
            # One that was known already has its span.
            self._spans.submitted(self, outcome.job_id if outcome.is_new or self._has_waited else "", "")


def _named(told: dict[str, object]) -> dict[str, Any]:
    return {f"lingua.{name}": value for name, value in told.items()}


def _context(trace_id: str, span: int) -> SpanContext:
    from opentelemetry import trace  # noqa: PLC0415 - only where spans are wanted

    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    return trace.SpanContext(trace_number(trace_id), span, is_remote=True, trace_flags=flags)


def tracing_of(settings: Traces, instance_id: str) -> Tracing:
    """As the settings have it."""
    if not settings.endpoint:
        return Tracing()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - as above
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import TraceIdRatioBased  # noqa: PLC0415
    except ImportError as missing:
        raise NotInstalled(
            f"traces.endpoint is set, and {missing.name} is not installed: pip install 'lingua-scheduler[otel]'"
        ) from None

    class Ids(RandomIdGenerator):
        """As chance has it, unless the next one is known."""

        next_trace: int | None = None
        next_span: int | None = None

        def generate_trace_id(self) -> int:
            return self.next_trace or super().generate_trace_id()

        def generate_span_id(self) -> int:
            return self.next_span or super().generate_span_id()

    ids = Ids()
    provider = TracerProvider(
        sampler=TraceIdRatioBased(settings.percent / 100),
        id_generator=ids,
        resource=Resource.create({"service.name": "lingua-scheduler", "service.instance.id": instance_id}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(settings.endpoint, timeout=settings.timeout_s)))
    return Spans(provider, ids)
