"""How long a job may take and how often it may be tried."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """What a job is given on its way; it keeps them whatever the settings become. The defaults are the product's."""

    ack_ms: int = 5_000
    run_ms: int = 30_000
    timeout_ms: int = 60_000
    max_retry: int = 2
