"""Settings of the service catalog."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, field_validator

from lingua_scheduler.config.section import DAY, MINUTE, Section


class Catalog(Section):
    """Which services there are, as a hub says. Only shown beside what nodes have installed."""

    url: str = Field(
        default="",
        max_length=2_048,
        repr=False,  # it may hold a password
        description="Where the hub lists its services (http or https). Empty: nobody is asked.",
    )
    file: str = Field(
        default="services_index.json",
        max_length=4_096,
        description="The same list in a file, for as long as no hub has answered. It need not be there.",
    )
    refresh_interval_ms: int = Field(default=30_000, ge=100, le=DAY, description="How often the hub is asked.")
    timeout_ms: int = Field(default=5_000, ge=10, le=MINUTE, description="How long it has for a whole answer.")
    max_interval_ms: int = Field(
        default=600_000, ge=100, le=DAY, description="How seldom it is asked at most while it does not answer."
    )

    @field_validator("url")
    @classmethod
    def _url_is_web(cls, url: str) -> str:
        if not url:
            return url
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must be empty or like https://hub.example.com/services")
        return url
