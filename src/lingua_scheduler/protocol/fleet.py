"""The fleet as people and machines see it: answers of the reads, bodies of the operator's actions.

`explain` has no struct here: what is told is `core.explain.Explanation`, as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.catalog import Comparison
from lingua_scheduler.core.health import failures, health, is_suspect
from lingua_scheduler.core.owner import instance_of
from lingua_scheduler.core.records import Standing
from lingua_scheduler.protocol.codec import Reader
from lingua_scheduler.protocol.fields import Message, PairingCode, Slots
from lingua_scheduler.protocol.node import InstalledService

if TYPE_CHECKING:
    from collections.abc import Collection

    from lingua_scheduler.core.catalog import Catalog
    from lingua_scheduler.core.records import NodeRecord, Profile


class NodeSummary(Message, frozen=True, kw_only=True):
    """A node at a glance: what it says (`reported`), what the operator wants (`intent`), how it stands."""

    node_id: str
    standing: str
    reported: str
    intent: str
    health: int
    used: int
    max: int
    free: int
    limbo: int
    seen_at_ms: int
    #: How many of its last five jobs it failed, and until when it rests.
    failures: int
    rest_until_ms: int
    #: It failed too many of them. While it is tried with a job it stands as `available` all the same.
    suspect: bool


class LeaseAnswer(Message, frozen=True, kw_only=True):
    """What holds a slot. `fenced_at_ms`: given up, and its node has not confirmed that. `guest`: of another cell."""

    job_id: str
    attempt_id: int
    fenced_at_ms: int | None = None
    guest: bool | None = None


class MarkAnswer(Message, frozen=True, kw_only=True):
    """A service that was seen not to work; `type` "" is the whole node."""

    service: str
    type: str
    until_ms: int


class InstalledAnswer(Message, frozen=True, kw_only=True):
    """A service that a node has installed, beside the newest in the catalog: `installed`, `outdated` or `unknown`."""

    service_id: str
    status: str
    version: str | None = None
    latest: str | None = None


class NodeAnswer(NodeSummary, frozen=True, kw_only=True):
    """Everything known of a node. Null: undeclared; no operator's limit (`max_override`), no socket (`instance_id`)."""

    max_override: int | None
    #: The scheduler that holds its socket.
    instance_id: str | None
    epoch: str
    registered_at_ms: int
    pools: list[str]
    leases: list[LeaseAnswer]
    semantic_langs: list[str]
    asr_langs: list[str] | None
    nmt_pairs: list[tuple[str, str]] | str | None
    tts_langs: list[str] | None
    services: dict[str, bool]
    labels: dict[str, str]
    accept_public_jobs: bool
    current_load: dict[str, float]
    marks: list[MarkAnswer]
    installed: list[InstalledAnswer]
    about: Any


class NodesAnswer(Message, frozen=True, kw_only=True):
    """A page of nodes. Without a cursor it is the last one."""

    nodes: list[NodeSummary]
    cursor: str | None = None


class PoolAnswer(Message, frozen=True, kw_only=True):
    """A pair, and how its nodes stand. `src:*` is every target. `living` are those that are given jobs, now or soon."""

    pair: str
    nodes: int
    living: int
    standing: dict[str, int]


class PoolsAnswer(Message, frozen=True, kw_only=True):
    """A page of pools."""

    pools: list[PoolAnswer]
    cursor: str | None = None


class IntentAnswer(Message, frozen=True, kw_only=True):
    """What the operator wants of a node from now on."""

    ok: bool
    node_id: str
    intent: str


class MaxRequest(Message, frozen=True, kw_only=True):
    """How many jobs the operator lets a node have at once. Null, which must be said: as many as it says."""

    max_concurrent_jobs: Slots | None


class MaxAnswer(Message, frozen=True, kw_only=True):
    """How many jobs the node may have at once now."""

    ok: bool
    node_id: str
    max_concurrent_jobs: int


class PairingAnswer(Message, frozen=True, kw_only=True):
    """Six digits that stand for a node, for a while."""

    node_id: str
    pairing_code: PairingCode
    expires_in_ms: int


class FleetHealth(Message, frozen=True, kw_only=True):
    """Whether all is well, and what is not."""

    ok: bool
    problems: list[str]


class SlotNumbers(Message, frozen=True, kw_only=True):
    """Slots of all nodes."""

    total: int
    used: int
    free: int


class PoolNumbers(Message, frozen=True, kw_only=True):
    """One pool in numbers. `living` are those of its nodes that are given jobs, now or when they have a slot."""

    pair: str
    nodes: int
    living: int
    slots: int
    free: int
    waiting: int


class JobNumbers(Message, frozen=True, kw_only=True):
    """Jobs in numbers."""

    in_flight: int
    waiting: int
    finished_total: int
    failed_total: int


class Percentiles(Message, frozen=True, kw_only=True):
    """How long something takes, in milliseconds; null while nothing was measured."""

    p50: float | None
    p95: float | None
    p99: float | None


class StatsAnswer(Message, frozen=True, kw_only=True):
    """The fleet in numbers, as of `generated_at_ms`. `dispatch_ms` is of all instances together, in the last minute."""

    generated_at_ms: int
    age_ms: int
    health: FleetHealth
    nodes: dict[str, int]
    slots: SlotNumbers
    pools: list[PoolNumbers]
    jobs: JobNumbers
    sessions: int
    instances: int
    dispatch_ms: Percentiles


class PointAnswer(Message, frozen=True, kw_only=True):
    """The fleet in the stretch of time that began then. `p95_dispatch_ms` null: nothing was dispatched."""

    at_ms: int
    ready_nodes: int
    free_slots: int
    in_flight: int
    waiting: int
    finished_total: int
    failed_total: int
    p95_dispatch_ms: float | None


class HistoryAnswer(Message, frozen=True, kw_only=True):
    """The last hour in stretches of time, the oldest first. Some may be missing."""

    stretch_ms: int
    points: list[PointAnswer]


class ServiceAnswer(Message, frozen=True, kw_only=True):
    """A service that nodes may install, and what the catalog says of it."""

    service_id: str
    version: str | None = None
    type: str | None = None
    name: str | None = None


class CatalogAnswer(Message, frozen=True, kw_only=True):
    """Which services there are, who told it (`hub`, `file`; "": nobody), and how often in a row nobody could since."""

    source: str
    services: list[ServiceAnswer]
    failures: int
    age_ms: int | None = None
    error: str | None = None


read_max: Final = Reader(MaxRequest)


class _About(msgspec.Struct, frozen=True):
    """What is read of what a node says of itself."""

    installed_services: list[InstalledService] | None = None


_read_about: Final = msgspec.json.Decoder(_About).decode


def node_summary(node_id: str, node: NodeRecord) -> NodeSummary:
    """A node at a glance."""
    return NodeSummary(**_glance(node_id, node))


def node_answer(
    node_id: str,
    node: NodeRecord,
    profile: Profile,
    pools: list[str],
    leases: list[tuple[str, int]],
    catalog: Catalog | None,
    guests: Collection[str] = (),
) -> NodeAnswer:
    """Everything known of a node; `leases`, and which of them are guests, as `views.node` gives them."""
    return NodeAnswer(
        **_glance(node_id, node),
        max_override=node.limit or None,
        instance_id=instance_of(profile.connection) or None,
        epoch=node.epoch,
        registered_at_ms=profile.registered_at_ms,
        pools=pools,
        leases=[_lease(name, fenced_at, name in guests) for name, fenced_at in leases],
        semantic_langs=profile.semantic,
        asr_langs=_declared(profile.asr),
        nmt_pairs="any" if profile.nmt is True else _pairs(_declared(profile.nmt)),
        tts_langs=_declared(profile.tts),
        services=dict(profile.services),
        labels=dict(profile.labels),
        accept_public_jobs=profile.public,
        current_load=dict(profile.load),
        marks=[MarkAnswer(service=mark.service, type=mark.type, until_ms=mark.until_ms) for mark in profile.marks],
        installed=_installed(profile.about, catalog),
        about=msgspec.Raw(profile.about.encode()) if profile.about else None,
    )


def services_in(catalog: Catalog | None) -> list[ServiceAnswer]:
    """What a catalog lists, by id."""
    listed = {} if catalog is None else catalog.services
    return [
        ServiceAnswer(
            service_id=one.service_id, version=one.version or None, type=one.type or None, name=one.name or None
        )
        for _, one in sorted(listed.items())
    ]


def _installed(about: str, catalog: Catalog | None) -> list[InstalledAnswer]:
    """What the node says that it has installed, if there was room to keep that."""
    said = _read_about(about).installed_services if about else None
    return [
        InstalledAnswer(
            service_id=one.service_id,
            status=Comparison.UNKNOWN if catalog is None else catalog.compare(one.service_id, one.version or ""),
            version=one.version,
            latest=catalog.latest(one.service_id) if catalog is not None else None,
        )
        for one in said or ()
        if one.service_id
    ]


def _glance(node_id: str, node: NodeRecord) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "standing": Standing(node.standing).name,
        "reported": node.reported,
        "intent": node.intent,
        "health": health(node),
        "used": node.used,
        "max": node.max,
        "free": max(node.max - node.used, 0),
        "limbo": node.limbo,
        "seen_at_ms": node.seen_at_ms,
        "failures": failures(node),
        "rest_until_ms": node.rest_until_ms,
        "suspect": is_suspect(node),
    }


def _lease(name: str, fenced_at: int, is_guest: bool) -> LeaseAnswer:
    *_, job_id, attempt = name.split(":")
    return LeaseAnswer(
        job_id=job_id, attempt_id=int(attempt), fenced_at_ms=fenced_at or None, guest=True if is_guest else None
    )


def _declared(said: list[str] | bool) -> list[str] | None:
    return said if isinstance(said, list) else None


def _pairs(pairs: list[str] | None) -> list[tuple[str, str]] | None:
    return None if pairs is None else [(src, tgt) for src, _, tgt in (pair.partition(":") for pair in pairs)]
