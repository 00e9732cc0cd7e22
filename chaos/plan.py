"""What goes wrong, with whom and when: all of it follows from the seed.

The plan is the same for the same seed; the run is not, for what the plan meets (who has which job at that moment) is
up to the machine. So a seed that failed fails again often, not always.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

if TYPE_CHECKING:
    from chaos.scale import Scale

EngineKind = Literal["embedded", "sentinel", "cluster"]
ENGINES: Final = get_args(EngineKind)

#: How often each is drawn, and how long it lasts at most, in seconds; 0: it is over at once.
FAULTS: Final[dict[str, tuple[int, float]]] = {
    "node_kill": (10, 5.0),
    "node_sleep": (8, 8.0),
    "instance_kill": (5, 6.0),
    "instance_sleep": (5, 7.0),
    "rolling_restart": (2, 0.0),
    "wrong_clock": (3, 0.0),
    "engine_kill": (3, 0.0),
    "engine_sleep": (4, 3.0),
    "engine_restart": (3, 0.0),
    "engine_slow": (4, 4.0),
    "script_flush": (4, 0.0),
    "reset": (6, 0.0),
    "half_open": (5, 6.0),
    "black_hole": (5, 6.0),
    "delay": (5, 4.0),
    "dropped_reply": (6, 0.0),
    "poison": (4, 0.0),
    "retry_storm": (6, 0.0),
}
#: On the way between an instance and its engine.
WIRES: Final[dict[str, tuple[int, float]]] = {
    "engine_cut": (4, 0.0),
    "engine_hole": (4, 3.0),
    "engine_delay": (4, 3.0),
    "engine_reply_lost": (5, 0.0),
}
#: Only where somebody starts the engine again; only where there is somebody to take over; only where data is spread
#: over several primaries.
GUARDIAN: Final[dict[str, tuple[int, float]]] = {"guardian_kill": (2, 0.0)}
FAIL_OVERS: Final[dict[str, tuple[int, float]]] = {"fail_over": (4, 0.0), "replica_kill": (2, 3.0)}
SLOTS: Final[dict[str, tuple[int, float]]] = {"slot_moves": (4, 0.0)}
#: A node sleeps again only after its last limbo is over: a legacy node is given the benefit of the doubt then.
_ABOUT_NODES: Final = ("node_kill", "node_sleep")


class Fault(msgspec.Struct, frozen=True):
    """`whom` is a number, whose meaning the kind knows; `share` is how many of several, from 0 to 1."""

    at_s: float
    kind: str
    whom: int
    lasts_s: float
    share: float


def kinds_of(engine: EngineKind) -> dict[str, tuple[int, float]]:
    """What can be done to this engine, and to everybody else."""
    return FAULTS | WIRES | {"embedded": GUARDIAN, "sentinel": FAIL_OVERS, "cluster": FAIL_OVERS | SLOTS}[engine]


def plan_of(seed: int, engine: EngineKind, scale: Scale, lasts_s: float) -> list[Fault]:
    """Faults from the first second to the last, in order of time."""
    rng = random.Random(f"{seed}/{engine}")
    kinds = kinds_of(engine)
    weights = [weight for weight, _ in kinds.values()]
    quiet_until: dict[int, float] = {}
    plan: list[Fault] = []
    at_s = rng.expovariate(1 / scale.fault_every_s)
    while at_s < lasts_s:
        (kind,) = rng.choices(list(kinds), weights)
        whom, share, part = rng.randrange(1_000_000), rng.random(), rng.uniform(0.05, 1)
        longest_s = min(kinds[kind][1], scale.sleep_s)
        if kind in _ABOUT_NODES:
            node = whom % scale.nodes
            if quiet_until.get(node, 0.0) > at_s:
                continue
            quiet_until[node] = at_s + longest_s + scale.limbo_ms / 1000
        plan.append(Fault(round(at_s, 3), kind, whom, round(part * longest_s, 3), round(share, 3)))
        at_s += rng.expovariate(1 / scale.fault_every_s)
    return plan
