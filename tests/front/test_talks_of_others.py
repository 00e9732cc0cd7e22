"""Sessions and what is not theirs: jobs that others submit for them, and the engine's clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.new_ids import new_job_id
from lingua_scheduler.core.owner import new_connection
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.collect import Letters, collect
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.enter_session import Entered, enter_session
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.flows.save_session import save_session
from lingua_scheduler.front.ask import Ask
from lingua_scheduler.front.assignment import Assignment
from lingua_scheduler.front.hearing import Hearing
from lingua_scheduler.front.sessions.sessions import Sessions
from lingua_scheduler.protocol.fleet import StatsAnswer
from lingua_scheduler.protocol.options import full_pipeline
from tests.support.doors import PATIENCE_S, Open
from tests.support.mail import arrive, die, key
from tests.support.talks import client, eventually, job_of, keep, node, open_instance, outcomes, translate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.core.letter import Letter
    from lingua_scheduler.store.scripts import Script
    from tests.support.servers import Server


@pytest.fixture
async def instance(server: Server) -> AsyncIterator[Open]:
    async with open_instance(server.url, sessions__gap_ms=500, sessions__pause_ms=300) as opened:
        yield opened


async def letters_to(instance: Open, other: str) -> list[Letter]:
    taken = await collect(instance.desk.engine, other, other, 10)
    assert isinstance(taken, Letters)
    return [letter for _, _, letter in taken.letters]


async def submitted(instance: Open, session_id: str, index: int | None = None, *, new_id: str = "") -> tuple[str, int]:
    """A job that somebody else submits for a session, as the door of HTTP does: its id, and its number."""
    desk = instance.desk
    entered = await enter_session(desk.engine, session_id, "", utterance_index=index, rate=20, burst=40, ttl_ms=60_000)
    assert isinstance(entered, Entered)

    async def enters(_job_id: str) -> int:
        return entered.utterance_index

    placed = await desk.delivery.place(
        Ask(session_id, "en", "zh"),
        Assignment(src_lang="en", tgt_lang="zh", pipeline=full_pipeline(())),
        enters=enters,
        new_id=new_id,
    )
    assert not isinstance(placed, Refusal)
    return placed.job_id, entered.utterance_index


async def test_what_others_submit_for_a_session_has_its_own_number_and_stays_theirs(instance: Open) -> None:
    async with node(instance, answer=keep) as n1, client(instance) as ann:
        await ann.begin()
        await ann.utter(0)
        await ann.shown("NODE_ACCEPTED")
        job_id, index = await submitted(instance, ann.session_id)
        instance.desk.sessions.adopt(ann.session_id, index, job_id, "t", 60_000)
        instance.desk.sessions.placed(ann.session_id, index, job_id)
        await ann.utter(1)
        error = await ann.until("error")
        assert (error["error"], index) == ("INVALID_MESSAGE", 1)
        for job in [await n1.job(), await n1.job()]:
            await n1.result(job, **translate(job))
        answers = await ann.answers(2)
        assert outcomes(answers) == [(0, "meant 0"), (1, "meant 1")]
        assert answers[1]["job_id"] == job_id
        await ann.say("event_ack", last_event_id=2)
        await eventually(instance, answers[0]["job_id"])
        assert "meant 1" in (await job_of(instance, job_id)).result


async def test_a_job_that_is_not_adopted_says_nothing_of_another(instance: Open) -> None:
    """Its number is another's by now: how it ends is nobody's business here."""
    async with node(instance, answer=keep) as n1, client(instance) as ann:
        await ann.begin()
        await ann.utter(0)
        own = await n1.job()
        job_id, _ = await submitted(instance, ann.session_id, 7)
        instance.desk.sessions.adopt(ann.session_id, 0, job_id, "t", 60_000)
        other = await n1.job()
        await n1.result(other, **translate(other))
        async with asyncio.timeout(PATIENCE_S):
            await instance.desk.hearing.wait_end(job_id, 5_000)
        await n1.result(own, **translate(own))
        answers = await ann.answers(1)
        assert (answers[0]["job_id"], outcomes(answers)) == (own["job_id"], [(0, "meant 0")])


async def test_the_end_of_what_the_process_before_made_is_told_where_its_session_is(instance: Open) -> None:
    """That one had the same name, and knew which of its sessions had moved."""
    desk = instance.desk
    await arrive(desk.engine, "there")
    async with node(instance, answer=keep) as n1:
        job_id, _ = await submitted(instance, "s-moved", new_id=new_job_id("c0", "", desk.instance_id))
        await save_session(desk.engine, "s-moved", new_connection("there"), b"", 60_000, create=True)
        job = await n1.job()
        desk.sessions = Sessions(desk)
        desk.hearing = Hearing(desk.engine, desk.directory, desk.links, desk.delivery, desk.sessions, desk.neighbours)
        await n1.result(job, **translate(job))
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await letters_to(instance, "there")):  # noqa: ASYNC110 - only the engine knows
                await asyncio.sleep(0.01)
        assert [(one.kind, one.job) for one in found] == [("ended", job_id)]
        # What this process makes itself, over HTTP or for a session, is known here or nowhere.
        assert not desk.sessions.has_moved(new_job_id("c0", "", desk.instance_id))


async def test_a_job_whose_node_s_instance_is_overdue_has_a_grace(instance: Open) -> None:
    """For as long as that may yet be heard of, and until somebody has found that it is gone."""
    desk = instance.desk
    engine, look = desk.engine, desk.sessions.stage.look
    await arrive(engine, "there")
    async with node(instance, answer=keep) as n1:
        job_id, _ = await submitted(instance, "s1")
        await n1.job()
        assert (await look(job_id)).grace_until_ms == 0, "it is here"
        link = desk.links.get("n1")
        assert link is not None
        words: dict[str, Any] = {**link.known.words, "epoch": link.epoch, "running": [(job_id, 1)]}
        moved = new_connection("there")
        assert isinstance(await register(engine, "c0", "n1", nonce="x", **words | {"connection": moved}), Registered)
        assert (await look(job_id)).grace_until_ms == 0, "its instance has just beaten"
        began_ms = desk.clock()
        await engine.command("PEXPIRE", key(engine, "there", "presence"), 5_000)
        assert (await look(job_id)).grace_until_ms >= began_ms + 4_900
        await die(engine, "there")
        assert began_ms < (await look(job_id)).grace_until_ms <= desk.clock() + 1_000
        await disconnect(engine, "c0", "n1", moved, "handover")
        assert (await look(job_id)).grace_until_ms >= began_ms + 9_900
        await cancel(engine, job_id)
        assert (await look(job_id)).grace_until_ms == 0, "it has ended"


async def test_times_are_the_engine_s(instance: Open) -> None:
    """The engine's clock is an hour ahead of this machine's, for all that it says."""
    clock, hour_ms = instance.desk.clock, 3_600_000
    clock.heard(clock.local() + hour_ms, clock.local())
    async with node(instance), client(instance) as ann:
        await ann.begin()
        await ann.utter(0)
        sent_ms = (await ann.until("translation_result"))["scheduler_sent_at_ms"]
        await ann.say("client_heartbeat", session_id=ann.session_id)
        beat_ms = (await ann.until("server_heartbeat"))["timestamp"]
        await ann.utter(1, tgt_lang="fr")
        missing_ms = (await ann.until("missing_result"))["created_at_ms"]
    stats = await instance.desk.stats.read(instance.desk)
    assert isinstance(stats, StatsAnswer)
    now_ms = clock()
    for told_ms in (sent_ms, beat_ms, missing_ms, stats.generated_at_ms):
        assert now_ms - 60_000 < told_ms <= now_ms
        assert told_ms > clock.local() + hour_ms // 2


async def test_an_utterance_costs_three_saves_and_one_look_at_its_job(
    instance: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved when it is submitted, announced and confirmed; read when its answer is written."""
    engine, asked = instance.desk.engine, Counter[str]()
    run = engine.run

    def counted(script: Script, *about: Any) -> asyncio.Future[bytes]:
        asked[script.name] += 1
        return run(script, *about)

    async with node(instance, answer=keep) as n1, client(instance) as ann:
        await ann.begin()
        await ann.say("client_heartbeat", session_id=ann.session_id)
        await ann.until("server_heartbeat")
        monkeypatch.setattr(engine, "run", counted)
        await ann.utter(0)
        job = await n1.job()
        await ann.shown("NODE_ACCEPTED")
        await n1.result(job, **translate(job))
        await ann.answers(1)
        await ann.say("event_ack", last_event_id=1)
        async with asyncio.timeout(PATIENCE_S):
            while asked["release"] == 0 or asked["save_session"] < 3:  # noqa: ASYNC110 - only the engine knows
                await asyncio.sleep(0.01)
        assert (asked["save_session"], asked["job"], asked["node"]) == (3, 1, 0)


async def test_a_job_that_was_cancelled_without_a_word_is_missing(instance: Open) -> None:
    async with node(instance, answer=keep) as n1, client(instance) as ann:
        await ann.begin()
        await ann.utter(0)
        job = await n1.job()
        await cancel(instance.desk.engine, job["job_id"], "")
        assert outcomes(await ann.answers(1)) == [(0, "cancelled")]
        await n1.say("job_stopped", job_id=job["job_id"], attempt_id=1, node_id="n1")
