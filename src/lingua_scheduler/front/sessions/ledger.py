"""What a session owes its client: every utterance that was said, until its one answer is confirmed. No I/O, no clock.

Utterances stand in line for their number, one after the other, so that they are numbered as they were said. From then
on each is expected, and ends once: by its result, by a refusal, by the end of its job, or because others have waited
too long for it. What is refused before it has a number stands in the same line, without its audio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.ids import name_of
from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.order import GAP_TIMEOUT, Order, Settled
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.core.replay import Missing, Result
from lingua_scheduler.front.sessions.effects import (
    Abandon,
    Announce,
    Close,
    Effect,
    Look,
    Number,
    Release,
    Save,
    Submit,
    Write,
)
from lingua_scheduler.front.sessions.hints import Hints
from lingua_scheduler.front.sessions.line import Line
from lingua_scheduler.front.sessions.looks import Looks
from lingua_scheduler.front.sessions.state import Saved, Sent
from lingua_scheduler.protocol.errors import END_CODES, CloseCode, error_message, missing_reason
from lingua_scheduler.protocol.options import limits_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingua_scheduler.core.replay import Outcome
    from lingua_scheduler.front.assignment import Errand
    from lingua_scheduler.front.sessions.rules import SessionRules
    from lingua_scheduler.front.sessions.said import Said
    from lingua_scheduler.front.sessions.state import About
    from lingua_scheduler.protocol.node import NodeAsrPartial

#: Why an utterance is missing of which nobody knows anything any more.
LOST: Final = "lost"
_IN_VAIN: Final = Refusal("ALL_CANDIDATES_FULL_OR_FAILED", "It waited, and no node came to have room.")
_TOO_MANY: Final = "too many utterances without an answer"
#: Whoever asks the engine next would wait as long, and hear the same.
_AWAY: Final = ("SCHEDULER_DEPENDENCY_DOWN", "OUTCOME_UNKNOWN")


class Ledger:
    """Every method says what is to be done; `take` belongs to each change and is called by it."""

    def __init__(self, rules: SessionRules, about: About, now_ms: int) -> None:
        self.rules = rules
        self.about = about
        self.order = Order(rules.order)
        self.sent: dict[int, Sent] = {}
        self.next_index = 0
        self.hints = Hints(about.session_id, rules.backpressure_ms)
        self.away_since_ms: int | None = None
        self.line = Line(rules)
        self._looks = Looks(rules)
        #: Their nodes have them, though it is not known yet that they were placed.
        self._accepted: dict[int, Errand] = {}
        self._save_at_ms = now_ms + rules.save_every_ms

    @classmethod
    def load(cls, rules: SessionRules, saved: Saved, now_ms: int) -> Ledger:
        """Go on with what was saved elsewhere. Whether what was on its way there has its job is to be seen."""
        ledger = cls(rules, saved.about, now_ms)
        ledger.order = Order.load(rules.order, saved.order)
        ledger.order.away(now_ms)
        ledger.away_since_ms = now_ms
        ledger.sent, ledger.next_index = dict(saved.sent), saved.next_index
        for index in ledger.order.awaited:
            known = ledger.sent[index]
            known.looked_ms, known.is_placed = 0, known.is_placed or known.waits
            if not known.is_placed:
                ledger._looks.doubt(index, now_ms)
        return ledger

    def save(self) -> Saved:
        """All that is needed to go on elsewhere."""
        return Saved(about=self.about, order=self.order.save(), sent=self.sent, next_index=self.next_index)

    @property
    def is_settled(self) -> bool:
        """Nobody waits for anything."""
        return not self.line and not self.order.pending

    @property
    def coming_index(self) -> int:
        """The number that the next utterance of a stream will have, unless somebody else takes it."""
        return self.next_index + len(self.line)

    # Saying something.

    def say(self, said: Said, refusal: Refusal | None, now_ms: int) -> list[Effect]:
        """An utterance was said. One that is refused is told so at once; its turn to be missing comes later."""
        if refusal is None and said.index is not None and self._is_unsure(said.index):
            return self._place_again(said.index, said)
        if self._is_full:
            self.line.left += 1
            return [Close(CloseCode.RATE_LIMITED, _TOO_MANY)]
        effects: list[Effect] = []
        if refusal is not None:
            effects.append(Write(error_message(refusal, said.trace_id)))
            said = msgspec.structs.replace(said, audio=b"")
        self.line.stand(said, refusal)
        return effects + self._advance(now_ms)

    def _is_unsure(self, index: int) -> bool:
        """Whether it was said elsewhere, and nobody here knows what came of it."""
        known = self.sent.get(index)
        if known is None or known.is_placed or known.is_foreign:
            return False
        return self.order.awaits(index) and self._looks.is_doubtful(index)

    def _place_again(self, index: int, said: Said) -> list[Effect]:
        """Its client says it once more. It is the same job: if there is one by now, it is found and not made."""
        self._looks.believe(index)
        self.line.goes(index, said)
        return [Submit(index, self.sent[index].job_id, said)]

    def may_place_again(self, index: int, said: Said) -> None:
        """A piece of a stream that was on its way elsewhere: if it has no job, it is placed here, as the same job."""
        if self._is_unsure(index):
            self.line.placing[index] = said

    @property
    def _is_full(self) -> bool:
        """So much is without its answer that whoever goes on is sent away: what he says now is not heard."""
        return len(self.line) + self.order.pending >= self.rules.max_open

    def _advance(self, now_ms: int) -> list[Effect]:
        """Let those go on who stand first in line: the refused at once, one other after it got its number."""
        effects: list[Effect] = []
        for said, refusal in self.line.refused():
            index = self.next_index if said.index is None else said.index
            effects += self._expect(index, said, now_ms, refused=refusal)
        first = self.line.to_ask()
        return effects if first is None else [*effects, Number(first.index, self.next_index)]

    def numbered(self, index: int, job_id: str, now_ms: int) -> list[Effect]:
        """The first in line has its number, and is on its way. Its job has its id before there is the job."""
        return self._expect(index, self.line.take(), now_ms, job_id=job_id) + self._advance(now_ms)

    def found(self, index: int, job_id: str) -> None:
        """The job of this one has another id: it went to another cell than it was made for."""
        known = self.sent.get(index)
        if known is not None and known.job_id and name_of(known.job_id) == name_of(job_id):
            known.job_id = job_id

    def not_numbered(self, refusal: Refusal, now_ms: int) -> list[Effect]:
        """The first in line may not go on; if the engine is away, nobody who stands there may."""
        refused = self.line.refuse(refusal, everybody=refusal.code in _AWAY)
        told: list[Effect] = [Write(error_message(refusal, said.trace_id)) for said in refused]
        return told + self.hints.pressed(refusal, now_ms) + self._advance(now_ms)

    def _expect(
        self, index: int, said: Said, now_ms: int, *, job_id: str = "", refused: Refusal | None = None
    ) -> list[Effect]:
        """From now on the client waits for this one. Only an index that is in use, or is past, makes no utterance."""
        deadline_ms = now_ms + limits_of(said.options, self.rules.job).timeout_ms
        try:
            self.order.expect(index, deadline_ms, now_ms)
        except Invalid as invalid:
            self.line.left += 1
            return [] if refused else [Write(error_message(invalid.refusal, said.trace_id))]
        self.next_index = max(self.next_index, index + 1)
        self.sent[index] = Sent(said.trace_id, said.heard_ms, job_id, web_ms=said.web_ms)
        self.hints.began(index, said.trace_id, said.began_ms)
        if refused is not None:
            missing = Missing(missing_reason(refused.code))
            return [self.hints.error(index, refused.code, now_ms), *self._settle(index, missing, now_ms)]
        self.line.goes(index, said)
        return [Submit(index, job_id, said)]

    def _left(self, index: int) -> None:
        """It is not being placed any more, or nobody waits for that."""
        self.line.went(index)
        self._accepted.pop(index, None)

    # What becomes of it.

    def placed(self, index: int, now_ms: int) -> list[Effect]:
        """It has its job, which may have ended already, or be about to be cancelled.

        One that somebody else submitted may have ended before anybody here knew of it, so it is looked at.
        """
        known, accepted = self.sent.get(index), self._accepted.get(index)
        self._left(index)
        if known is None:
            return []
        known.is_placed, known.waits, known.looked_ms = True, False, now_ms
        if not self.order.awaits(index):
            return []
        effects: list[Effect] = [self.hints.show("DISPATCHED", index, now_ms, job_id=known.job_id)]
        if accepted is not None:
            effects += self.accepted(accepted, now_ms)
        return [*effects, self._look(index, now_ms)] if known.is_foreign else effects

    def adopt(self, index: int, job_id: str, trace_id: str, deadline_ms: int, now_ms: int) -> list[Effect] | Refusal:
        """Somebody else submits a job for this session: its answer comes here too, in its turn. It may not exist yet.

        `Refusal`: there is no turn for its number, which is another's, or is past; or too many wait already.
        """
        if self.has_adopted(index, job_id):
            return []
        if self._is_full:
            return Refusal("RATE_LIMITED", f"The session has {_TOO_MANY}.")
        try:
            self.order.expect(index, deadline_ms, now_ms)
        except Invalid as invalid:
            return invalid.refusal
        self.next_index = max(self.next_index, index + 1)
        self.sent[index] = Sent(trace_id, now_ms, job_id, is_foreign=True)
        self.hints.began(index, trace_id, now_ms)
        return [Save()]

    def has_adopted(self, index: int, job_id: str) -> bool:
        """Whether it waits for this job of somebody else, under this number."""
        known = self.sent.get(index)
        is_it = known is not None and known.is_foreign and name_of(known.job_id) == name_of(job_id)
        return is_it and index in self.order.awaited

    def is_being_placed(self, index: int) -> bool:
        """Whether somebody here is placing it just now, and will say how that went."""
        return index in self.order.awaited and not self._looks.are_for(index, self.sent[index])

    def doubt(self, index: int, now_ms: int) -> list[Effect]:
        """Nobody knows whether it was placed: its job may turn up for a while."""
        if not self.is_being_placed(index):
            return []
        self._looks.doubt(index, now_ms)
        return [self._look(index, now_ms)]

    def withdraw(self, index: int, now_ms: int) -> list[Effect]:
        """What somebody else submitted was refused, and that was told there: here nobody waits for it any more."""
        if index not in self.order.awaited:
            return []
        self._left(index)
        self._looks.believe(index)
        self.order.withdraw(index)
        return [*self._released([index]), *self.take(now_ms)]

    def refused(self, index: int, refusal: Refusal, now_ms: int) -> list[Effect]:
        """It was not accepted: that is told at once, and in its turn that it is missing."""
        self._left(index)
        if not self.order.awaits(index):
            return []
        self.sent[index].job_id = ""
        told: list[Effect] = [
            Write(error_message(refusal, self.sent[index].trace_id)),
            self.hints.error(index, refusal.code, now_ms),
            *self.hints.pressed(refusal, now_ms),
        ]
        return told + self._settle(index, Missing(missing_reason(refusal.code)), now_ms)

    def in_vain(self, index: int, now_ms: int) -> list[Effect]:
        """It waited for a node, and its job is gone. Nobody here was placing it, so its audio is left."""
        if not self.order.awaits(index):
            return []
        if self.sent[index].is_foreign:
            return self.withdraw(index, now_ms)
        return [*_release([self.sent[index]]), *self.refused(index, _IN_VAIN, now_ms)]

    def accepted(self, errand: Errand, now_ms: int) -> list[Effect]:
        """A node has it. That may be heard before it is known that it was placed."""
        known = self._awaited(errand)
        if known is None:
            return []
        if not known.is_placed:
            self._accepted[errand.utterance_index] = errand
            return []
        return [self.hints.show("NODE_ACCEPTED", errand.utterance_index, now_ms, job_id=errand.job_id)]

    def partial(self, errand: Errand, message: NodeAsrPartial, now_ms: int) -> list[Effect]:
        """What was understood so far. Whoever has the answer does not need it."""
        if self._awaited(errand) is None:
            return []
        is_final = message.is_final is True
        return self.hints.partial(errand.utterance_index, errand.job_id, message.text, is_final=is_final, now_ms=now_ms)

    def _awaited(self, errand: Errand) -> Sent | None:
        """The utterance that a node speaks of, if it is one that is awaited, and not another with its number."""
        known = self.sent.get(errand.utterance_index)
        if known is None or name_of(known.job_id) != name_of(errand.job_id):
            return None
        return known if self.order.awaits(errand.utterance_index) else None

    def ended(self, index: int, state: str, now_ms: int) -> list[Effect]:
        """Its job has ended."""
        known = self.sent.get(index)
        if known is None:
            return []
        if state == "FINISHED":
            shown = self.hints.show("NMT_DONE", index, now_ms, job_id=known.job_id)
            return [shown, *self._settle(index, Result(known.job_id.encode()), now_ms)]
        shown = self.hints.error(index, END_CODES.get(state, state), now_ms, job_id=known.job_id)
        return [shown, *self._settle(index, Missing(missing_reason(state)), now_ms)]

    def seen(self, index: int, state: str | None, grace_until_ms: int, now_ms: int) -> list[Effect]:
        """How its job is; None: there is no such job any more. One in a grace keeps others waiting for no gap."""
        if not self.order.awaits(index):
            return []
        if state is None:
            # Whoever looked did so before it was said again here.
            return [] if self.is_being_placed(index) else self._not_there(index, now_ms)
        self._looks.believe(index)
        self._forget_audio(index)
        self.sent[index].is_placed, self.sent[index].waits = True, state == "WAITING"
        if state in ENDS:
            return self.ended(index, state, now_ms)
        self.order.hold(index, grace_until_ms, now_ms)
        return self.take(now_ms)

    def _not_there(self, index: int, now_ms: int) -> list[Effect]:
        """There is no such job: not yet, or never, or not any more. Whoever else submitted one that never was knows."""
        if index in self.line.placing:
            return self._place_again(index, self.line.placing[index])
        if self._looks.may_turn_up(index, now_ms):
            return []
        if self.sent[index].waits:
            return self.in_vain(index, now_ms)
        if self.sent[index].is_foreign and not self.sent[index].is_placed:
            return self.withdraw(index, now_ms)
        return self._settle(index, Missing(LOST), now_ms)

    def _settle(self, index: int, outcome: Outcome, now_ms: int) -> list[Effect]:
        """Its end is known. What is announced is saved before; how a job ended can be seen again, a refusal cannot."""
        self._forget_audio(index)
        if self.order.settle(index, outcome, now_ms) is not Settled.kept:
            return []
        taken = self.take(now_ms)
        must_save = isinstance(outcome, Missing) and not any(isinstance(effect, Announce) for effect in taken)
        return [Save(), *taken] if must_save else taken

    def _forget_audio(self, index: int) -> None:
        """It has, or had, its job: it need not be placed again, unless somebody here is just doing so."""
        if index not in self.line.unplaced:
            self.line.went(index)

    def take(self, now_ms: int) -> list[Effect]:
        """What goes out by now, and what that leaves to be done."""
        taken = self.order.take(now_ms)
        for index in taken.cancel:
            self._left(index)
        effects = self._abandoned(taken.cancel)
        effects += [self.hints.error(index, GAP_TIMEOUT.upper(), now_ms) for index in taken.cancel]
        if taken.events:
            effects.append(Announce(taken.events))
        return effects + self._released(taken.forgotten)

    def _abandoned(self, indexes: list[int]) -> list[Effect]:
        """Nobody here waits for these. Who else submitted one may do so still."""
        return [Abandon(index, self.sent[index].job_id) for index in indexes if not self.sent[index].is_foreign]

    def _released(self, indexes: list[int]) -> list[Effect]:
        """These are confirmed, or kept no longer."""
        gone = [self.sent.pop(index) for index in indexes if index in self.sent]
        self.hints.forget(indexes)
        return [*_release(gone), Save()] if gone else []

    # The client, and time.

    def confirm(self, last_event_id: int | None) -> list[Effect]:
        """The client has all up to this event."""
        return [] if last_event_id is None else self._released(self.order.confirm(last_event_id))

    def away(self, now_ms: int) -> list[Effect]:
        """The client has lost its socket."""
        self.order.away(now_ms)
        self.away_since_ms = now_ms
        return [Save(), *self.take(now_ms)]

    def back(self, last_event_id: int | None, now_ms: int) -> list[Effect]:
        """The client is there again: what it missed."""
        confirmed = [*self._catch_up(last_event_id or 0), *self.confirm(last_event_id)]
        replayed = self.order.back(last_event_id or 0, now_ms)
        self.away_since_ms = None
        effects: list[Effect] = [*confirmed, Save()]
        if replayed.lost_to:
            lost = refuse("INVALID_SESSION")
            detail = f"What went out up to event {replayed.lost_to} is kept no longer."
            effects.append(Write(error_message(msgspec.structs.replace(lost, detail=detail), self.about.trace_id)))
        if replayed.events:
            effects.append(Announce(replayed.events))
        return effects + self.take(now_ms)

    def _catch_up(self, last_event_id: int) -> list[Effect]:
        """What the client heard elsewhere is over, though an engine that failed over may have forgotten it.

        Of what is not even known to have been said, the numbers are past, too.
        """
        caught_up = self.order.catch_up(last_event_id, self.next_index)
        self.next_index = caught_up.next_index
        for index in caught_up.heard:
            self._left(index)
            self._looks.believe(index)
        return [*self._abandoned(caught_up.awaited), *self._released(caught_up.heard)]

    @property
    def window_ends_ms(self) -> int | None:
        """When a client that is away has been away for too long."""
        return None if self.away_since_ms is None else self.away_since_ms + self.rules.order.window_ms

    @property
    def due_ms(self) -> int:
        """When time alone will change something."""
        dues = [self._save_at_ms, self.order.due_ms, self.window_ends_ms]
        dues += self._looks_at_ms().values()
        return min(due for due in dues if due is not None)

    def _looks_at_ms(self) -> dict[int, int]:
        """Which of those that are awaited will be looked at, and when."""
        blocking = self.order.blocking
        looks = ((index, self._looks.at_ms(index, self.sent[index], blocking)) for index in self.order.awaited)
        return {index: at_ms for index, at_ms in looks if at_ms is not None}

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed."""
        effects = self.take(now_ms)
        if now_ms >= self._save_at_ms:
            effects.append(Save())
            self._save_at_ms = now_ms + self.rules.save_every_ms
        awaited = [(index, self.sent[index]) for index in self.order.awaited]
        return effects + [self._look(index, now_ms) for index in self._looks.due(awaited, self.order.blocking, now_ms)]

    def _look(self, index: int, now_ms: int) -> Look:
        self.sent[index].looked_ms = now_ms
        return Look(index, self.sent[index].job_id)

    def look_at_all(self, now_ms: int) -> list[Effect]:
        """Everything may have changed: see what is left."""
        return [self._look(index, now_ms) for index in self._looks_at_ms()]

    def give_up(self) -> list[Effect]:
        """The client will not come back: nobody waits for anything, and nothing is kept."""
        effects = [*self._abandoned(self.order.awaited), *_release(self.sent.values())]
        self.line.clear()
        self.sent.clear()
        return effects


def _release(gone: Iterable[Sent]) -> list[Effect]:
    return [Release(one.job_id, one.is_foreign, one.speech_ref) for one in gone if one.job_id]
