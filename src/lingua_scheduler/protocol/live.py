"""What whoever watches the fleet is told: first everything, then what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.health import failures, health, is_suspect
from lingua_scheduler.core.owner import instance_of
from lingua_scheduler.core.records import Standing
from lingua_scheduler.protocol.codec import Reader
from lingua_scheduler.protocol.feed import EventAnswer
from lingua_scheduler.protocol.fields import Message, cut
from lingua_scheduler.protocol.fleet import MarkAnswer, StatsAnswer

if TYPE_CHECKING:
    from lingua_scheduler.core.records import NodeRecord, Profile

#: What a node says of itself may be long; this much of its version is shown.
_MAX_VERSION_CHARS: Final = 64


class LiveNode(Message, frozen=True, kw_only=True):
    """A node as it is shown: how it stands, what it has, what it can, and how it did. Null: it does not say that."""

    node_id: str
    standing: str
    reported: str
    intent: str
    health: int
    used: int
    max: int
    limbo: int
    seen_at_ms: int
    #: Of its last five jobs.
    failures: int
    #: It failed too many of them. While it is tried with a job it stands as `available` all the same.
    suspect: bool
    registered_at_ms: int
    rest_until_ms: int
    #: The scheduler that holds its socket; null: it has none.
    instance_id: str | None
    semantic_langs: list[str]
    asr_langs: list[str] | None
    tts_langs: list[str] | None
    pools: int
    services: dict[str, bool]
    load: dict[str, float]
    marks: list[MarkAnswer]
    version: str | None


class LiveSnapshot(Message, frozen=True, kw_only=True, tag_field="type", tag="snapshot"):
    """Everything, as of `version`. Of a large fleet only some nodes are shown, those that are not well first."""

    version: str
    now_ms: int
    stats: StatsAnswer | None
    nodes: list[LiveNode]
    nodes_total: int
    events: list[EventAnswer]


class LiveDelta(Message, frozen=True, kw_only=True, tag_field="type", tag="delta"):
    """What has changed since the version before. What is left out is as it was."""

    version: str
    now_ms: int
    stats: StatsAnswer | None = None
    nodes: list[LiveNode] | None = None
    gone: list[str] | None = None
    nodes_total: int | None = None
    events: list[EventAnswer] | None = None


class LiveStill(Message, frozen=True, kw_only=True, tag_field="type", tag="still"):
    """Nothing has changed: the server is there."""

    version: str
    now_ms: int


class _About(msgspec.Struct, frozen=True):
    version: str | None = None


_read_about: Final = msgspec.json.Decoder(_About).decode
read_live: Final[Reader[LiveSnapshot | LiveDelta | LiveStill]] = Reader(LiveSnapshot, LiveDelta, LiveStill)


def live_node(node_id: str, node: NodeRecord, profile: Profile, pools: int) -> LiveNode:
    """A node as it is shown."""
    return LiveNode(
        node_id=node_id,
        standing=Standing(node.standing).name,
        reported=node.reported,
        intent=node.intent,
        health=health(node),
        used=node.used,
        max=node.max,
        limbo=node.limbo,
        seen_at_ms=node.seen_at_ms,
        failures=failures(node),
        suspect=is_suspect(node),
        registered_at_ms=profile.registered_at_ms,
        rest_until_ms=node.rest_until_ms,
        instance_id=instance_of(profile.connection) or None,
        semantic_langs=profile.semantic,
        asr_langs=profile.asr if isinstance(profile.asr, list) else None,
        tts_langs=profile.tts if isinstance(profile.tts, list) else None,
        pools=pools,
        services=dict(profile.services),
        load=dict(profile.load),
        marks=[MarkAnswer(service=mark.service, type=mark.type, until_ms=mark.until_ms) for mark in profile.marks],
        version=_version(profile.about),
    )


def _version(about: str) -> str | None:
    """Of which version a node says that it is; whatever else it says is of no matter here."""
    try:
        said = _read_about(about).version if about else None
    except msgspec.MsgspecError:
        return None
    return None if said is None else cut(said, _MAX_VERSION_CHARS)
