"""Who is in the demo: the same seed, the same fleet, the same callers with the same things to say."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What nodes speak, in turns. Each process has nodes of every kind, so that none takes a language with it.
_TEAMS: Final = (("en", "zh"), ("en", "es"), ("en", "zh", "ja"), ("en", "fr", "de"), ("en", "zh", "es"))
_SLOTS: Final = (1, 2, 2, 3, 4)
#: How a node's machine compares with the usual one.
_SPEED: Final = (0.8, 1.4)
#: A dozen interpreters would take a small machine half a minute to start; three, and the nodes share them.
_PROCESSES: Final = 3
_NODES_PER_PROCESS: Final = 50
_SPEECH_S: Final = (0.8, 4.0)
_PAUSE_S: Final = (0.2, 0.9)
_PITCHES_HZ: Final = (95.0, 120.0, 180.0, 215.0)
#: After an utterance the other one speaks, or the same goes on.
_OTHER_SPEAKS: Final = 0.7


@dataclass(frozen=True, slots=True)
class Member:
    """A simulated node: its languages, its slots, and how slow its machine is (1: the usual)."""

    node_id: str
    languages: tuple[str, ...]
    slots: int
    slowness: float


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance: who speaks, to whom, for how long, and how long everybody listens afterwards."""

    src: str
    tgt: str
    speech_s: float
    pitch_hz: float
    pause_s: float


@dataclass(frozen=True, slots=True)
class Conversation:
    """Two people with two languages, who share a phone."""

    name: str
    languages: tuple[str, str]
    seed: str

    def turns(self) -> Iterator[Turn]:
        """What they say, without an end."""
        rng = random.Random(self.seed)
        people = list(zip(self.languages, rng.sample(_PITCHES_HZ, 2), strict=True))
        while True:
            (src, pitch_hz), (tgt, _) = people
            yield Turn(src, tgt, rng.uniform(*_SPEECH_S), pitch_hz, rng.uniform(*_PAUSE_S))
            if rng.random() < _OTHER_SPEAKS:
                people.reverse()


def fleet_of(seed: int, nodes: int) -> list[Member]:
    """All nodes. The first so many of a larger fleet are those of a smaller one."""
    rng = random.Random(f"{seed}:fleet")
    return [
        Member(f"sim-{number}", _TEAMS[number % len(_TEAMS)], rng.choice(_SLOTS), rng.uniform(*_SPEED))
        for number in range(nodes)
    ]


def conversations_of(seed: int, callers: int, fleet: list[Member]) -> list[Conversation]:
    """All callers; each pair of languages is one that the fleet serves, and common ones are common."""
    rng = random.Random(f"{seed}:callers")
    found = []
    for number in range(callers):
        one, other = rng.sample(rng.choice(fleet).languages, 2)
        found.append(Conversation(f"caller-{number}", (one, other), f"{seed}:caller-{number}"))
    return found


def processes_for(nodes: int) -> int:
    """In how many processes the nodes live."""
    return max(min(_PROCESSES, nodes), ceil(nodes / _NODES_PER_PROCESS))
