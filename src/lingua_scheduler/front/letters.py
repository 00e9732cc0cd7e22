"""What other instances write to this one, and who must hear of it.

Letters come at least once, and perhaps late: each is checked against what the engine says, or says only what was true
anyway. One that was meant for an instance that is gone is handled by whoever took over its inbox, in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.core.letter import UnknownKind
from lingua_scheduler.core.records import Event, Given
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.front.nodes.links import COMMANDS
from lingua_scheduler.logs import get_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.core.letter import Letter
    from lingua_scheduler.front.desk import Desk

log = get_log(__name__)


class Letters:
    """The one reader."""

    def __init__(self, desk: Desk, tell_submitter: Callable[[Event], None], keep_nodes: Callable[[], None]) -> None:
        """`keep_nodes`: beat for every open socket, soon."""
        self._desk = desk
        self._tell_submitter = tell_submitter
        self._keep_nodes = keep_nodes

    async def hear(self, letter: Letter) -> None:
        """Do what a letter asks for. What raises comes back."""
        desk, node_id = self._desk, letter.node
        match letter.kind:
            case "carry":
                await desk.delivery.carry_again(letter.job, letter.attempt, afresh=True)
            case "ended" | "refused":
                self._tell_submitter(_event(letter))
                await desk.hearing.hear_end(_event(letter), by_letter=True)
            case "reserved":
                self._tell_submitter(_event(letter))
            case "fenced":
                desk.neighbours.forget_holder(node_id, "")
                await desk.hearing.stop(_event(letter))
            case "lost" | "cut_off":
                desk.neighbours.forget_holder(node_id, letter.detail)
                await desk.hearing.hang_up(Event(letter.kind, "", 0, node_id, letter.detail, "", 0))
            case "replaced":
                self._replaced(letter)
            case "orphaned":
                self._keep_nodes()
            case "taken" | "adopt" | "withdraw":
                await self._tell_session(letter)
            case "control" | "log_level":
                self._obey(letter)
            case _:
                raise UnknownKind(f"this release knows no letters of the kind {letter.kind}")

    def _replaced(self, letter: Letter) -> None:
        """A newer connection speaks for the node. If it is elsewhere, so is what becomes of its errands."""
        links = self._desk.links
        links.replace(letter.node, letter.detail)
        if links.get(letter.node) is None:
            self._desk.delivery.errands.drop_node(letter.node)

    async def _tell_session(self, letter: Letter) -> None:
        """It was taken over; or somebody submits a job for it, which nobody here sees being placed, or was refused."""
        sessions = self._desk.sessions
        if letter.kind == "taken":
            await sessions.taken(letter.session, letter.detail)
            return
        index, timeout_ms = (int(word) for word in letter.detail.split(" "))
        if letter.kind == "withdraw":
            sessions.withdraw(letter.session, index, letter.job)
        else:
            # Also if it is not here: it may be on its way here.
            self._adopt(letter, Given(index, letter.job, letter.trace, timeout_ms))
        if sessions.get(letter.session) is None:
            await self._desk.neighbours.tell_session_of(letter)

    def _adopt(self, letter: Letter, given: Given) -> None:
        """What has no turn any more when it is told of cannot be told in order: whoever submitted it has its end."""
        refusal = self._desk.sessions.adopt_late(letter.session, given)
        if refusal is not None:
            log.warning(
                "adopt",
                job_id=letter.job,
                session_id=letter.session,
                trace_id=letter.trace,
                reason=refusal.detail,
                detail="its end is told to whoever submitted it, and not in the session",
            )

    def _obey(self, letter: Letter) -> None:
        """What the operator wants. If the node has moved again, it is told when it registers."""
        if letter.kind == "log_level":
            self._set_level(*letter.detail.split(" ", 3))
            return
        link, command = self._desk.links.get(letter.node), COMMANDS.get(letter.detail)
        if link is not None and command is not None:
            link.control(command)

    def _set_level(self, module: str, level: str, seconds: str, who: str = "") -> None:
        """What is no module here, as one of another release, is none the next time either: that is said once."""
        try:
            self._desk.levels.set(module, level, float(seconds) or None, who)
        except Invalid as invalid:
            detail = "another instance was told to set it"
            log.warning("log_level", module_set=module, level_set=level, reason=str(invalid), detail=detail)


def _event(letter: Letter) -> Event:
    """What the letter tells of, as the outbox would tell it."""
    return Event(letter.kind, letter.job, letter.attempt, letter.node, "", letter.detail, 0)
