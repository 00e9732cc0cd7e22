"""Every metric there is: its name, its kind, what it means, and where its numbers are. docs/metrics.md is made of this.

Names follow Prometheus' conventions: `lingua_`, base units, `_total` for what only grows. What begins with
`lingua_fleet_` is the same whichever instance is asked: it is taken once (`max without (instance)`) and not added up.
Everything else is of one instance. Labels are few and bounded: never a session, a job, a node or a caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from lingua_scheduler.core.meters import Histogram
from lingua_scheduler.core.refusal import KEPT_AWAY

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric as Family

    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.socket import Socket
    from lingua_scheduler.protocol.fleet import PoolNumbers, StatsAnswer

    #: The values of its labels, and the number.
    Samples = Iterable[tuple[tuple[str, ...], float | Histogram]]

#: More pairs than this are not told one by one: those with the most nodes are, and the others together.
MAX_PAIRS: Final = 200
OTHERS: Final = "others"
#: How a node comes in.
_REGISTERED: Final = ("new", "resync", "new_process", "continued", "renewed")


@dataclass(frozen=True, slots=True)
class Metric:
    """One of them. `read` tells its numbers as they are now; of a histogram the histograms themselves."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    meaning: str
    labels: tuple[str, ...]
    read: Callable[[Desk], Samples]


def _one(number: float | None) -> Samples:
    """A metric without labels; None: there is nothing to be told."""
    return [] if number is None else [((), number)]


def _snapshot(read: Callable[[StatsAnswer], Samples]) -> Callable[[Desk], Samples]:
    """What the last look at the fleet has shown; nothing before the first."""

    def reading(desk: Desk) -> Samples:
        last = desk.stats.now(desk)
        return [] if last is None else read(last)

    return reading


def _pools(number: Callable[[PoolNumbers], int]) -> Callable[[StatsAnswer], Samples]:
    def reading(stats: StatsAnswer) -> Samples:
        ordered = sorted(stats.pools, key=lambda pool: (-pool.nodes, pool.pair))
        yield from (((pool.pair,), number(pool)) for pool in ordered[:MAX_PAIRS])
        if len(ordered) > MAX_PAIRS:
            yield (OTHERS,), sum(number(pool) for pool in ordered[MAX_PAIRS:])

    return reading


def _counted(name: str) -> Callable[[Desk], Samples]:
    """A number of the engine's own counters, by label if it has any."""

    def reading(desk: Desk) -> Samples:
        counts = desk.stats.counts
        if counts is None:
            return []
        found = getattr(counts, name)
        return [((key,), number) for key, number in found.items()] if isinstance(found, dict) else _one(found)

    return reading


def _sockets(desk: Desk, number: Callable[[Socket], float]) -> Samples:
    totals = dict.fromkeys(desk.sockets.kinds, 0.0)
    for kind, socket in desk.sockets:
        totals[kind] += number(socket)
    return [((kind,), total) for kind, total in totals.items()]


def _by_name(counted: Counter[str], *usual: str) -> Samples:
    """By name. What is usual is told before it happens, or the first time would be no increase."""
    return [((name,), number) for name, number in (dict.fromkeys(usual, 0) | counted).items()]


def _failed_calls(desk: Desk) -> Samples:
    return [
        ((script, kind), number)
        for script, meter in desk.engine.meters.items()
        for kind, number in meter.failed.items()
    ]


METRICS: Final[tuple[Metric, ...]] = (
    Metric(
        "lingua_build_info",
        "gauge",
        "Always 1; which release this is.",
        ("version",),
        lambda _: [((version("lingua-scheduler"),), 1)],
    ),
    # The fleet, as of the last snapshot.
    Metric(
        "lingua_fleet_nodes",
        "gauge",
        "Nodes, by how they stand: docs/choosing.md.",
        ("standing",),
        _snapshot(lambda stats: [((standing,), number) for standing, number in stats.nodes.items()]),
    ),
    Metric(
        "lingua_fleet_slots",
        "gauge",
        "Slots of all nodes of a directed pair.",
        ("pair",),
        _snapshot(_pools(lambda pool: pool.slots)),
    ),
    Metric(
        "lingua_fleet_slots_used",
        "gauge",
        "Slots of a pair that are taken, or on nodes that cannot be chosen.",
        ("pair",),
        _snapshot(_pools(lambda pool: pool.slots - pool.free)),
    ),
    Metric(
        "lingua_fleet_pool_nodes",
        "gauge",
        "Nodes that serve a pair.",
        ("pair",),
        _snapshot(_pools(lambda pool: pool.nodes)),
    ),
    Metric(
        "lingua_fleet_pool_living",
        "gauge",
        "Of these: nodes that are given jobs, now or when they have a slot; not those that drain, are silent or lost.",
        ("pair",),
        _snapshot(_pools(lambda pool: pool.living)),
    ),
    Metric(
        "lingua_fleet_nodes_flapping",
        "gauge",
        "Nodes that come and go, and so rest for longer each time: docs/choosing.md.",
        (),
        lambda desk: _one(_flapping(desk)),
    ),
    Metric(
        "lingua_fleet_pool_waiting",
        "gauge",
        "Jobs of a pair that wait for a slot.",
        ("pair",),
        _snapshot(_pools(lambda pool: pool.waiting)),
    ),
    Metric(
        "lingua_fleet_jobs_in_flight",
        "gauge",
        "Jobs that have a node.",
        (),
        _snapshot(lambda stats: _one(stats.jobs.in_flight)),
    ),
    Metric(
        "lingua_fleet_jobs_waiting",
        "gauge",
        "Jobs that wait for one.",
        (),
        _snapshot(lambda stats: _one(stats.jobs.waiting)),
    ),
    Metric(
        "lingua_fleet_sessions",
        "gauge",
        "Sessions of all instances.",
        (),
        _snapshot(lambda stats: _one(stats.sessions)),
    ),
    Metric(
        "lingua_fleet_instances",
        "gauge",
        "Instances that are there.",
        (),
        _snapshot(lambda stats: _one(stats.instances)),
    ),
    Metric(
        "lingua_fleet_problems",
        "gauge",
        "Things that somebody should look at: /api/v1/stats says them in words.",
        (),
        _snapshot(lambda stats: _one(len(stats.health.problems))),
    ),
    Metric(
        "lingua_fleet_dead_letters",
        "gauge",
        "Letters between instances that nobody could use.",
        (),
        lambda desk: _one(desk.stats.dead_letters),
    ),
    Metric(
        "lingua_fleet_invariant_violations",
        "gauge",
        "What the last look of the auditor has found: docs/invariants.md. It must be 0.",
        ("invariant",),
        lambda desk: [((name,), number) for name, number in (desk.auditor.found or {}).items()],
    ),
    # What the engine itself has counted.
    Metric("lingua_fleet_jobs_accepted_total", "counter", "Jobs that were taken.", (), _counted("accepted")),
    Metric("lingua_fleet_jobs_ended_total", "counter", "Jobs that ended, by how.", ("state",), _counted("ended")),
    Metric(
        "lingua_fleet_jobs_refused_total",
        "counter",
        "Jobs that were refused, by code.",
        ("code",),
        _counted("refused"),
    ),
    Metric(
        "lingua_fleet_pool_empty_total",
        "counter",
        "Of these: no registered node serves the pair at all.",
        (),
        _counted("pool_empty"),
    ),
    Metric(
        "lingua_fleet_waited_in_vain_total",
        "counter",
        "Of these: they waited as long as they were allowed to.",
        (),
        _counted("waited_in_vain"),
    ),
    Metric(
        "lingua_fleet_reservation_tries_total",
        "counter",
        "How often a node was looked for.",
        (),
        _counted("tries"),
    ),
    Metric("lingua_fleet_reservations_total", "counter", "How often one was found.", (), _counted("reserved")),
    Metric(
        "lingua_fleet_attempts_failed_total",
        "counter",
        "Attempts that ended without a result, by why: docs/job-states.md.",
        ("cause",),
        _counted("attempts"),
    ),
    Metric(
        "lingua_fleet_retries_total",
        "counter",
        "Of these: another was to follow.",
        ("cause",),
        _counted("retries"),
    ),
    # This instance.
    Metric(
        "lingua_dispatch_seconds",
        "histogram",
        "From a caller's word until a node has the job, or there is none.",
        (),
        lambda desk: [((), desk.delivery.durations.histogram)],
    ),
    Metric(
        "lingua_dispatches_total",
        "counter",
        "Jobs that were asked for here: placed, or by the code with which they were refused.",
        ("outcome",),
        lambda desk: _by_name(desk.delivery.outcomes, "placed"),
    ),
    Metric(
        "lingua_dispatches_refused_total",
        "counter",
        "Jobs among these that no node could take, by what kept most nodes of their pair away: docs/reasons.md.",
        ("reason",),
        lambda desk: _by_name(desk.delivery.kept_away, *KEPT_AWAY),
    ),
    Metric(
        "lingua_job_queue_seconds",
        "histogram",
        "From a caller's word until the first node was told of the job, by the instance that told it.",
        (),
        lambda desk: [((), desk.delivery.times.queued)],
    ),
    Metric(
        "lingua_job_stage_seconds",
        "histogram",
        "What nodes say of how long a part of their work took; `node` is all of it.",
        ("stage",),
        lambda desk: [((stage,), times) for stage, times in desk.delivery.times.stages.items()],
    ),
    Metric(
        "lingua_job_total_seconds",
        "histogram",
        "From a caller's word until the job ended, however it did, by the instance that passed that on.",
        (),
        lambda desk: [((), desk.delivery.times.total)],
    ),
    Metric(
        "lingua_node_registrations_total",
        "counter",
        "Nodes that came in: new, resync, new_process, continued, renewed; or the code with which they were refused.",
        ("outcome",),
        lambda desk: _by_name(desk.directory.registrations, *_REGISTERED),
    ),
    Metric(
        "lingua_http_requests_total",
        "counter",
        "Requests that were answered; a path that nobody knows is `unknown`.",
        ("method", "route", "status"),
        lambda desk: [
            ((method, route, str(status)), number) for (method, route, status), number in desk.requests.items()
        ],
    ),
    Metric(
        "lingua_sockets",
        "gauge",
        "Open WebSockets.",
        ("kind",),
        lambda desk: _sockets(desk, lambda _: 1),
    ),
    Metric(
        "lingua_socket_queue_bytes",
        "gauge",
        "What waits to be read by the other ends.",
        ("kind",),
        lambda desk: _sockets(desk, lambda socket: socket.queued_bytes),
    ),
    Metric(
        "lingua_engine_call_seconds",
        "histogram",
        "From asking for a script until its answer.",
        ("script",),
        lambda desk: [((script,), meter.seconds) for script, meter in desk.engine.meters.items()],
    ),
    Metric(
        "lingua_engine_calls_failed_total",
        "counter",
        "Calls without an answer: the engine was away, its answer was lost, or the script is broken.",
        ("script", "error"),
        _failed_calls,
    ),
    Metric(
        "lingua_engine_silence_seconds",
        "gauge",
        "How long ago the engine last answered when it was looked at, which is once a second.",
        (),
        lambda desk: _one(desk.clock.silent_ms / 1_000),
    ),
    Metric(
        "lingua_fleet_inbox_letters",
        "gauge",
        "Letters in the fullest inbox of all instances, also of those that cannot be asked any more.",
        (),
        lambda desk: _one(desk.stats.fullest),
    ),
    Metric(
        "lingua_inbox_letters",
        "gauge",
        "Letters of other instances that lie in the inbox of this one.",
        (),
        lambda desk: _one(desk.stats.letters),
    ),
    Metric(
        "lingua_marks_total",
        "counter",
        "Broken services that the engine was told of: marked, debounced (a moment ago), limited, or refused.",
        ("outcome",),
        lambda desk: _by_name(desk.marker.told, "marked"),
    ),
    Metric(
        "lingua_marks_waiting",
        "gauge",
        "Broken services that the engine is to be told of.",
        (),
        lambda desk: _one(desk.marker.waiting),
    ),
    Metric(
        "lingua_marks_dropped_total",
        "counter",
        "Broken services that were not marked because there were too many at once.",
        (),
        lambda desk: _one(desk.marker.dropped),
    ),
    Metric(
        "lingua_events_dropped_total",
        "counter",
        "Events that are not in the feed because there were too many at once: docs/events.md.",
        (),
        lambda desk: _one(desk.chronicler.dropped),
    ),
    Metric(
        "lingua_snapshot_age_seconds",
        "gauge",
        "How old the last look at the fleet is; before the first, since when there is none.",
        (),
        lambda desk: _one(_seconds(_age_of_snapshot(desk))),
    ),
    Metric(
        "lingua_catalog_age_seconds",
        "gauge",
        "How long ago whoever should tell the service catalog, the hub or a file, last did; nothing if nobody should.",
        (),
        lambda desk: _one(_seconds(desk.catalog.unheard_ms)),
    ),
)


#: What the first scheduler called them, and what to look at here.
SUCCESSORS: Final = (
    ("node_registration_total{status}", "`lingua_node_registrations_total{outcome}`"),
    ("node_heartbeat_latency_ms", '`lingua_engine_call_seconds{script="heartbeat"}`, in seconds'),
    ("pool_query_total", "`lingua_fleet_reservation_tries_total`, `lingua_fleet_pool_empty_total`"),
    (
        "node_selection_total{result}",
        "`lingua_fleet_reservations_total`, `lingua_fleet_jobs_refused_total`, `lingua_dispatches_refused_total`",
    ),
)


def _flapping(desk: Desk) -> int | None:
    fleet = desk.stats.fleet
    return None if fleet is None else sum(node.flaps for node in fleet.nodes)


def _age_of_snapshot(desk: Desk) -> int:
    age_ms = desk.stats.age_ms(desk)
    return max(0, desk.clock() - desk.started_at_ms) if age_ms is None else age_ms


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1_000


class Collector:
    """What prometheus-client asks when somebody scrapes. It looks at memory only."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def collect(self) -> Iterator[Family]:
        """Every metric with what it has to tell now."""
        for metric in METRICS:
            yield _family(metric, self._desk)


def _family(metric: Metric, desk: Desk) -> Family:
    kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
    family = kinds[metric.kind](metric.name, metric.meaning, labels=metric.labels)
    for labels, value in metric.read(desk):
        if isinstance(value, Histogram):
            bounds = [("+Inf" if bound == float("inf") else str(bound), count) for bound, count in value.up_to()]
            family.add_metric(labels, bounds, value.sum_s)
        else:
            family.add_metric(labels, value)
    told: Family = family
    return told


class Metrics:
    """The text of a scrape, with what is usually told of a process."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, desk: Desk) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(Collector(desk))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def text(self) -> bytes:
        """Everything, now."""
        return generate_latest(self._registry)
