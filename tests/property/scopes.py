"""What is searched, and how deep: `LINGUA_EXHAUSTIVE_DEPTH` says more, each step at six times the cost."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from tests.property.exhaustive import Scope
from tests.property.small_world import Box

DEFAULT_DEPTH: Final = 4
DEPTH: Final = int(os.environ.get("LINGUA_EXHAUSTIVE_DEPTH", DEFAULT_DEPTH))

FLEET: Final = (Box("A", 1), Box("B", 2))
FIELD: Final = (Box("A", 1, legacy=True), Box("B", 2, legacy=True))

#: Every slot of the fleet is taken, and each node knows what it is at.
BUSY: Final = tuple(
    step for job in (1, 2, 3) for step in (f"dispatch c0.{job}", "send", f"ack {'ABB'[job - 1]} c0.{job}")
)


#: Two slots, both taken by jobs that their nodes know of.
PAIR: Final = (Box("A", 1), Box("B", 1))
TAKEN: Final = tuple(step for job in (1, 2) for step in (f"dispatch c0.{job}", "send", f"ack {'AB'[job - 1]} c0.{job}"))


def kinds(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


TIME: Final = "time tick dispatch late-dispatch cancel"
OFFERS: Final = "send late-send write lose unsent"
WORDS: Final = "ack started done stopped fail overloaded finish arrive"
LIVES: Final = "crash restart drop hang-up return rejoin beat leave"
INTENTS: Final = "drain evict resume lower raise limit free"


class Case(NamedTuple):
    """A scope, how much deeper than `DEPTH` it goes, and how much there is at least at the default depth."""

    scope: Scope
    deeper: int
    states: int
    transitions: int


CASES: Final = {
    "everything": Case(Scope(FLEET, kinds(TIME, OFFERS, WORDS, LIVES, INTENTS)), 0, 6_000, 15_000),
    "everything, from a busy fleet": Case(
        Scope(FLEET, kinds("time cancel dispatch", OFFERS, WORDS, LIVES, INTENTS), BUSY), -1, 5_000, 15_000
    ),
    "the life of a job": Case(
        Scope(FLEET, kinds("time dispatch cancel", OFFERS, "ack started done stopped fail overloaded")),
        2,
        5_000,
        14_000,
    ),
    "nodes that die and come back": Case(
        Scope(FLEET, kinds("time tick dispatch send done finish arrive crash restart drop hang-up return beat")),
        1,
        4_000,
        10_000,
    ),
    "nodes that die and come back, from a busy fleet": Case(
        Scope(FLEET, kinds("time tick dispatch send done finish arrive crash restart drop return beat"), BUSY),
        0,
        2_000,
        5_000,
    ),
    "the operator": Case(
        Scope(FLEET, kinds("time dispatch send stopped beat lower raise limit free leave restart drain evict resume")),
        1,
        4_000,
        11_000,
    ),
    "those who wait, for a busy fleet": Case(
        Scope(
            PAIR,
            kinds("time tick wait dispatch send done fail cancel drain resume crash restart beat"),
            TAKEN,
        ),
        0,
        5_000,
        10_000,
    ),
    "nodes from the field": Case(
        Scope(FIELD, kinds("time tick dispatch send late-send done cancel crash restart drop return beat")),
        1,
        4_000,
        10_000,
    ),
    "nodes from the field, from a busy fleet": Case(
        Scope(FIELD, kinds("time tick dispatch send done cancel crash restart drop return beat"), BUSY),
        0,
        2_000,
        5_000,
    ),
}
