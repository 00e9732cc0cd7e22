"""Where spans go."""

from __future__ import annotations

from pydantic import Field

from lingua_scheduler.config.section import Section


class Traces(Section):
    """Spans of what is done for a job, by OpenTelemetry. They need `pip install 'lingua-scheduler[otel]'`."""

    endpoint: str = Field(
        default="",
        max_length=2_048,
        pattern=r"^(https?://.+)?$",
        description="A collector that takes OTLP over HTTP, like `http://localhost:4318/v1/traces`. Empty: no spans.",
    )
    percent: int = Field(
        default=100,
        ge=0,
        le=100,
        description="Of so many in a hundred traces there are spans. Which, their ids say: the same everywhere.",
    )
    timeout_s: int = Field(default=2, ge=1, le=60, description="How long the collector is waited for.")
