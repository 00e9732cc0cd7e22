"""What a caller wants done, what a job is given on its way, and what the caller is told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.dispatch import Placed

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from lingua_scheduler.core.refusal import Refusal
    from lingua_scheduler.views.whereabouts import At

    AtOnce = Callable[[str, Placed, int], None]
    #: Mostly the answer is known without waiting for it.
    Enters = Callable[[str], int | Awaitable[int | Refusal]]

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


class Ask(msgspec.Struct, frozen=True):
    """What a caller wants done. Two asks with the same fields are the same body; the trace does not count.

    Services, labels and excluded nodes are sets: in which order they are listed, and how often, does not matter.
    """

    session_id: str
    src_lang: str
    tgt_lang: str
    body: str = ""
    #: None: the session does not number its utterances.
    utterance_index: int | None = None
    limits: Limits = Limits()
    wanted: Wanted = Wanted()
    #: Jobs of a session with the same key are pieces of one turn, and go to the same node.
    bind_key: str = ""

    def digest(self, usual_policy: str = "random") -> str:
        """What is compared when the same request id comes again; the policy is the usual one if it names none."""
        if not isinstance(self.limits, Limits):
            raise TypeError("limits must be Limits")
        services, excluded = (sorted(set(names)) for names in (self.wanted.services, self.wanted.exclude_node_ids))
        policy = self.wanted.policy or usual_policy
        wanted = msgspec.structs.replace(self.wanted, services=services, exclude_node_ids=excluded, policy=policy)
        return hashlib.sha256(_encode(msgspec.structs.replace(self, wanted=wanted))).hexdigest()


class Tags(msgspec.Struct):
    """What a job is given on its way and nobody asked for: its trace, and its number where the ask has none.

    `at_once` is told of a new job in the very tick in which the engine answers that it has a node.
    """

    trace_id: str
    enters: Enters | None
    at_once: AtOnce | None
    #: Told when nobody has room, and the job begins to wait.
    waits: Callable[[], None] | None
    number: int = 0


class Submitted(msgspec.Struct, frozen=True):
    """The job, new or known, and where it is."""

    job_id: str
    placed: Placed

    @property
    def is_new(self) -> bool:
        """Whoever submitted it carries it to its node. What existed already, or had to wait, is carried by others."""
        return self.placed.is_new

    @classmethod
    def at(cls, job_id: str, job: At) -> Submitted:
        """A job that others have placed, where it was seen."""
        return cls(job_id, Placed(job.state, job.node_id, job.epoch, job.attempt_id, job.acks))
