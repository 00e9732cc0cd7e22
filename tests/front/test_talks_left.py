"""What becomes of an utterance that is still being placed when its session ends here, or nobody waits for it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.audio_ref import audio_ref_of
from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.socket import RETURN_MS
from lingua_scheduler.views.audio import read_audio
from lingua_scheduler.views.cell import read_cell
from tests.support.doors import PATIENCE_S
from tests.support.meddling import hold_back
from tests.support.people import SILENCE
from tests.support.talks import client, keep, node, open_instance, outcomes, translate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.front.sessions.saver import Change
    from lingua_scheduler.front.sessions.session import Session
    from lingua_scheduler.front.sessions.state import Saved
    from tests.support.doors import Open
    from tests.support.servers import Server
    from tests.support.talks import Client


@pytest.fixture
async def instance(server: Server) -> AsyncIterator[Open]:
    async with open_instance(server.url, sessions__wait_ms=20_000) as opened:
        yield opened


def session_of(instance: Open, ann: Client) -> Session:
    session = instance.desk.sessions.get(ann.session_id)
    assert session is not None
    return session


async def states(instance: Open) -> dict[str, str]:
    cell = await read_cell(instance.desk.engine, instance.desk.directory.first)
    assert isinstance(cell, Cell)
    return {job_id: job.state for job_id, job in cell.jobs.items()}


@pytest.mark.parametrize("stops", [False, True])
async def test_what_waits_for_a_slot_goes_on_waiting_for_whoever_goes_on(instance: Open, stops: bool) -> None:
    """Whether the session was taken over, or its instance stops and gives up all that is under way."""
    async with node(instance, answer=keep, slots=1) as n1:
        async with client(instance) as ann:
            await ann.begin()
            await ann.utter(0)
            first = await n1.job()
            await ann.utter(1)
            await ann.until("backpressure")
            if stops:
                await instance.desk.sessions.close()
                assert len(instance.desk.sessions.background) == 0
            else:
                session_of(instance, ann).replaced()
            assert await ann.closed() == (1012 if stops else 4409)
        assert "WAITING" in (await states(instance)).values()
        async with client(instance) as again:
            await again.begin(resume_token=ann.token, last_event_id=0)
            await n1.result(first, **translate(first))
            second = await n1.job()
            assert second["audio"]
            await n1.result(second, **translate(second))
            assert outcomes(await again.answers(2)) == [(0, "meant 0"), (1, "meant 1")]


async def is_gone(instance: Open, job_id: str) -> None:
    """Until there is no such job."""
    async with asyncio.timeout(PATIENCE_S):
        while job_id in await states(instance):  # noqa: ASYNC110 - only the engine knows
            await asyncio.sleep(0.01)


async def is_erased(instance: Open, job_id: str) -> None:
    """Until nothing is left of what was said."""
    async with asyncio.timeout(PATIENCE_S):
        while not isinstance(await read_audio(instance.desk.engine, audio_ref_of(job_id, "c0")), Refusal):  # noqa: ASYNC110 - only it knows
            await asyncio.sleep(0.01)


async def test_what_waited_in_vain_while_nobody_had_its_session_is_told_as_that(server: Server) -> None:
    """Its instance stopped, its wait ended, and then its client came back: it is not lost, there was no room."""
    quick = open_instance(server.url, sessions__wait_ms=200)
    async with quick as instance, node(instance, answer=keep, slots=1) as n1:
        async with client(instance) as ann:
            await ann.begin()
            await ann.utter(0)
            first = await n1.job()
            await ann.utter(1)
            await ann.until("backpressure")
            (waits,) = [job_id for job_id, state in (await states(instance)).items() if state == "WAITING"]
            await instance.desk.sessions.close()
            assert await ann.closed() == 1012
        await is_gone(instance, waits)
        async with client(instance) as again:
            await again.begin(resume_token=ann.token, last_event_id=0)
            assert (await again.until("error"))["error"] == "NO_AVAILABLE_NODE"
            await n1.result(first, **translate(first))
            assert outcomes(await again.answers(2)) == [(0, "meant 0"), (1, "no_available_node")]
            await is_erased(instance, waits)


async def test_what_is_being_placed_when_its_session_is_taken_over_is_the_new_owners(
    instance: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, begun, gate = instance.desk.delivery.place, asyncio.Event(), asyncio.Event()

    async def slowly(*args: Any, **named: Any) -> Any:
        begun.set()
        await gate.wait()
        return await place(*args, **named)

    monkeypatch.setattr(instance.desk.delivery, "place", slowly)
    async with node(instance), client(instance) as ann, client(instance) as again:
        await ann.begin()
        await ann.utter(0)
        await begun.wait()
        session_of(instance, ann).replaced()
        await again.begin(resume_token=ann.token, last_event_id=0)
        gate.set()
        assert outcomes(await again.answers(1)) == [(0, "meant 0")]
        assert not ann.all("error"), "nobody tells the old client how it went"


async def test_what_its_old_owner_cannot_be_told_of_is_the_new_owners(
    instance: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job exists, and the answer that says so is lost after the session was taken over."""
    gate = asyncio.Event()
    async with node(instance) as n1, client(instance) as ann, client(instance) as again:
        await ann.begin()
        executed = hold_back(monkeypatch, instance.desk.engine, "dispatch", gate, loses=True)
        await ann.utter(0)
        await executed.wait()
        session_of(instance, ann).replaced()
        await again.begin(resume_token=ann.token, last_event_id=0)
        gate.set()
        assert outcomes(await again.answers(1)) == [(0, "meant 0")]
        assert (await n1.job())["audio"]


async def test_what_a_client_cannot_be_told_of_is_missing_and_leaves_nothing(
    instance: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    gate.set()
    async with node(instance, answer=keep), client(instance) as ann:
        await ann.begin()
        hold_back(monkeypatch, instance.desk.engine, "dispatch", gate, loses=True)
        await ann.utter(0)
        assert (await ann.until("error"))["error"] == "SCHEDULER_DEPENDENCY_DOWN"
        assert outcomes(await ann.answers(1)) == [(0, "scheduler_dependency_down")]
        ((job_id, _),) = (await states(instance)).items()
        await is_erased(instance, job_id)
        assert await states(instance) == {job_id: "CANCELLED"}


async def test_what_is_given_up_while_it_waits_for_a_slot_leaves_nothing(server: Server) -> None:
    async with (
        open_instance(server.url, sessions__wait_ms=20_000, sessions__gap_ms=300) as instance,
        node(instance, answer=keep, slots=1) as n1,
        client(instance) as bob,
        client(instance) as ann,
    ):
        await bob.begin()
        await bob.utter(0)
        await n1.job()
        await ann.begin()
        await ann.utter(0)
        await ann.until("backpressure")
        (waits,) = [job_id for job_id, state in (await states(instance)).items() if state == "WAITING"]
        assert not isinstance(await read_audio(instance.desk.engine, audio_ref_of(waits, "c0")), Refusal)
        await ann.utter(1, b"")
        assert outcomes(await ann.answers(2))[0] == (0, "gap_timeout")
        await is_erased(instance, waits)
        assert (await states(instance)).get(waits, "CANCELLED") == "CANCELLED"


async def test_what_is_said_to_an_instance_that_stops_can_be_said_again(
    instance: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lay in the socket when the instance began to stop: its number is not taken, for nobody would know of it."""
    async with node(instance), client(instance) as ann:
        await ann.begin()
        session, stage = session_of(instance, ann), instance.desk.sessions.stage
        connection, enter = session.connection, stage.enter
        assert connection is not None
        await session.save()

        async def slowly(*args: Any) -> Any:
            number = await enter(*args)
            while not session.is_over:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0)
            return number

        async def save_last(saved: Saved, _: Change | None, *, create: bool) -> Refusal | None:
            session.hear(connection, json.dumps({"type": "utterance", "utterance_index": 0, "audio": SILENCE}))
            return await stage.save(saved, session.owner, create=create, opened_ms=0)

        monkeypatch.setattr(stage, "enter", slowly)
        monkeypatch.setattr(session._saver, "_put", save_last)
        await instance.desk.sessions.close()
        monkeypatch.undo()
        async with client(instance) as again:
            await again.begin(resume_token=ann.token, last_event_id=0)
            await again.utter(0)
            assert outcomes(await again.answers(1)) == [(0, "meant 0")]


@pytest.mark.parametrize("comes_back", [False, True])
async def test_whoever_comes_in_while_an_instance_begins_to_stop_is_sent_elsewhere(
    server: Server, instance: Open, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    """His socket was open, and nobody waits here for what he would say."""
    async with client(instance) as ann, client(instance) as late:
        await ann.begin()
        session_of(instance, ann).replaced()
        stage = instance.desk.sessions.stage
        name = "take" if comes_back else "admits"
        asked = getattr(stage, name)

        async def just_then(*args: Any) -> Any:
            instance.desk.is_draining.set()
            return await asked(*args)

        monkeypatch.setattr(stage, name, just_then)
        refused = await late.begin(**({"resume_token": ann.token} if comes_back else {}))
        assert (refused["error"], refused["retry_after_ms"] >= RETURN_MS) == ("SHUTTING_DOWN", True)
        assert await late.closed() == 1012
    async with open_instance(server.url) as other, client(other) as again:
        other.desk.engine.prefix = instance.desk.engine.prefix
        assert (await again.begin(resume_token=ann.token))["session_id"] == ann.session_id
