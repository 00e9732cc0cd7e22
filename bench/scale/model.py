"""From what one of each costs to what very many take. Pure: the same costs give the same figures."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bench.scale.costs import Costs
    from lingua_scheduler.config import Settings

#: So much of a core a primary, or an instance, may be busy on average.
_BUSY: Final = 0.6
#: A session is saved so often for one utterance, and once in so many seconds even if nothing is said.
_SAVES_PER_UTTERANCE: Final = 4
_SAVE_EVERY_S: Final = 30.0
#: For so long text and audio of a result wait for their client to confirm it.
_CONFIRMED_AFTER_S: Final = 2.0
#: A reconnect storm of all nodes settles within this (L5).
_STORM_S: Final = 30.0
_SESSION_KEYS: Final = 3
_INSTANCE_KEYS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """How large it is, and what goes on in it."""

    nodes: int = 100_000
    sessions: int = 1_000_000
    #: Each session says so much in a minute.
    utterances_per_minute: float = 2.0
    #: How long an utterance is, how large that is (pcm16 at 16 kHz; Opus has 3 000), and how long a node needs for it.
    speech_s: float = 3.0
    speech_bytes_per_s: float = 32_000.0
    work_s: float = 1.5
    #: Of an instance, as `./dev bench front` measures it: CPU of an utterance and of a beat, memory of a socket.
    instance_us_per_utterance: float = 307.0
    instance_us_per_beat: float = 120.0
    socket_bytes: int = 26_800
    #: As many sockets as one instance should hold.
    sockets_per_instance: int = 20_000

    @property
    def utterance_bytes(self) -> int:
        """Of all of it."""
        return round(self.speech_s * self.speech_bytes_per_s)


def compute(world: World, costs: Costs, settings: Settings) -> dict[str, Any]:
    """Everything, with the settings as they are."""
    said_per_s = world.sessions * world.utterances_per_minute / 60
    beats_per_s = world.nodes * 1000 * (1 / settings.nodes.heartbeat_interval_ms + 1 / settings.nodes.socket_beat_ms)
    saves_per_s = world.sessions / _SAVE_EVERY_S + _SAVES_PER_UTTERANCE * said_per_s
    cells = math.ceil(world.nodes / settings.cell.cell_capacity)
    instances = _instances(world, said_per_s, beats_per_s)
    looks_per_s = (
        instances * cells * 1000 * (1 / settings.loops.sweep_interval_ms + 1 / settings.loops.relay_interval_ms)
    )
    loads = {
        "jobs": (4 * said_per_s, costs.job_us * said_per_s),
        "telling ends": (2 * said_per_s, costs.tell_us * said_per_s),
        "releases": (said_per_s, costs.release_us * said_per_s),
        "audio": (3 * said_per_s, costs.audio_us * said_per_s),
        "numbers and memory of sessions": (2 * said_per_s, (costs.enter_us + costs.remember_us) * said_per_s),
        "states of sessions": (saves_per_s, costs.save_us * saves_per_s),
        "heartbeats": (beats_per_s, costs.heartbeat_us * beats_per_s),
        "instances looking at cells": (looks_per_s, costs.idle_look_us * looks_per_s),
    }
    cores = {name: spent_us / 1e6 for name, (_, spent_us) in loads.items()}
    primaries = math.ceil(sum(cores.values()) / _BUSY)
    memory = _memory(world, costs, settings, said_per_s)
    return {
        "costs": {name: round(value, 1) for name, value in asdict(costs).items()},
        "cells": cells,
        "instances": instances,
        "utterances_per_s": round(said_per_s),
        "heartbeats_per_s": round(beats_per_s),
        "calls_per_s": {name: round(calls) for name, (calls, _) in loads.items()},
        "engine_cores": {name: round(spent, 2) for name, spent in cores.items()},
        "primaries": primaries,
        "calls_per_s_per_primary": round(sum(calls for calls, _ in loads.values()) / primaries),
        "share_of_a_core_per_primary": round(sum(cores.values()) / primaries, 2),
        "one_cell_share_of_a_core": round(_one_cell(cores, cells), 3),
        "storm_share_of_a_core_per_primary": round(world.nodes * costs.register_us / 1e6 / _STORM_S / primaries, 2),
        "keys": _keys(world, cells, instances, said_per_s),
        "engine_gb": {name: round(size / 1e9, 1) for name, size in memory.items()},
        "engine_gbit_per_s_of_audio": round(2 * 8 * said_per_s * world.utterance_bytes / 1e9, 1),
        "engine_gb_per_primary": round(sum(memory.values()) / 1e9 / primaries, 1),
        "slots_busy": round(said_per_s * world.work_s),
        "instance_cores": round(_instance_cores(world, said_per_s, beats_per_s), 1),
        "instance_gb_of_sockets": round((world.nodes + world.sessions) * world.socket_bytes / 1e9, 1),
        "breaks_first": _first(cores),
    }


def _instance_cores(world: World, said_per_s: float, beats_per_s: float) -> float:
    return (world.instance_us_per_utterance * said_per_s + world.instance_us_per_beat * beats_per_s) / 1e6


def _instances(world: World, said_per_s: float, beats_per_s: float) -> int:
    """One is one core: for what is to be done, and for the sockets that it can hold."""
    by_work = _instance_cores(world, said_per_s, beats_per_s) / _BUSY
    return math.ceil(max(by_work, (world.nodes + world.sessions) / world.sockets_per_instance))


def _memory(world: World, costs: Costs, settings: Settings, said_per_s: float) -> dict[str, float]:
    open_s = world.work_s + _CONFIRMED_AFTER_S
    return {
        "nodes": world.nodes * costs.node_bytes,
        "sessions": world.sessions * costs.session_bytes,
        "jobs that are open, and their text": said_per_s * open_s * costs.job_bytes,
        "records of jobs that were released": said_per_s
        * settings.jobs.released_ttl_ms
        / 1000
        * costs.released_job_bytes,
        "audio": said_per_s * open_s * world.utterance_bytes,
    }


def _keys(world: World, cells: int, instances: int, said_per_s: float) -> int:
    audio = said_per_s * (world.work_s + _CONFIRMED_AFTER_S)
    return round(world.sessions * _SESSION_KEYS + 16 * cells + instances * _INSTANCE_KEYS + audio)


def _one_cell(cores: dict[str, float], cells: int) -> float:
    """What is in a cell's slot cannot be spread any further: that much of a core is one cell's."""
    in_cells = ("jobs", "telling ends", "releases", "heartbeats", "instances looking at cells")
    return sum(cores[name] for name in in_cells) / cells


def _first(cores: dict[str, float]) -> str:
    """What takes the largest part of the engine."""
    return max(cores, key=cores.__getitem__)
