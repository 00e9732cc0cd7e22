"""Spans of what an app asks for and of what a node does, where OpenTelemetry is installed; else nothing at all.

They are made by whatever tracer provider the program has. A node's own command sets one up if the usual variables name
a collector (`OTEL_EXPORTER_OTLP_ENDPOINT`) and `lingua-scheduler[otel]` is installed.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.protocol.node import JobAssign

_NAME: Final = "lingua-scheduler-sdk"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@functools.cache
def _api() -> Any:  # noqa: ANN401 - it may not be here
    try:
        from opentelemetry import trace  # noqa: PLC0415 - only where it is installed
    except ImportError:
        return None
    return trace


def traceparent_of(span: Any = None) -> str | None:  # noqa: ANN401 - as above
    """Of a span, or of the current one; None: there is none, or nobody records it."""
    api = _api()
    if api is None:
        return None
    context = (span or api.get_current_span()).get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


@contextlib.contextmanager
def asking(src: str, tgt: str) -> Iterator[str | None]:
    """An utterance that an app asks for, from its first word to its result; its `traceparent`."""
    api = _api()
    if api is None:
        yield None
        return
    # Not the current span: between its results an app does what it likes.
    span = api.get_tracer(_NAME).start_span(
        "translate", kind=api.SpanKind.CLIENT, attributes={"lingua.pair": f"{src}:{tgt}"}
    )
    try:
        yield traceparent_of(span)
    except BaseException as error:
        span.set_status(api.StatusCode.ERROR, type(error).__name__)
        raise
    finally:
        span.end()


@contextlib.contextmanager
def working(message: JobAssign) -> Iterator[None]:
    """What a node does for a job: the current span while the handler runs. Its words are in no span."""
    api = _api() if message.traceparent else None
    if api is None:
        yield
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - as above

    above = TraceContextTextMapPropagator().extract({"traceparent": message.traceparent or ""})
    told = {"lingua.job_id": message.job_id, "lingua.attempt": message.attempt_id}
    told["lingua.pair"] = f"{message.src_lang}:{message.tgt_lang}"
    with api.get_tracer(_NAME).start_as_current_span(
        "handle", above, api.SpanKind.CONSUMER, told, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except BaseException as error:
            span.set_status(api.StatusCode.ERROR, type(error).__name__)
            raise


def begin_traces() -> None:
    """Send spans to the collector that the environment names, if there is one and they can be made."""
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        return
    try:
        from opentelemetry import trace  # noqa: PLC0415 - as above
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        return
    named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "lingua-node")}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
