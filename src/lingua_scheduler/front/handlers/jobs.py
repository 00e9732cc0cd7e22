"""Jobs over HTTP: dispatch, cancel, how one went, and which there are."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.audio_ref import is_own_ref
from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.explain import Explanation
from lingua_scheduler.core.job_state import STATES
from lingua_scheduler.core.new_ids import is_made_by
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.core.ticket import MAX_WAIT_MS, check_language
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.front.ask import Ask
from lingua_scheduler.front.assignment import Assignment
from lingua_scheduler.front.audio import whole_result
from lingua_scheduler.front.entry import Entry
from lingua_scheduler.front.hearing import Finished
from lingua_scheduler.front.paging import CURSOR, LIMIT, asked_page
from lingua_scheduler.front.prefer import preferred_wait_ms
from lingua_scheduler.front.web import Query, Reply, Route
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.fields import cut
from lingua_scheduler.protocol.http import (
    CancelRequest,
    DispatchAnswer,
    DispatchRequest,
    StateAnswer,
    read_cancel,
    read_dispatch,
)
from lingua_scheduler.protocol.job import JobAnswer, JobsAnswer, job_answer, job_summary
from lingua_scheduler.protocol.options import full_pipeline, limits_of, services_of, wanted_of
from lingua_scheduler.views.explain import explain_job
from lingua_scheduler.views.job import read_job
from lingua_scheduler.views.jobs import JobsWanted, read_jobs

if TYPE_CHECKING:
    from lingua_scheduler.core.records import Ticket
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request, Said
    from lingua_scheduler.views.job import Job

#: An answer for which somebody was ready to wait is nothing to keep either.
_WAITED: Final = (("cache-control", "no-store"), ("preference-applied", "wait"))


async def dispatch_job(desk: Desk, request: Request) -> Said:
    """Place a job. The answer comes when it has its node. Of a job that exists already: where it is."""
    said: DispatchRequest = request.message
    name, trace_id = request.principal.name, said.trace_id or request.trace_id
    options, limits = said.options, limits_of(said.options, desk.limits)
    src_lang, tgt_lang = check_language("src_lang", said.src_lang), check_language("tgt_lang", said.tgt_lang)
    services = services_of(None, options)
    assignment = Assignment(
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        pipeline=full_pipeline(services),
        audio_ref=said.audio_ref,
        has_own_audio=is_own_ref(said.audio_ref),
        payload=said.payload,
    )
    ask = Ask(
        session_id=said.session_id,
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        utterance_index=said.utterance_index,
        limits=limits,
        wanted=wanted_of(options, services),
        bind_key=(options.bind_key if options else None) or "",
    )
    entry = Entry(desk, name, said, limits, trace_id)
    try:
        submitted = await desk.delivery.place(
            ask,
            assignment,
            principal=name,
            request_id=said.request_id or "",
            trace_id=trace_id,
            enters=entry.enter,
            waits=partial(desk.waits, request),
            parent=request.given.get(b"traceparent", b"").decode("latin-1") or None,
        )
    except DependencyDown:
        await entry.not_made()
        raise
    except BaseException:
        entry.lost()
        raise
    finally:
        desk.has_waited(request)
    if isinstance(submitted, Refusal):
        await entry.refused()
        return submitted
    job_id, placed = submitted.job_id, submitted.placed
    number = entry.number if placed.is_new else None
    if number is None:
        # It may have been made with another trace and another number: by an earlier request, or while it waited.
        ticket = await _ticket_of(desk, job_id)
        if ticket is not None:
            trace_id, number = ticket.trace, ticket.utterance
    await entry.placed(job_id, number, trace_id)
    answer = DispatchAnswer(job_id=job_id, node_id=placed.node_id, attempt_id=placed.attempt_id, trace_id=trace_id)
    preferred = request.given.get(b"prefer")
    wait_ms = 0 if preferred is None else preferred_wait_ms(preferred)
    return await _ended(desk, request, answer, wait_ms) if wait_ms else answer


async def _ended(desk: Desk, request: Request, answer: DispatchAnswer, wait_ms: int) -> Said:
    """The answer for who preferred to wait: how the job ended; if it goes on after that time, where it was placed.

    That it was placed is true also if the engine goes away meanwhile, and nobody can say more.
    """
    request.has_begun_to_wait = True
    with contextlib.suppress(DependencyDown, OutcomeUnknown):
        found = await desk.hearing.wait_result(answer.job_id, min(wait_ms, MAX_WAIT_MS), desk.is_closing)
        answer = await _told(desk, answer, found)
    return Reply(encode(answer), headers=_WAITED)


async def _told(desk: Desk, answer: DispatchAnswer, found: Finished | Job | Refusal) -> DispatchAnswer:
    """The same answer with what was found out since."""
    job_id = answer.job_id
    if isinstance(found, Finished):
        result = await whole_result(desk.engine, job_id, found.attempt_id, found.result)
        return DispatchAnswer(
            job_id=job_id,
            node_id=found.node_id,
            attempt_id=found.attempt_id,
            trace_id=answer.trace_id,
            state="FINISHED",
            result=msgspec.Raw(result.encode()) if result else None,
        )
    if isinstance(found, Refusal) or not found.record.ended_at_ms:
        return answer
    job = job_answer(found.record, found.ticket, await _result_of(desk, found))
    return DispatchAnswer(
        job_id=job_id,
        node_id=job.node_id or answer.node_id,
        attempt_id=job.attempt_id or answer.attempt_id,
        trace_id=answer.trace_id,
        state=job.state,
        result=job.result,
        error=job.error,
        reason=job.reason,
    )


async def _ticket_of(desk: Desk, job_id: str) -> Ticket | None:
    """What a job was made with. If the engine is away just now it has its node all the same."""
    with contextlib.suppress(DependencyDown, OutcomeUnknown):
        job = await read_job(desk.engine, job_id)
        return None if isinstance(job, Refusal) else job.ticket
    return None


async def cancel_job(desk: Desk, request: Request) -> Said:
    """Nobody wants the result any more."""
    said: CancelRequest = request.message
    if not _may_see(request, said.job_id):
        return refuse("UNKNOWN_JOB", job_id=said.job_id)
    moved = await cancel(desk.engine, said.job_id, cut(said.reason or "cancelled", 512))
    return moved if isinstance(moved, Refusal) else StateAnswer(ok=True, state=moved.state)


async def show_job(desk: Desk, request: Request) -> Said:
    """Everything known of a job; with `wait_ms`, when it has ended."""
    job_id, wait_ms = request.named["job_id"], int(request.query.get("wait_ms", "0"))
    if not _may_see(request, job_id):
        return refuse("UNKNOWN_JOB", job_id=job_id)
    job = await desk.hearing.wait_end(job_id, wait_ms, desk.is_closing)
    if isinstance(job, Refusal):
        return job
    result = await _result_of(desk, job)
    return job_answer(job.record, job.ticket, result, internals=request.principal.is_admin)


async def _result_of(desk: Desk, job: Job) -> str:
    return await whole_result(desk.engine, job.ticket.job, job.record.attempt, job.result)


async def list_jobs(desk: Desk, request: Request) -> Said:
    """A page of jobs: those under way, then those that have ended, the newest first, to within some seconds.

    A search looks at a bounded number of them for each page: one with a cursor may have found nothing, or not all.
    """
    query = request.query
    cursor, limit = asked_page(query)
    found = await read_jobs(
        desk.engine,
        desk.directory.cells,
        JobsWanted(
            job=query.get("job", ""),
            session=query.get("session", ""),
            node=query.get("node", ""),
            pair=query.get("pair", ""),
            state=query.get("state", ""),
            words=query.get("q", ""),
        ),
        text_ttl_ms=desk.result_ttl_ms,
        cursor=cursor,
        limit=limit,
    )
    if isinstance(found, Refusal):
        return found
    jobs = [job_summary(one.record, one.ticket) for one in found.jobs]
    return JobsAnswer(jobs=jobs, cursor=found.cursor)


def _may_see(request: Request, job_id: str) -> bool:
    """A job is seen by whoever made it, and by those who see everything."""
    return request.principal.is_admin or is_made_by(job_id, request.principal.name)


async def explain(desk: Desk, request: Request) -> Said:
    """Why a job went where it went, attempt by attempt; with `nodes`, also who could take it now."""
    query = request.query
    return await explain_job(
        desk.engine,
        request.named["job_id"],
        desk.directory.cells,
        nodes=query.get("nodes") == "true",
        cursor=query.get("cursor", ""),
        count=int(query.get("limit", "200")),
    )


ROUTES: Final = (
    Route(
        "POST",
        "/v1/dispatch/f2f",
        "session",
        dispatch_job,
        "Place a job.",
        answers=DispatchAnswer,
        reads=read_dispatch,
        headers=(Query("prefer", "`wait=SECONDS`: answer when the job has ended, at the latest after this."),),
        begins=True,
        walks=True,
        refuses=(
            "NO_CAPABLE_NODE",
            "ALL_CANDIDATES_FULL_OR_FAILED",
            "PREFERRED_NODE_NOT_CAPABLE",
            "PREFERRED_NODE_UNAVAILABLE",
            "IDEMPOTENCY_CONFLICT",
            "RATE_LIMITED",
            "UNKNOWN_AUDIO",
        ),
        tag="jobs",
    ),
    Route(
        "POST",
        "/v1/job/cancel",
        "session",
        cancel_job,
        "Nobody wants the result any more. Of a job that has ended: its state.",
        answers=StateAnswer,
        reads=read_cancel,
        refuses=("UNKNOWN_JOB",),
        tag="jobs",
        act="cancel",
        acts_on="job_id",
    ),
    Route(
        "GET",
        "/v1/job/{job_id}",
        "session",
        show_job,
        "Everything known of a job.",
        answers=JobAnswer,
        query=(Query("wait_ms", "Answer when the job has ended, at the latest after this.", int, most=MAX_WAIT_MS),),
        refuses=("UNKNOWN_JOB",),
        tag="jobs",
    ),
    Route(
        "GET",
        "/v1/jobs",
        "admin",
        list_jobs,
        "A page of jobs, the newest first.",
        answers=JobsAnswer,
        query=(
            LIMIT,
            CURSOR,
            Query("q", "Words, each of which is the beginning of its id, its session, a node, its pair or its state."),
            Query("job", "Only those whose id begins so."),
            Query("session", "Only those of this session."),
            Query("node", "Only those that this node has or had."),
            Query("pair", "Only those of this pair, like `en:zh`."),
            Query("state", f"Only those in this state: {', '.join(STATES)}."),
        ),
        tag="jobs",
    ),
    Route(
        "GET",
        "/v1/job/{job_id}/explain",
        "admin",
        explain,
        "Why a job went where it went.",
        answers=Explanation,
        query=(
            Query("nodes", "Also who could take it now.", bool),
            Query("cursor", "Where the last page of nodes ended."),
            Query("limit", "How many nodes on a page.", int, least=1, most=1_000),
        ),
        refuses=("UNKNOWN_JOB",),
        tag="jobs",
    ),
)
