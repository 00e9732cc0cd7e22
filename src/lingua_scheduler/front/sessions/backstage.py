"""Everything that a session asks of the engine and of the nodes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.audio_ref import audio_ref_of
from lingua_scheduler.core.errors import LinguaError, OutcomeUnknown
from lingua_scheduler.core.ids import MAX_ID_LENGTH
from lingua_scheduler.core.job_state import LIVE_STATES
from lingua_scheduler.core.new_ids import new_job_id
from lingua_scheduler.core.owner import instance_of
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.replay import FORGOTTEN, Missing
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.drop_session import drop_session
from lingua_scheduler.flows.enter_session import enter_session
from lingua_scheduler.flows.erase_audio import erase_audio
from lingua_scheduler.flows.keep_heard import keep_heard
from lingua_scheduler.flows.rates import MAX_TOKENS
from lingua_scheduler.flows.release import release
from lingua_scheduler.flows.save_session import save_session
from lingua_scheduler.flows.store_audio import store_audio
from lingua_scheduler.flows.take_session import take_session
from lingua_scheduler.front.ask import Ask
from lingua_scheduler.front.assignment import Assignment
from lingua_scheduler.front.sessions.results import Ways, missing_result, read_result, translation_result, tts_ref_of
from lingua_scheduler.front.sessions.saver import SessionTaken
from lingua_scheduler.front.sessions.state import Saved, pack_state, unpack_state
from lingua_scheduler.protocol.errors import missing_reason
from lingua_scheduler.protocol.options import full_pipeline, limits_of, wanted_of
from lingua_scheduler.views.audio import read_audio
from lingua_scheduler.views.instance import read_instance
from lingua_scheduler.views.job import read_job
from lingua_scheduler.views.node import read_node
from lingua_scheduler.views.pairing import read_pairing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.core.replay import Event
    from lingua_scheduler.flows.admit import Admitted
    from lingua_scheduler.flows.take_session import Taken
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.sessions.effects import Number, Submit
    from lingua_scheduler.front.sessions.rules import SessionRules
    from lingua_scheduler.front.sessions.said import Said
    from lingua_scheduler.front.sessions.saver import Change
    from lingua_scheduler.front.sessions.state import About, Sent
    from lingua_scheduler.protocol.session import MissingResult, TranslationResult


#: A beat that comes so much later than it should is overdue.
_LATE_MS: Final = 1_000


class Seen(msgspec.Struct, frozen=True):
    """How a job is: its state, None if there is none; and until when its node or that one's instance has a grace.

    `job_id`: by which it is known where it is.
    """

    state: str | None
    grace_until_ms: int = 0
    job_id: str = ""


class Backstage:
    """Nothing here knows a session's phase, and nothing here waits for a client."""

    def __init__(self, desk: Desk, rules: SessionRules) -> None:
        self._desk = desk
        self._engine = desk.engine
        self._rules = rules
        said = desk.settings.instance
        #: A presence that lasts no longer than this should have been renewed by now.
        self._overdue_ms = max(0, said.presence_ttl_ms - said.presence_beat_ms - _LATE_MS)

    async def admits(self, principal: str) -> Admitted | Refusal:
        """Whether somebody may have one more session."""
        return await self._desk.buckets.admit_session(principal)

    async def paired(self, code: str, principal: str, client: str) -> str | Refusal:
        """The node that a pairing code stands for, unless too many codes were tried."""
        admitted = await self._desk.buckets.admit_guess(principal, client)
        if isinstance(admitted, Refusal):
            return admitted
        pairing = await read_pairing(self._engine, code)
        return pairing if isinstance(pairing, Refusal) else pairing.node_id

    # The session itself.

    async def save(
        self, saved: Saved, owner: str, change: Change | None = None, *, create: bool, opened_ms: int
    ) -> Refusal | None:
        """Save the state, if it is still this owner's, and what has changed of its audio."""
        about = saved.about
        said: dict[str, Any] = {
            "ttl_ms": self._rules.state_ttl_ms,
            "principal": about.principal,
            "token": about.token_hash,
            "next_index": saved.next_index,
            "create": create,
            "opened_ms": opened_ms,
        }
        engine, session_id, state = self._engine, about.session_id, pack_state(saved)
        if change is None or not (change.audio or change.start):
            answer = await save_session(engine, session_id, owner, state, **said, is_silent=change is not None)
        elif not change.audio:
            answer = await save_session(engine, session_id, owner, state, **said, front=change.front, size=change.start)
        else:
            said |= {"front": change.front, "start": change.start, "audio": change.audio}
            answer = await keep_heard(engine, session_id, owner, state, **said)
        return answer if isinstance(answer, Refusal) else None

    async def take(
        self, session_id: str, owner: str, principal: str, token_hash: str, opened_ms: int
    ) -> tuple[Saved, Taken] | Refusal | None:
        """Go on with a session: its state, and what else there is of it. None: it is of another version."""
        taken = await take_session(
            self._engine,
            session_id,
            owner,
            ttl_ms=self._rules.order.window_ms,
            principal=principal,
            token=token_hash,
            opened_ms=opened_ms,
        )
        if isinstance(taken, Refusal):
            return taken
        saved = unpack_state(taken.state)
        return None if saved is None else (saved, taken)

    async def tell_last_owner(self, session_id: str, owner: str) -> None:
        """Whoever had the session hangs up on its client."""
        await self._desk.neighbours.tell_owner(session_id, owner)

    async def drop(self, session_id: str, owner: str) -> None:
        """The session is over."""
        await drop_session(self._engine, session_id, owner)

    # Its utterances.

    async def enter(self, about: About, number: Number, owner: str) -> int | Refusal:
        """One more utterance: whether it may come, and its number, which is never below what was given before."""
        buckets, name = self._desk.buckets, about.principal
        if buckets.spend(name):
            return await self._enter(about, number, owner)
        admitted, index = await asyncio.gather(buckets.admit_job(name), self._enter(about, number, owner))
        return admitted if isinstance(admitted, Refusal) else index

    async def _enter(self, about: About, number: Number, owner: str) -> int | Refusal:
        rules = self._rules
        # Its own bucket has let it in when it was said, and told its client by that when to go on. Here it is counted
        # when it has its turn: whoever waited as long as he was told must not be refused because the last one was late.
        burst = min(rules.burst + rules.rate_per_s, MAX_TOKENS)
        entered = await enter_session(
            self._engine,
            about.session_id,
            about.principal,
            utterance_index=number.index,
            at_least=number.at_least,
            rate=rules.rate_per_s,
            burst=burst,
            ttl_ms=rules.state_ttl_ms,
            owner=owner,
        )
        return entered if isinstance(entered, Refusal) else entered.utterance_index

    def new_job_id(self, maker: str, said: Said | None) -> str:
        """For a job that is to be: in the cell in which it will be tried first."""
        direction = None if said is None else said.direction
        cell = self._desk.directory.first
        if direction is not None:
            cell = self._desk.submitter.routes.begin_at(direction.pair.src, direction.pair.tgt)
        return new_job_id(cell, maker, self._desk.instance_id)

    async def place(
        self, about: About, submit: Submit, enters: Callable[[], Awaitable[None]], waits: Callable[[], None]
    ) -> str | Refusal:
        """Store the audio and place the job; its id where it went. `waits` is told if it must wait.

        What is not placed leaves nothing.

        Whoever is cancelled meanwhile, or not told how it went (`OutcomeUnknown`), leaves the job, if there is one, as
        it is: to `withdraw`, or to `carry` for another owner. `enters` is called when all is ready, and may raise.
        """
        said, ref = submit.said, self._audio_ref(submit.job_id)
        limits = limits_of(said.options, self._rules.job)
        stored = await store_audio(
            self._engine,
            ref,
            said.audio,
            owner=about.principal,
            media=said.audio_format,
            ttl_ms=limits.timeout_ms + self._rules.audio_ttl_ms,
        )
        if isinstance(stored, Refusal):
            return stored
        direction = said.direction
        assert direction is not None  # noqa: S101 - what has none was refused
        ask = Ask(
            session_id=about.session_id,
            src_lang=direction.pair.src,
            tgt_lang=direction.pair.tgt,
            limits=limits,
            wanted=wanted_of(said.options, said.services, two_way=direction.two_way, wait_ms=self._rules.wait_ms),
            bind_key=said.bind_key,
        )

        async def number(_job_id: str) -> int:
            # No part of the ask: nobody had it before, so there is nothing to remember of where it went.
            await enters()
            return submit.index

        try:
            submitted = await self._desk.delivery.place(
                ask,
                assignment_of(said, ref),
                said.audio,
                trace_id=said.trace_id,
                parent=said.traceparent,
                enters=number,
                new_id=submit.job_id,
                waits=waits,
            )
        except OutcomeUnknown:
            raise
        except SessionTaken:
            await self._erase_unplaced(submit.job_id)
            raise
        except LinguaError:
            await self._erase(ref)
            raise
        if isinstance(submitted, Refusal):
            await self._erase(ref)
            return submitted
        return submitted.job_id

    def _audio_ref(self, job_id: str) -> str:
        return audio_ref_of(job_id, self._desk.directory.first)

    async def _erase(self, ref: str) -> None:
        """If the engine is away it goes by itself."""
        with contextlib.suppress(LinguaError):
            await erase_audio(self._engine, ref)

    async def _erase_unplaced(self, job_id: str) -> None:
        """Unless whoever goes on with the session has placed the very same job, because its client said it again."""
        with contextlib.suppress(LinguaError):
            if isinstance(await read_job(self._engine, job_id), Refusal):
                await self._erase(self._audio_ref(job_id))

    async def cancel(self, job_id: str) -> None:
        """Nobody waits for this job any more."""
        await cancel(self._engine, job_id, "its client waits no longer")

    async def carry(self, job_id: str) -> None:
        """Another owner waits for a job of which nobody knows whether it was placed: if it was, its node must hear."""
        await self._desk.delivery.carry_again(job_id, 1)

    async def withdraw(self, job_id: str) -> None:
        """The same for one whose placing was cancelled, or told nobody how it went: whatever came of it is undone."""
        await self.cancel(job_id)
        await erase_audio(self._engine, self._audio_ref(job_id))

    async def release(self, job_id: str, speech_ref: str | None) -> None:
        """Erase what was said, what came of it, and the audio of both: where that is, its result says."""
        if speech_ref is None:
            job = await read_job(self._engine, job_id)
            speech_ref = "" if isinstance(job, Refusal) else _own_speech(job.ticket.job, read_result(job) or {})
        await self._release(job_id)
        for ref in (self._audio_ref(job_id), speech_ref):
            if ref:
                await erase_audio(self._engine, ref)

    async def _release(self, job_id: str) -> None:
        """Whoever releases a job does not want it, also if it has not ended yet."""
        released = await release(self._engine, job_id)
        if isinstance(released, Refusal) and released.code == "NOT_ENDED":
            await self.cancel(job_id)
            await release(self._engine, job_id)

    async def look(self, job_id: str) -> Seen:
        """How a job is."""
        job = await read_job(self._engine, job_id)
        if isinstance(job, Refusal):
            return Seen(None)
        if job.record.state not in LIVE_STATES:
            return Seen(job.record.state, 0, job.ticket.job)
        node_id = job.record.node
        node = await self._desk.directory.at_home(node_id, lambda cell: read_node(self._engine, cell, node_id))
        if isinstance(node, Refusal):
            return Seen(job.record.state, 0, job.ticket.job)
        grace_ms = node.record.away_until_ms or await self._missed_until_ms(instance_of(node.profile.connection))
        return Seen(job.record.state, grace_ms, job.ticket.job)

    async def _missed_until_ms(self, instance_id: str) -> int:
        """Until when an instance may yet be heard of whose beat is overdue; 0: it is not.

        One whose presence is over is overdue until somebody has found that out, which gives its nodes their grace.
        """
        if instance_id in {"", self._desk.instance_id}:
            return 0
        seen = await read_instance(self._engine, instance_id)
        left_ms = 0 if isinstance(seen, Refusal) else seen.left_ms
        if left_ms > self._overdue_ms:
            return 0
        return self._desk.clock() + max(left_ms, self._rules.look_closely_ms)

    async def answer(
        self, about: About, event: Event, sent: Sent | None, now_ms: int, way_ms: int | None
    ) -> TranslationResult | MissingResult:
        """What goes out, with its text and its speech. What was kept for too long is missing.

        `way_ms`: how long it will take to the client, if that is known.
        """
        if isinstance(event.outcome, Missing):
            return missing_result(about, event, sent, event.outcome.reason)
        job = await read_job(self._engine, event.outcome.body.decode())
        result = None if isinstance(job, Refusal) else read_result(job)
        if isinstance(job, Refusal) or result is None:
            return missing_result(about, event, sent, FORGOTTEN)
        if job.record.state != "FINISHED":
            return missing_result(about, event, sent, missing_reason(job.record.state))
        ref = _own_speech(job.ticket.job, result)
        if sent is not None:
            sent.speech_ref = ref
        link = self._desk.links.get(job.record.node)
        ways = Ways(way_ms, link.way_ms if link else None)
        with self._desk.delivery.tracing.during("answer", job.ticket.trace, job.ticket.job):
            return translation_result(about, event, sent, job, result, await self._speech(ref), now_ms, ways)

    async def _speech(self, ref: str) -> bytes:
        audio = await read_audio(self._engine, ref) if ref else None
        return b"" if audio is None or isinstance(audio, Refusal) else audio.audio


def _own_speech(job_id: str, result: dict[str, Any]) -> str:
    """The speech that came of a job. A node may name only what belongs to the job."""
    ref = tts_ref_of(result)
    return ref if ref.startswith(f"{job_id}.") and len(ref) <= MAX_ID_LENGTH else ""


def assignment_of(said: Said, audio_ref: str) -> Assignment:
    """What a node is told of an utterance."""
    direction = said.direction
    assert direction is not None  # noqa: S101 - what has none was refused
    return Assignment(
        src_lang=direction.src_lang,
        tgt_lang=direction.tgt_lang,
        pipeline=full_pipeline(said.services),
        audio_format=said.audio_format,
        sample_rate=said.sample_rate,
        dialect=said.dialect,
        features=said.features,
        mode=direction.mode,
        lang_a=direction.lang_a,
        lang_b=direction.lang_b,
        auto_langs=direction.auto_langs,
        candidates=direction.candidates,
        enable_streaming_asr=said.enable_streaming_asr,
        partial_update_interval_ms=said.partial_update_interval_ms,
        turn_id=said.turn_id,
        is_manual_cut=said.is_manual_cut,
        is_timeout_triggered=said.is_timeout_triggered,
        is_max_duration_triggered=said.is_max_duration_triggered,
        audio_ref=audio_ref,
        has_own_audio=True,
    )
