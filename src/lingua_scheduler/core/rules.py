"""The numbers that every script is given: the settings, as far as the engine needs them."""

from __future__ import annotations

from typing import Self

import msgspec

from lingua_scheduler.core.records import Record


class Rules(Record, frozen=True):
    """The settings that the scripts obey, in milliseconds and counts."""

    limbo_ttl_ms: int = 60_000
    stale_ms: int = 35_000
    offline_ms: int = 45_000
    node_record_ttl_ms: int = 3_600_000
    result_ttl_ms: int = 120_000
    job_record_ttl_ms: int = 3_600_000
    released_ttl_ms: int = 300_000
    intent_ttl_ms: int = 604_800_000
    reconnect_grace_ms: int = 500
    handover_grace_ms: int = 10_000
    ping_interval_ms: int = 10_000
    confirm_after_ms: int = 2_000
    rest_ms: int = 1_000
    max_rest_ms: int = 60_000
    probe_ms: int = 5_000
    flap_window_ms: int = 60_000
    mass_silence_nodes: int = 5
    mass_silence_ms: int = 600_000
    mark_ttl_ms: int = 60_000
    mark_debounce_ms: int = 5_000
    mark_window_ms: int = 10_000
    max_marked: int = 30
    max_undelivered: int = 10
    max_overloaded: int = 10
    max_lost: int = 2
    cell_capacity: int = 1_000
    max_groups: int = 256
    max_waiting: int = 4_096
    relay_lease_ms: int = 1_000
    elsewhere_ms: int = 0
    claim_lease_ms: int = 90_000
    binding_ttl_ms: int = 60_000
    pairing_ttl_ms: int = 300_000
    presence_ttl_ms: int = 10_000
    inbox_max: int = 10_000
    letter_lease_ms: int = 60_000

    def of_one_cell(self) -> Self:
        """The same where there is no other cell in which a retry could hope for a node."""
        return msgspec.structs.replace(self, elsewhere_ms=0)
