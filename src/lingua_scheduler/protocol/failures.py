"""What a node says when it cannot do a job, in the words of the flow `fail` and of the marker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypedDict

from lingua_scheduler.core.capability import SERVICES
from lingua_scheduler.protocol.fields import cut
from lingua_scheduler.protocol.node import JobNack, JobResult, NodeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingua_scheduler.protocol.http import DoneRequest, FailRequest
    from lingua_scheduler.protocol.node import InstalledService

#: As long as `flows.fail` takes a reason, and `flows.mark` the name of a service.
MAX_REASON: Final = 512
MAX_SERVICE: Final = 128
MAX_REST_MS: Final = 86_400_000

_code: Final = re.compile(r"[A-Z]+(?:_[A-Z]+)+(?=$|:)").match


class Failing(TypedDict):
    """Keyword arguments of `flows.fail`: `fail(engine, job_id, attempt_id, node_id, epoch, **words)`."""

    reason: str
    overloaded: bool
    retry_after_ms: int


def failing(message: JobNack | JobResult | DoneRequest | FailRequest) -> Failing:
    """What a node's "no" comes to. `NODE_OVERLOADED`, as the code or in front of the reason, costs no try."""
    if isinstance(message, JobResult):
        code, text = _of_result(message)
        reason, after_ms = ": ".join(part for part in (code, text) if part), None
    else:
        reason, after_ms = message.reason or "", message.retry_after_ms
    return Failing(
        reason=cut(reason or "the node did not say why", MAX_REASON),
        overloaded=_code_in(reason) == "NODE_OVERLOADED",
        retry_after_ms=min(after_ms or 0, MAX_REST_MS),
    )


def service_types(installed: list[InstalledService] | None) -> dict[str, str]:
    """Of which type each service of a node is, as far as it says so."""
    kinds = {one.service_id: (one.type or "").lower() for one in installed or () if one.service_id}
    return {name: kind for name, kind in kinds.items() if kind in SERVICES}


def missing_service(
    message: JobNack | JobResult | NodeError | DoneRequest | FailRequest, types: Mapping[str, str] | None = None
) -> tuple[str, str] | None:
    """The service and its type that the marker is told of; None unless the message says `MODEL_NOT_AVAILABLE`.

    The service is `details.service_id`, of the type that `types` knows or `details.service_type` says; if neither is
    known, it is the whole node. Details may be anything: only an object has names.
    """
    details: Any
    if isinstance(message, JobResult):
        code, details = _of_result(message)[0], message.error.details if message.error else None
    elif isinstance(message, NodeError):
        code, details = message.code, message.details
    else:
        code, details = _code_in(message.reason or ""), message.details if isinstance(message, JobNack) else None
    if code != "MODEL_NOT_AVAILABLE":
        return None
    named = details if isinstance(details, dict) else {}
    service, kind = named.get("service_id"), named.get("service_type")
    name = cut(service, MAX_SERVICE) if isinstance(service, str) else ""
    known = (types or {}).get(name) or (kind.lower() if isinstance(kind, str) else "")
    return (name, known) if known in SERVICES else (name, "")


def _of_result(message: JobResult) -> tuple[str, str]:
    error = message.error
    return ("", "") if error is None else (error.code or "", error.message or "")


def _code_in(reason: str) -> str:
    found = _code(reason)
    return found[0] if found else ""
