"""Broken infrastructure, as exceptions. A business "no" is not here: it is a value, see `refusal`.

LinguaError
├── DependencyDown    nothing was changed, the state engine cannot serve now        retry
├── OutcomeUnknown    a write was sent, but no reply came: it may have happened     resend, same op id
├── ScriptFailed      a script died: a bug of ours, or foreign data under our keys  report
├── EngineUnfit       no engine can be used by that URL, or not as it is set up      change what it says
├── EngineMissing     there is no valkey-server or redis-server to start            install
├── EngineFailed      the embedded engine was started and did not come up           read its log
└── NameTaken         another process serves under this name                        give each its own
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lingua_scheduler.core.letter import Presence


class LinguaError(Exception):
    """The root of everything that this package raises on purpose."""

    code = "INTERNAL"
    retryable = False


class DependencyDown(LinguaError):
    """The state engine cannot serve, and this call changed nothing. `reason` tells the cases apart."""

    code = "SCHEDULER_DEPENDENCY_DOWN"
    retryable = True

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"the state engine cannot serve ({reason}): {detail}")
        self.reason = reason
        self.detail = detail


class OutcomeUnknown(LinguaError):
    """The call was a write, and its reply was lost. Send it again with the same op id to learn what happened."""

    code = "OUTCOME_UNKNOWN"
    retryable = True

    def __init__(self, detail: str, request_id: str = "") -> None:
        super().__init__(detail)
        #: Of a job that was submitted: the id to send it again with.
        self.request_id = request_id


class ScriptFailed(LinguaError):
    """The engine ran into an error inside one of our scripts."""


class EngineUnfit(LinguaError):
    """The engine's URL cannot be used, or the engine there must be set up differently; the message says how."""


class EngineMissing(LinguaError):
    """No engine binary was found on this machine."""


class EngineFailed(LinguaError):
    """The embedded engine did not start or did not answer."""


class NameTaken(LinguaError):
    """Another process is there under the name of this instance; the message says which."""

    def __init__(self, other: Presence) -> None:
        where = f"process {other.pid} on {other.host}, {other.url}"
        super().__init__(f"another process serves as instance {other.instance} ({where}): give each a name of its own")
        self.other = other
