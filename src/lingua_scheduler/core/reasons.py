"""Why a node does not take a job: one list of words, whoever is asked.

A verdict on a node says them (`full`), a wish that could not be met (`preferred full`), the refusal of a job that
insists on a node, and the numbers of a refusal. docs/reasons.md is generated from here; tests compare it with what the
Lua says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that can stand against a node. `counted`: the number of a refusal that has it, if one has."""

    word: str
    means: str
    counted: str = ""


#: In the order in which they are looked at: the first that holds is given.
AGAINST: Final[tuple[Reason, ...]] = (
    Reason("unknown", "it is not registered, or not any more"),
    Reason("excluded", "it is among the job's `exclude_node_ids`", "excluded"),
    Reason("no_pool", "it serves neither the pair nor its fallback"),
    Reason("no_service", "it lacks a service, the voice, a label or the way back", "no_service"),
    Reason("fallback", "it serves only the fallback, which is not asked now"),
    Reason("not_permitted", "it takes only jobs that name it", "not_permitted"),
    Reason("marked", "a service that the job needs was seen not to work there", "marked"),
    Reason("lost", "it was given up", "stale"),
    Reason("stale", "it gives no sign of life", "stale"),
    Reason("draining", "the operator drained or evicted it", "draining"),
    Reason("not_ready", "it is in a grace, says that it is not ready, or is cut off", "not_ready"),
    Reason("resting", "it rests for a moment", "resting"),
    Reason("suspect_full", "all of its slots are taken, and it is under suspicion", "full"),
    Reason("full", "all of its slots are taken", "full"),
    Reason("had", "it is under suspicion and had the job: not before it is tried again"),
    Reason("not_named", "it could, but the job insists on another (`strict`)"),
    Reason("seen", "it could, but it had the job or has seen the utterance, and another could too"),
)

#: Whom a job can wish for. A wish that could not be met is told with what stood against the node: `bound full`.
WISHES: Final[dict[str, str]] = {
    "bound": "the node that has the other pieces of the turn",
    "preferred": "the node that the job names",
}

#: What else is told of a choice.
SPECIAL: Final[dict[str, str]] = {
    "pool full": "`sticky_pool`: no node with the session's label `group` could take it",
    "last node": "`spread`: no other node that is trusted could take it",
    "suspect": "it went to a node under suspicion",
    "panic": "suspicion was ignored, because more than half are suspect",
    "waited": "it waited for this node",
    "guest": "it went to a node of another cell, which is named: nobody could take it in its own",
    "fell back": "it went to a node for the fallback language, because no live node serves its own",
    "again": "it went to a node that had the job or has seen the utterance: no other could take it, or the job insists",
}
