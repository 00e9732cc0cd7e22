"""How large a run is, and how long its patience: the same product, the same rules, other numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Scale:
    """Who is there, and the settings of all instances. Times that the product waits are in milliseconds."""

    instances: int
    nodes: int
    #: So many of them are in a cell.
    cell_capacity: int
    sessions: int
    #: Processes that hold the sessions, and callers over HTTP, which are in the director's own.
    crowds: int
    callers: int
    #: A session says something about so often; a caller submits so often; the next fault comes after so long.
    says_every_s: float
    asks_every_s: float
    fault_every_s: float
    presence_ttl_ms: int
    handover_ms: int
    offline_ms: int
    ack_ms: int
    run_ms: int
    timeout_ms: int
    limbo_ms: int
    beat_ms: int
    ping_ms: int
    gap_ms: int
    #: For so long an utterance waits for a node that has room.
    wait_ms: int
    #: The longest that a node is put to sleep: less than its limbo, after which nobody waits for a legacy node.
    sleep_s: float
    #: So many nodes are killed, one after the other, when the storm is over.
    kills: int

    def settings(self) -> dict[str, int]:
        """As `lingua config` names them. Jobs are remembered until the end, and nobody is told to come more slowly."""
        return {
            "cell.cell_capacity": self.cell_capacity,
            "instance.presence_ttl_ms": self.presence_ttl_ms,
            "instance.presence_beat_ms": self.presence_ttl_ms // 4,
            "nodes.handover_grace_ms": self.handover_ms,
            "nodes.offline_ms": self.offline_ms,
            "nodes.stale_ms": self.offline_ms * 3 // 4,
            "nodes.heartbeat_interval_ms": self.beat_ms,
            "nodes.socket_beat_ms": self.beat_ms,
            "nodes.limbo_ttl_ms": self.limbo_ms,
            "nodes.default_max_concurrent_jobs": 2,
            "jobs.reservation_ttl_ms": self.ack_ms,
            "jobs.run_timeout_ms": self.run_ms,
            "jobs.timeout_ms": self.timeout_ms,
            "jobs.result_ttl_ms": _HOUR_MS,
            "jobs.released_ttl_ms": _HOUR_MS,
            "jobs.job_record_ttl_ms": _HOUR_MS,
            "server.ping_interval_ms": self.ping_ms,
            "server.ping_timeout_ms": self.ping_ms,
            "sessions.gap_ms": self.gap_ms,
            "sessions.wait_ms": self.wait_ms,
            "rates.submits_per_s": 10_000,
            "rates.submits_burst": 10_000,
        }

    def environment(self) -> dict[str, str]:
        """The same for a process."""
        named = ((name.replace(".", "__").upper(), value) for name, value in self.settings().items())
        return {f"LINGUA_{name}": str(value) for name, value in named}


#: What `./dev chaos` runs. Shorter times than the product's own, so that ten minutes see each of them end many times.
FULL: Final = Scale(
    instances=3,
    nodes=30,
    cell_capacity=8,
    sessions=200,
    crowds=2,
    callers=8,
    says_every_s=8.0,
    asks_every_s=1.5,
    fault_every_s=1.5,
    presence_ttl_ms=4_000,
    handover_ms=6_000,
    offline_ms=14_000,
    ack_ms=3_000,
    run_ms=8_000,
    timeout_ms=30_000,
    limbo_ms=30_000,
    beat_ms=3_000,
    ping_ms=3_000,
    gap_ms=10_000,
    wait_ms=2_000,
    sleep_s=8.0,
    kills=3,
)

#: What the test suite runs, beside other things: nobody is refused, or passed over, because the machine is slow.
SMALL: Final = Scale(
    instances=2,
    nodes=6,
    cell_capacity=4,
    sessions=10,
    crowds=1,
    callers=2,
    says_every_s=0.8,
    asks_every_s=0.5,
    fault_every_s=0.5,
    presence_ttl_ms=1_500,
    handover_ms=2_000,
    offline_ms=4_500,
    ack_ms=1_200,
    run_ms=1_500,
    timeout_ms=12_000,
    limbo_ms=6_000,
    beat_ms=700,
    ping_ms=1_000,
    gap_ms=8_000,
    wait_ms=8_000,
    sleep_s=2.0,
    kills=1,
)
