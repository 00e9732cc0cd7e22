"""A business "no": a value, with a code, an HTTP status and the answer to "shall I try again?"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec


@dataclass(frozen=True, slots=True)
class Code:
    """What every refusal with this code has in common. `detail` may name fields of the refused message."""

    status: int
    retryable: bool
    detail: str
    retry_after_ms: int | None = None


CODES: Final[dict[str, Code]] = {
    "INVALID_MESSAGE": Code(400, False, "The message does not fit its schema."),
    "INVALID_CAPABILITY_SCHEMA": Code(400, False, "These capabilities cannot be right."),
    "UNKNOWN_NODE": Code(404, False, "No node {node_id} is registered: it has left, or must register first."),
    "UNKNOWN_JOB": Code(404, False, "There is no job {job_id}, or its record has expired."),
    "UNKNOWN_AUDIO": Code(404, False, "There is no audio {audio_ref}, or not any more."),
    "UNKNOWN_POOL": Code(404, False, "No registered node serves {pair}."),
    "NODE_MISMATCH": Code(409, False, "Node {node_id} never held attempt {attempt_id} of job {job_id}."),
    "STALE_ATTEMPT": Code(409, False, "This attempt is over or the epoch is an old one; stop working on it."),
    "NODE_ID_CONFLICT": Code(
        409, False, "A live node with another credential holds the id {node_id}; take another id."
    ),
    "NODE_REPLACED": Code(409, False, "Another connection speaks for node {node_id} now; this one is over."),
    "IDEMPOTENCY_CONFLICT": Code(
        409, False, "The request id {request_id} came with another body before; a new body needs a new id."
    ),
    "NOT_ENDED": Code(409, True, "Job {job_id} has not ended yet; only an ended job can be released."),
    "NO_CAPABLE_NODE": Code(422, False, "No registered node can serve {pair}: {missing}."),
    "ALL_CANDIDATES_FULL_OR_FAILED": Code(503, True, "{pool} in the pool of {pair}; none can take a job now.", 250),
    "PREFERRED_NODE_NOT_CAPABLE": Code(
        422, False, "Node {node_id} is not registered, or cannot serve {pair} as asked."
    ),
    "PREFERRED_NODE_UNAVAILABLE": Code(409, True, "Node {node_id} cannot take a job now: it is {why}.", 250),
    "INVALID_PAIRING_CODE": Code(
        404, False, "This pairing code stands for no node, or its time is over; ask for a new one."
    ),
    "CELL_FULL": Code(503, True, "Cell {cell} has no room for another node.", 5000),
    "HOME_GONE": Code(503, True, "Node {node_id} was sent to cell {cell} too long ago; register it again.", 250),
    "INSTANCE_GONE": Code(503, True, "No instance {instance_id} is there, or not any more; nothing was sent.", 250),
    "INBOX_FULL": Code(503, True, "The inbox of instance {instance_id} is full; nothing was sent.", 1000),
    "UNKNOWN_LETTER": Code(404, False, "There is no dead letter {letter_id}, or not any more."),
    "LINK_GONE": Code(410, False, "This link was used, or its time is over; `lingua link` makes another."),
    "UNAUTHENTICATED": Code(401, False, "There is no token, or it is not valid."),
    "FORBIDDEN": Code(403, False, "The token does not allow this."),
    "INVALID_SESSION": Code(404, False, "There is no such session, or not any more."),
    "SESSION_TAKEN": Code(409, False, "Another connection goes on with this session; this one is over."),
    "SESSION_CLOSED": Code(409, False, "This connection is over; whoever spoke by it goes on elsewhere, or has ended."),
    "NOT_FOUND": Code(404, False, "There is nothing at {path}; /openapi.json lists what there is."),
    "METHOD_NOT_ALLOWED": Code(405, False, "{path} takes {methods}, not {method}."),
    "REQUEST_TIMEOUT": Code(408, True, "The request did not arrive in time.", 1000),
    "HEADERS_TOO_LARGE": Code(431, False, "The head of the request is larger than this door takes."),
    "PAYLOAD_TOO_LARGE": Code(413, False, "The message is larger than this door takes."),
    "RATE_LIMITED": Code(429, True, "Too much at once; slow down.", 1000),
    "UNSUPPORTED_FEATURE": Code(501, False, "This version does not serve that."),
    "SCHEDULER_DEPENDENCY_DOWN": Code(503, True, "The state engine cannot be reached; nothing was accepted.", 1000),
    "OUTCOME_UNKNOWN": Code(
        503, True, "It may or may not have happened; send it again with the same request_id to learn which.", 1000
    ),
    "SHUTTING_DOWN": Code(503, True, "This instance is about to stop; another one will answer.", 1000),
    "INTERNAL": Code(500, False, "Something broke here; the log tells what, under the trace id."),
}


class Breakdown(msgspec.Struct, frozen=True):
    """Why the nodes of a pool could not take a job: each counted once, under its first reason."""

    pool: int = 0
    full: int = 0
    stale: int = 0
    not_ready: int = 0
    draining: int = 0
    resting: int = 0
    marked: int = 0
    excluded: int = 0
    no_service: int = 0
    not_permitted: int = 0

    @property
    def mostly(self) -> str:
        """The reason that kept most of the nodes away, of as many the first; "": there was nobody to be kept."""
        most = max(KEPT_AWAY, key=lambda reason: int(getattr(self, reason)))
        return most if getattr(self, most) else ""


#: What a breakdown tells apart.
KEPT_AWAY: Final = Breakdown.__struct_fields__[1:]


class Refusal(msgspec.Struct, frozen=True):
    """Nothing about what was asked was changed, and this is why.

    The word may still have been a sign of life of its node or have freed a slot, and a refused dispatch has settled
    what was due.
    """

    code: str
    detail: str
    breakdown: Breakdown | None = None
    #: How long the job had waited for a node before it was refused.
    waited_ms: int = 0
    #: How long to wait before the next try, where that is known of this one; None: as its code says.
    after_ms: int | None = None

    @property
    def status(self) -> int:
        """The HTTP status that goes with it."""
        return CODES[self.code].status

    @property
    def retryable(self) -> bool:
        """Whether the same message may succeed later."""
        return CODES[self.code].retryable

    @property
    def retry_after_ms(self) -> int | None:
        """How long to wait before that; None where it is not retryable or anything goes."""
        return CODES[self.code].retry_after_ms if self.after_ms is None else self.after_ms


def refuse(code: str, breakdown: Breakdown | None = None, **named: object) -> Refusal:
    """The refusal `code`, its text filled in with what the message named."""
    return Refusal(code, CODES[code].detail.format_map(named), breakdown)


class Invalid(ValueError):
    """Input that cannot be right; a face turns it into the refusal it carries."""

    def __init__(self, detail: str, code: str = "INVALID_MESSAGE") -> None:
        super().__init__(detail)
        self.refusal = Refusal(code, detail)
