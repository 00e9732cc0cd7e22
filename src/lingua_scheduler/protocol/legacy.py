"""The dialect of the field nodes, in the words of the flows. Where a node uses our own fields too, these count."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.capability import SERVICES
from lingua_scheduler.core.node import MAX_ABOUT, MAX_RUNNING
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.registration import Beating, Declared, Registering, declared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.protocol.node import (
        CapabilityByType,
        LanguageCapabilities,
        NodeHeartbeat,
        NodeRegister,
        ResourceUsage,
    )

#: What is shown of a node and means nothing to us, the most telling first: what does not fit is left out.
_ABOUT: Final = (
    "version",
    "platform",
    "capability_schema_version",
    "hardware",
    "advanced_features",
    "features_supported",
    "installed_services",
    "installed_models",
)


class Abilities(msgspec.Struct, frozen=True):
    """What a node on a socket lists in `advanced_features`."""

    #: It says when it has a job. One that does not accepts by the write.
    acks: bool
    #: It says when it begins.
    starts: bool
    #: It says when it has stopped.
    tells: bool
    #: It fetches audio by reference.
    audio_ref: bool
    #: It takes audio as a binary frame.
    binary_audio: bool


def abilities_of(message: NodeRegister) -> Abilities:
    """What the node can do beyond the legacy dialect."""
    listed = set(message.advanced_features or ())
    return Abilities(
        acks="job_ack" in listed,
        starts="job_started" in listed,
        tells="job_stopped" in listed,
        audio_ref="audio_ref" in listed,
        binary_audio="binary_audio" in listed,
    )


def registering_node(message: NodeRegister, *, slots: int = 4) -> Registering:
    """A registration over a socket. Until its first heartbeat such a node is `registering`, unless it says more."""
    able = abilities_of(message)
    return Registering(
        **_declared(message),
        max_concurrent_jobs=message.max_concurrent_jobs or slots,
        health=message.health or "registering",
        epoch=message.epoch or "",
        process_id=message.process_id or "",
        acks=able.acks,
        tells=able.tells,
        about=about_of(message),
    )


def beating_node(message: NodeHeartbeat, *, first: bool = False) -> Beating:
    """A heartbeat over a socket. `first`: nothing was heard of the node's health so far, so this makes it ready."""
    usage = message.resource_usage
    return Beating(
        **_declared(message),
        max_concurrent_jobs=message.max_concurrent_jobs,
        health=message.health or ("ready" if first else None),
        current_load=None if usage is None else _load(usage),
        running_jobs=None if usage is None or message.running is not None else _number_of(usage.running_jobs),
    )


def _declared(message: NodeRegister | NodeHeartbeat) -> Declared:
    """Legacy names map one to one. Only a node that uses none of our names for languages is a legacy node."""
    said, languages = declared(message), message.language_capabilities
    if said["semantic_langs"] is None:
        said["lenient"] = True
    if languages is not None:
        said["semantic_langs"] = _first(said["semantic_langs"], languages.semantic_languages)
        said["asr_langs"] = _first(said["asr_langs"], languages.asr_languages)
        said["tts_langs"] = _first(said["tts_langs"], languages.tts_languages)
    if said["services"] is None:
        said["services"] = _services(message.capability_by_type, languages)
    return said


def _first(ours: Sequence[str] | None, theirs: Sequence[str] | None) -> Sequence[str] | None:
    return theirs if ours is None else ours


def _services(by_type: list[CapabilityByType] | None, languages: LanguageCapabilities | None) -> dict[str, bool] | None:
    """Which services are ready; None: not a word about any. A service is ready if one who can do it is."""
    found: dict[str, bool] = {}
    for one in by_type or ():
        name = one.type.lower()
        if name in SERVICES and one.ready is not None:
            found[name] = found.get(name, False) or one.ready
    if languages is not None and languages.semantic_core_ready is not None:
        found.setdefault("semantic", languages.semantic_core_ready)
    return found or None


def _load(usage: ResourceUsage) -> dict[str, float]:
    said = {"cpu": usage.cpu_percent, "gpu": usage.gpu_percent, "mem": usage.mem_percent}
    return {name: min(max(percent / 100, 0.0), 1.0) for name, percent in said.items() if percent is not None}


def _number_of(running_jobs: float | None) -> int | None:
    """How many jobs the node works on, rather too many than too few: that it has stopped must be certain."""
    if running_jobs is None or running_jobs < 0:
        return None
    return min(math.ceil(running_jobs), MAX_RUNNING)


def about_of(message: NodeRegister) -> str:
    """What is kept of a node only to be shown, as JSON; what would be too much is left out."""
    about, size = [], 1
    for name in _ABOUT:
        value = getattr(message, name)
        if value is None:
            continue
        part = f'"{name}":{encode(value).decode()}'
        if size + len(part) + 1 <= MAX_ABOUT:
            about.append(part)
            size += len(part) + 1
    return f"{{{','.join(about)}}}" if about else ""
