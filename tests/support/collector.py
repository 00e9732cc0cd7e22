"""A collector of spans: OTLP over HTTP, as the real ones take it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator


class Span(NamedTuple):
    """One that came, and who sent it."""

    name: str
    trace: str
    id: str
    parent: str
    service: str
    instance: str
    told: dict[str, object]
    is_error: bool
    began_ns: int
    ended_ns: int


class Collector:
    """What came so far."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.spans: list[Span] = []

    @property
    def endpoint(self) -> str:
        """As the settings want it."""
        return f"{self.url}/v1/traces"

    def named(self, *names: str) -> list[Span]:
        """Those of these names, in their order."""
        return [span for name in names for span in self.spans if span.name == name]

    def take(self, data: bytes) -> None:
        """A message of an exporter."""
        for group in ExportTraceServiceRequest.FromString(data).resource_spans:
            about = {one.key: one.value.string_value for one in group.resource.attributes}
            for scope in group.scope_spans:
                for span in scope.spans:
                    told = {one.key: one.value.string_value or one.value.int_value for one in span.attributes}
                    self.spans.append(
                        Span(
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            about.get("service.name", ""),
                            about.get("service.instance.id", ""),
                            dict(told),
                            span.status.code == span.status.STATUS_CODE_ERROR,
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                        )
                    )


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
