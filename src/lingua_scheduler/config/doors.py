"""Settings of the doors: where they are, what they bear, and who is let in."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from lingua_scheduler.config.section import DAY, HOUR, MINUTE, Listed, Section

#: A token that also fits into `Sec-WebSocket-Protocol`, with or without the name of who holds it.
_TOKEN: Final = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,127}:)?[A-Za-z0-9._~+-]{16,100}").fullmatch
_HOST: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?|\*").fullmatch
_MAX_LISTED: Final = 256
_LEAST_SECRET: Final = 16


def networks_of(rule: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """The networks that a rule of a door names."""
    try:
        return tuple(ipaddress.ip_network(network.strip()) for network in rule.split(","))
    except ValueError as error:
        raise ValueError(f"must be token, open or a list of networks like 10.0.0.0/8: {error}") from None


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            bool(parts.hostname) and text == f"{parts.scheme}://{parts.netloc}" and "@" not in text and parts.port != 0
        )
    except ValueError:
        return False


class Server(Section):
    """Where clients and nodes find this instance."""

    host: str = Field(default="127.0.0.1", min_length=1, max_length=255, description="Address to listen on.")
    port: int = Field(default=5010, ge=0, le=65_535, description="Port to listen on. 0: any free one.")
    allowed_origins: Listed = Field(
        default=(),
        max_length=_MAX_LISTED,
        description="Web pages from here may talk to this instance, like `https://app.example.com`. "
        "On loopback those of loopback may, and everywhere its own.",
    )
    allowed_hosts: Listed = Field(
        default=(),
        max_length=_MAX_LISTED,
        description="Names by which this instance may be called, beside its addresses, the host that it listens on and "
        "the hosts of `allowed_origins`. `*`: any.",
    )
    max_connections: int = Field(
        default=4_096, ge=1, le=1_000_000, description="How many may be open at once; one more is refused."
    )
    max_header_bytes: int = Field(
        default=16_384, ge=1_024, le=1_048_576, description="How large the head of a request may be."
    )
    header_timeout_ms: int = Field(
        default=10_000, ge=10, le=10 * MINUTE, description="How long the head of a request may take to arrive."
    )
    body_timeout_ms: int = Field(
        default=30_000,
        ge=10,
        le=10 * MINUTE,
        description="How long its body may take, and how long somebody may not read his answer.",
    )
    idle_timeout_ms: int = Field(
        default=75_000, ge=10, le=HOUR, description="A connection without a request for so long is closed."
    )
    ping_interval_ms: int = Field(
        default=10_000,
        ge=10,
        le=10 * MINUTE,
        description="How often the other end of a WebSocket is asked whether it lives.",
    )
    ping_timeout_ms: int = Field(
        default=10_000, ge=10, le=10 * MINUTE, description="Without an answer for so long, the WebSocket is closed."
    )
    drain_ms: int = Field(
        default=10_000,
        ge=0,
        le=HOUR,
        description="How long requests may still take when the instance is asked to stop.",
    )

    @field_validator("allowed_origins")
    @classmethod
    def _origins_are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not _is_origin(origin):
                raise ValueError(f"an origin is written like https://app.example.com, not {origin[:80]!r}")
        return origins

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts_are_names(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if not _HOST(host):
                raise ValueError(f"a host is a name in small letters, without a port, not {host[:80]!r}")
        return hosts


class Auth(Section):
    """Who is let in, and where."""

    node_tokens: Listed = Field(
        default=(), max_length=_MAX_LISTED, repr=False, description="Tokens of nodes, each as `token` or `name:token`."
    )
    session_tokens: Listed = Field(
        default=(), max_length=_MAX_LISTED, repr=False, description="Tokens of callers: they see what is of their name."
    )
    admin_tokens: Listed = Field(default=(), max_length=_MAX_LISTED, repr=False, description="Tokens of operators.")
    metrics_tokens: Listed = Field(
        default=(), max_length=_MAX_LISTED, repr=False, description="Tokens that may only read the metrics."
    )
    nodes: str = Field(
        default="token",
        max_length=4_096,
        description="Who may come in as a node: `token`, `open`, or the networks that may do so without a token, like "
        "`10.0.0.0/8, fd00::/8`.",
    )
    sessions: str = Field(default="token", max_length=4_096, description="The same for callers.")
    admin: str = Field(default="token", max_length=4_096, description="The same for operators.")
    metrics: str = Field(default="token", max_length=4_096, description="The same for the metrics.")
    pages: str = Field(
        default="token", max_length=4_096, description="The same for pages and documents; any token opens them."
    )
    link_ttl_ms: int = Field(
        default=10 * MINUTE,
        ge=1_000,
        le=DAY,
        description="How long a link that signs a browser in can be used, once.",
    )
    seat_ttl_ms: int = Field(
        default=12 * HOUR, ge=1_000, le=30 * DAY, description="How long whoever signed in by it is known."
    )
    secret: str = Field(
        default="",
        max_length=256,
        repr=False,
        description="The key of the nodes' secrets, the same for all instances. Empty: it is made of all tokens, so "
        "that nodes that speak HTTP register again when a token changes.",
    )

    @field_validator("node_tokens", "session_tokens", "admin_tokens", "metrics_tokens")
    @classmethod
    def _tokens_are_tokens(cls, tokens: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_TOKEN(token) for token in tokens):
            # Nothing of it is shown.
            raise ValueError("a token is 16 to 100 of A-Z a-z 0-9 . _ ~ + -, behind `name:` if it has one")
        return tokens

    @field_validator("nodes", "sessions", "admin", "metrics", "pages")
    @classmethod
    def _rules_are_rules(cls, rule: str) -> str:
        if rule not in ("token", "open"):
            networks_of(rule)
        return rule

    @field_validator("secret")
    @classmethod
    def _secret_is_long(cls, secret: str) -> str:
        if secret and len(secret) < _LEAST_SECRET:
            raise ValueError(f"must be empty or have at least {_LEAST_SECRET} characters")
        return secret

    @model_validator(mode="after")
    def _a_token_has_one_name(self) -> Self:
        names: dict[str, str] = {}
        for one in (*self.node_tokens, *self.session_tokens, *self.admin_tokens, *self.metrics_tokens):
            name, _, token = one.rpartition(":")
            if names.setdefault(token, name) != name:
                raise ValueError(f"auth: a token has two names, {name!r} and {names[token]!r}")
        return self


class Rates(Section):
    """How much one caller may ask for: so much each second, and so much at once after a pause."""

    submits_per_s: int = Field(
        default=200,
        ge=1,
        le=1_000_000,
        description="Jobs of one credential in a second; beside them as many uploads, and as many new sessions.",
    )
    submits_burst: int = Field(default=400, ge=1, le=1_000_000, description="The same at once.")
    utterances_per_s: int = Field(default=20, ge=1, le=1_000_000, description="Utterances of one session in a second.")
    utterances_burst: int = Field(default=40, ge=1, le=1_000_000, description="Utterances of one session at once.")
    pairings_per_s: int = Field(
        default=1,
        ge=1,
        le=1_000_000,
        description="Pairing codes that one credential, or one address without any, may try in a second; and links "
        "that sign a browser in, by address.",
    )
    pairings_burst: int = Field(default=10, ge=1, le=1_000_000, description="The same at once.")
