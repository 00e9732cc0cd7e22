"""What a caller wants beside a pair, checked and put into the one form that the flows read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeGuard

import msgspec

from lingua_scheduler.core.capability import SERVICES, check_labels
from lingua_scheduler.core.ids import check_bool, check_id, check_text
from lingua_scheduler.core.needs import USUAL
from lingua_scheduler.core.records import Wishes
from lingua_scheduler.core.refusal import Invalid

if TYPE_CHECKING:
    from lingua_scheduler.core.pair import Pair

MAX_NAMED: Final = 16
#: Anything else that is a sequence is one too; but to find that out takes its time.
_LISTS: Final = (list, tuple)


class Policy(IntEnum):
    """How a node is chosen among those with room.

    `random` takes the less loaded of two at random, `least_loaded` the least loaded of eight; `spread` is random, but
    not the session's last node while another can; `sticky_pool` is random among the nodes whose label `group` is the
    one that the session had last, while one of them has room.
    """

    random = 0
    spread = 1
    sticky_pool = 2
    least_loaded = 3


class Wanted(msgspec.Struct, frozen=True):
    """What a job asks for. The defaults are what most ask for."""

    services: Sequence[str] = USUAL
    preferred_node_id: str = ""
    strict: bool = False
    exclude_node_ids: Sequence[str] = ()
    labels: Mapping[str, str] = {}
    #: "": as the settings say.
    policy: str = ""
    #: The node must serve the way back too, because it will decide the direction.
    two_way: bool = False
    #: How long the job may wait for a slot when every capable node is full.
    wait_ms: int = 0


class Hints(msgspec.Struct, frozen=True):
    """What is remembered of a session. A wrong hint costs a preference, never more."""

    #: The node that has the other pieces of this turn.
    bound_node_id: str = ""
    last_node_id: str = ""
    #: The label `group` of the session's last node.
    last_pool: str = ""
    #: Nodes that have seen this utterance, and may refuse to see it again.
    seen_node_ids: Sequence[str] = ()


#: What most ask for, and know of their session.
USUAL_WANTED: Final = Wanted()
NO_HINTS: Final = Hints()
_POLICIES: Final = dict(Policy.__members__)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return type(value) in _LISTS or (isinstance(value, Sequence) and not isinstance(value, str | bytes))


def check_services(value: object) -> list[str]:
    """The services that a pipeline is made of."""
    if not _is_list(value) or not all(name in SERVICES for name in value):
        raise Invalid(f"services must be a list of some of {', '.join(SERVICES)}")
    return sorted({str(name) for name in value})


def check_policy(value: object) -> Policy:
    """A policy by its name; "" is `random`."""
    if value == "":
        return Policy.random
    policy = _POLICIES.get(value) if isinstance(value, str) else None
    if policy is None:
        raise Invalid(f"policy must be one of {', '.join(_POLICIES)}")
    return policy


def _node_id(field: str, value: object) -> str:
    return "" if isinstance(value, str) and not value else check_id(field, value)


def _node_ids(field: str, value: object) -> list[str]:
    if not _is_list(value) or len(value) > MAX_NAMED:
        raise Invalid(f"{field} must be a list of at most {MAX_NAMED} node ids")
    return sorted({check_id(field, node_id) for node_id in value})


def _wishes_nothing(wanted: Wanted) -> bool:
    """Whether that can be seen at a glance."""
    return (
        wanted.preferred_node_id == ""
        and wanted.strict is False
        and wanted.exclude_node_ids == ()
        and wanted.labels == {}
        and wanted.two_way is False
    )


def wishes_of(wanted: Wanted, hints: Hints, pair: Pair) -> list[Wishes]:
    """What is wished beyond a pair, services and a policy: nothing, for most; else one record of it."""
    if hints == NO_HINTS and _wishes_nothing(wanted):
        return []
    policy = check_policy(wanted.policy)
    last, pool = _node_id("last_node_id", hints.last_node_id), check_text("last_pool", hints.last_pool, 128)
    wishes = Wishes(
        named=_node_id("preferred_node_id", wanted.preferred_node_id),
        strict=int(check_bool("strict", wanted.strict)),
        excluded=_node_ids("exclude_node_ids", wanted.exclude_node_ids),
        labels=check_labels(wanted.labels),
        back=f"{pair.tgt}:{pair.src}" if check_bool("two_way", wanted.two_way) else "",
        bound=_node_id("bound_node_id", hints.bound_node_id),
        last=last if policy == Policy.spread else "",
        pool=pool if policy == Policy.sticky_pool else "",
        seen=_node_ids("seen_node_ids", hints.seen_node_ids),
    )
    if wishes.named in wishes.excluded:
        raise Invalid("preferred_node_id is among exclude_node_ids")
    if wishes.strict and not wishes.named:
        raise Invalid("strict needs a preferred_node_id")
    return [] if wishes == Wishes() else [wishes]
