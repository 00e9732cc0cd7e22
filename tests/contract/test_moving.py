"""A client whose session goes on at another instance: each of its utterances ends once, in order, wherever it was."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.audio_ref import audio_ref_of
from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.letter import Letter
from lingua_scheduler.core.owner import instance_of
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.views.audio import read_audio
from lingua_scheduler.views.cell import read_cell
from lingua_scheduler.views.session import read_session
from tests.support.house import House, eventually
from tests.support.logs import told
from tests.support.meddling import hold_back
from tests.support.people import PATIENCE_S, SILENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.people import Client
    from tests.support.servers import Server

#: Instances of a test doubt for so long whether what was being placed elsewhere has its job.
DOUBT_MS = 1_000


@pytest.fixture
async def houses(server: Server) -> AsyncIterator[tuple[House, House]]:
    """Two instances over one engine. Their node polls: it has no socket that only one of them could write to."""
    waits = {"sessions.wait_ms": 15_000}
    async with House(server.url, **waits).open() as here:
        shared = waits | {"engine.key_prefix": here.settings.engine.key_prefix}
        async with House(server.url, **shared).open() as there:
            for house in (here, there):
                sessions = house.serving.desk.sessions
                sessions.rules = msgspec.structs.replace(
                    sessions.rules, doubt_ms=DOUBT_MS, look_ms=200, look_closely_ms=200
                )
            node = {"node_id": "n1", "semantic_langs": ["en", "zh"], "max_concurrent_jobs": 1}
            await here.post("/v1/node/register", node)
            yield here, there


async def next_job(house: House) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while not (jobs := (await house.post("/v1/node/poll", {"node_id": "n1", "wait_ms": 100}))["jobs"]):
            pass
    (job,) = jobs
    return dict(job)


async def finish(house: House, job: dict[str, Any]) -> None:
    done = {"job_id": job["job_id"], "attempt_id": job["attempt_id"], "node_id": "n1", "status": "ok"}
    await house.post("/v1/job/done", done | {"result": {"text_translated": f"said {job['utterance_index']}"}})


@asynccontextmanager
async def moved(client: Client, there: House) -> AsyncIterator[Client]:
    """The same client, which lost its socket, at another instance."""
    client.cut()
    async with there.client() as again:
        await again.init(resume_token=client.ack["resume_token"], last_event_id=0)
        assert again.session_id == client.session_id
        yield again


async def all_ends(client: Client, number: int) -> list[tuple[int, str]]:
    """All answers, which must be so many, as they come."""
    ends = [await client.next("translation_result", "missing_result") for _ in range(number)]
    await client.say("client_heartbeat", session_id=client.session_id, timestamp=1)
    await client.next("server_heartbeat")
    assert not [said for said in client.heard if said["type"] in {"translation_result", "missing_result"}]
    assert [end["event_id"] for end in ends] == list(range(1, number + 1))
    return [(end["utterance_index"], end.get("text_translated") or end["reason"]) for end in ends]


async def jobs(house: House) -> dict[str, str]:
    cell = await read_cell(house.serving.desk.engine, "c0")
    assert isinstance(cell, Cell)
    return {job_id: job.state for job_id, job in cell.jobs.items()}


async def test_while_a_job_waits(houses: tuple[House, House]) -> None:
    here, there = houses
    async with here.client() as client:
        await client.init()
        await client.utter(0)
        first = await next_job(here)
        await client.utter(1)
        await client.next("backpressure")
        async with moved(client, there) as again:
            await finish(here, first)
            second = await next_job(there)
            assert second["audio"]
            await finish(there, second)
            assert await all_ends(again, 2) == [(0, "said 0"), (1, "said 1")]


async def test_while_a_job_waits_in_vain(houses: tuple[House, House]) -> None:
    here, there = houses
    async with here.client() as client:
        await client.init()
        await client.utter(0)
        first = await next_job(here)
        await client.utter(1, options={"wait_ms": 500})
        await client.next("backpressure")
        async with moved(client, there) as again:
            await finish_when_nobody_waits(here, first)
            ends = await all_ends(again, 2)
            assert ends[0] == (0, "said 0")
            assert ends[1] in {(1, "lost"), (1, "no_available_node")}, "by which instance heard of it"


async def finish_when_nobody_waits(house: House, job: dict[str, Any]) -> None:
    async def nobody_waits() -> bool:
        return set(await jobs(house)) == {job["job_id"]}

    await eventually(nobody_waits)
    await finish(house, job)


@pytest.fixture
def gate(houses: tuple[House, House], monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """What is being placed at the first instance stops before it is dispatched: when it is there, and to let it go."""
    begun, gate = asyncio.Event(), asyncio.Event()
    delivery = houses[0].serving.desk.delivery
    place = delivery.place

    async def slowly(*args: Any, **named: Any) -> Any:
        begun.set()
        await gate.wait()
        return await place(*args, **named)

    monkeypatch.setattr(delivery, "place", slowly)
    return begun, gate


async def test_while_a_job_is_being_placed(
    houses: tuple[House, House], gate: tuple[asyncio.Event, asyncio.Event]
) -> None:
    here, there = houses
    begun, lets_go = gate
    async with here.client() as client:
        await client.init()
        await client.utter(0)
        await begun.wait()
        async with moved(client, there) as again:
            lets_go.set()
            await finish(there, await next_job(there))
            assert await all_ends(again, 1) == [(0, "said 0")]


@pytest.mark.parametrize("knows", [False, True])
async def test_what_is_not_placed_in_time_is_announced_and_never_runs(
    houses: tuple[House, House], gate: tuple[asyncio.Event, asyncio.Event], knows: bool
) -> None:
    """Whether or not the first instance knows by then that the session is no longer its own."""
    here, there = houses
    begun, lets_go = gate
    sessions = here.serving.desk.sessions
    async with here.client() as client:
        await client.init()
        await client.utter(0)
        await begun.wait()
        (name,) = sessions._by_job
        engine = here.serving.desk.engine
        assert not isinstance(await read_audio(engine, audio_ref_of(f"c0.{name}", "c0")), Refusal)
        async with there.client() as again:
            await again.init(resume_token=client.ack["resume_token"], last_event_id=0)
            if knows:
                await client.utter(1)
                assert (await client.gone())[0] == 4409
            assert await all_ends(again, 1) == [(0, "lost")]
            lets_go.set()
            assert (await client.gone())[0] == 4409
            await sessions.background.room(1)
            assert await jobs(here) == {}
            assert isinstance(await read_audio(engine, audio_ref_of(f"c0.{name}", "c0")), Refusal)
            await again.utter(2)
            await finish(there, await next_job(there))
            assert (await again.end_of(2))["text_translated"] == "said 2"


async def test_what_was_not_placed_is_placed_when_it_is_said_again(
    houses: tuple[House, House], gate: tuple[asyncio.Event, asyncio.Event]
) -> None:
    """As the same job: whoever had the session before may come too late with it, and finds it there."""
    here, there = houses
    begun, lets_go = gate
    sessions = here.serving.desk.sessions
    async with here.client() as client:
        await client.init()
        await client.utter(0)
        await begun.wait()
        (name,) = sessions._by_job
        async with there.client() as again:
            await again.init(resume_token=client.ack["resume_token"], last_event_id=0)
            await again.utter(0)
            job = await next_job(there)
            assert job["job_id"] == f"c0.{name}"
            lets_go.set()
            assert (await client.gone())[0] == 4409
            await sessions.background.room(1)
            assert set(await jobs(here)) == {job["job_id"]}
            await finish(there, job)
            assert await all_ends(again, 1) == [(0, "said 0")]


async def test_a_piece_of_a_stream_that_was_not_placed_is_placed_by_whoever_goes_on(
    houses: tuple[House, House], gate: tuple[asyncio.Event, asyncio.Event]
) -> None:
    """Nobody says it again: its audio is saved until it has its job. Whoever comes late with it finds that job."""
    here, there = houses
    begun, lets_go = gate
    sessions = here.serving.desk.sessions
    async with here.client() as client:
        await client.init()
        await client.say("audio_chunk", seq=0, payload=SILENCE, is_final=True)
        await begun.wait()
        (name,) = sessions._by_job
        async with there.client() as again:
            await again.init(resume_token=client.ack["resume_token"], last_event_id=0)
            job = await next_job(there)
            assert (job["job_id"], job["audio"], job["is_manual_cut"]) == (f"c0.{name}", SILENCE, True)
            lets_go.set()
            assert (await client.gone())[0] == 4409
            await sessions.background.room(1)
            assert set(await jobs(here)) == {job["job_id"]}
            await finish(there, job)
            assert await all_ends(again, 1) == [(0, "said 0")]


async def test_what_had_only_its_number_can_be_said_again(
    houses: tuple[House, House], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but the first instance knew of it: whoever goes on hears it as if for the first time."""
    here, there = houses
    gate = asyncio.Event()
    async with here.client() as client:
        await client.init()
        numbered = hold_back(monkeypatch, here.serving.desk.engine, "save_session", gate)
        await client.utter(0)
        await numbered.wait()
        async with there.client() as again:
            await again.init(resume_token=client.ack["resume_token"], last_event_id=0)
            await again.utter(0)
            job = await next_job(there)
            gate.set()
            assert (await client.gone())[0] == 4409
            await finish(there, job)
            assert await all_ends(again, 1) == [(0, "said 0")]


async def test_no_answer_goes_out_that_whoever_goes_on_does_not_know_of(
    houses: tuple[House, House], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first instance is about to save that it is missing. It comes too late, and its client hears no more."""
    here, there = houses
    gate = asyncio.Event()
    async with here.client() as client:
        await client.init()
        saving = hold_back(monkeypatch, here.serving.desk.engine, "save_session", gate)
        await client.utter(0, src_lang="nowhere")
        await saving.wait()
        async with there.client() as again:
            await again.init(resume_token=client.ack["resume_token"], last_event_id=0)
            gate.set()
            assert (await client.gone())[0] == 4409
            assert not [said for said in client.heard if said["type"] == "missing_result"]
            await again.utter(0)
            await finish(there, await next_job(there))
            assert await all_ends(again, 1) == [(0, "said 0")]


async def test_while_a_job_is_placed_and_the_answer_to_that_is_lost(
    houses: tuple[House, House], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = houses
    gate = asyncio.Event()
    async with here.client() as client:
        await client.init()
        executed = hold_back(monkeypatch, here.serving.desk.engine, "dispatch", gate, loses=True)
        await client.utter(0)
        await executed.wait()
        async with there.client() as again:
            await again.init(resume_token=client.ack["resume_token"], last_event_id=0)
            await client.utter(1)
            assert (await client.gone())[0] == 4409
            gate.set()
            await finish(there, await next_job(there))
            assert await all_ends(again, 1) == [(0, "said 0")]


async def test_who_came_last_stays_however_slow_the_word_of_the_first_is(
    houses: tuple[House, House], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that comes back twice at once: to tell the last instance takes its time, and keeps nobody waiting."""
    here, there = houses
    slow, told = asyncio.Event(), asyncio.Event()
    neighbours = there.serving.desk.neighbours
    tell = neighbours.tell_owner

    async def tell_slowly(session_id: str, owner: str) -> None:
        if instance_of(owner) == here.serving.desk.instance_id:
            await slow.wait()
        await tell(session_id, owner)
        told.set()

    monkeypatch.setattr(neighbours, "tell_owner", tell_slowly)
    async with here.client() as client, there.client() as first:
        await client.init()
        client.cut()
        token = {"resume_token": client.ack["resume_token"], "last_event_id": 0}
        coming = asyncio.create_task(first.init(**token))

        async def is_taken() -> bool:
            session = await read_session(there.serving.desk.engine, client.session_id)
            return not isinstance(session, Refusal) and instance_of(session.owner) == there.serving.desk.instance_id

        await eventually(is_taken)
        async with there.client() as last:
            await last.init(**token)
            slow.set()
            await told.wait()
            await asyncio.gather(coming, return_exceptions=True)
            await last.say("client_heartbeat", session_id=last.session_id, timestamp=1)
            await last.next("server_heartbeat")


class TestWhatOthersSubmitElsewhere:
    """A caller over HTTP does not know at which instance a session is, and need not."""

    async def test_it_has_its_turn_where_the_session_is(self, houses: tuple[House, House]) -> None:
        here, there = houses
        node = {"node_id": "n1", "semantic_langs": ["en", "zh"], "max_concurrent_jobs": 2}
        await here.post("/v1/node/register", node)
        async with here.client() as client:
            await client.init()
            placed = await there.dispatch(client.session_id)
            foreign = await next_job(here)
            await eventually(lambda: knows(here, placed["job_id"]))
            await client.utter(1)
            await finish(here, await next_job(here))
            await finish(here, foreign)
            assert await all_ends(client, 2) == [(0, "said 0"), (1, "said 1")]
        assert (await there.ended(placed["job_id"]))["result"]["text_translated"] == "said 0"

    async def test_it_goes_with_the_session(self, houses: tuple[House, House]) -> None:
        here, there = houses
        async with here.client() as client:
            await client.init()
            placed = await there.dispatch(client.session_id)
            foreign = await next_job(here)
            await eventually(lambda: knows(here, placed["job_id"]))
            async with moved(client, there) as again:
                await finish(here, foreign)
                assert await all_ends(again, 1) == [(0, "said 0")]

    async def test_nobody_waits_for_what_was_refused(self, houses: tuple[House, House]) -> None:
        here, there = houses
        async with here.client() as client:
            await client.init()
            await there.dispatch(client.session_id, status=422, tgt_lang="fr")
            await client.utter(1)
            await finish(here, await next_job(here))
            assert await all_ends(client, 1) == [(1, "said 1")]

    async def test_the_word_of_it_follows_a_session_that_has_just_moved(self, houses: tuple[House, House]) -> None:
        here, there = houses
        async with here.client() as client:
            await client.init()
            async with moved(client, there) as again:
                placed = await there.dispatch(tgt_lang="zh")
                letter = Letter("adopt", placed["job_id"], session=again.session_id, detail="0 60000", trace="t")
                await there.serving.desk.neighbours.tell(here.serving.desk.instance_id, letter)
                await eventually(lambda: knows(there, placed["job_id"]))

    async def test_it_is_told_where_the_session_went_also_if_that_is_not_known_here(
        self, houses: tuple[House, House], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is here of it is old, and finds that out."""
        here, there = houses
        monkeypatch.setattr(there.serving.desk.neighbours, "tell_owner", never_comes)
        async with here.client() as client:
            await client.init()
            async with there.client() as again:
                await again.init(resume_token=client.ack["resume_token"], last_event_id=0)
                placed = await here.dispatch(client.session_id)
                assert (await client.gone())[0] == 4409
                await eventually(lambda: knows(there, placed["job_id"]))
                await finish(here, await next_job(here))
                assert await all_ends(again, 1) == [(0, "said 0")]

    @pytest.mark.parametrize("ends_before", [False, True])
    @pytest.mark.parametrize("at", [0, 1])
    async def test_it_waits_for_a_session_that_nobody_has_just_then(
        self, houses: tuple[House, House], monkeypatch: pytest.MonkeyPatch, at: int, ends_before: bool
    ) -> None:
        """Its instance has let it go, and its client is not back yet. What is said then comes after it."""
        here, there = houses
        in_vain = asyncio.Event()
        monkeypatch.setattr(there.serving.desk.sessions, "adopt_ended", lambda _ticket: in_vain.set())
        async with there.client() as client:
            await client.init()
            await there.serving.desk.sessions.close()
            assert (await client.gone())[0] == 1012
            placed = await houses[at].dispatch(client.session_id)
            if ends_before:
                await finish(here, await next_job(here))
                async with asyncio.timeout(PATIENCE_S):
                    await in_vain.wait()
            async with here.client() as again:
                await again.init(resume_token=client.ack["resume_token"], last_event_id=0)
                if not ends_before:
                    assert await knows(here, placed["job_id"])
                    await finish(here, await next_job(here))
                await again.utter(1)
                await finish(here, await next_job(here))
                assert await all_ends(again, 2) == [(0, "said 0"), (1, "said 1")]

    async def test_what_was_refused_while_nobody_had_the_session_keeps_nobody_waiting(
        self, houses: tuple[House, House]
    ) -> None:
        here, there = houses
        async with there.client() as client:
            await client.init()
            await there.serving.desk.sessions.close()
            await here.dispatch(client.session_id, status=422, tgt_lang="fr")
            async with here.client() as again:
                await again.init(resume_token=client.ack["resume_token"], last_event_id=0)
                await again.utter(1)
                await finish(here, await next_job(here))
                assert await all_ends(again, 1) == [(1, "said 1")]

    @pytest.mark.parametrize("at", [0, 1])
    async def test_it_comes_while_the_session_is_taken_over(
        self, houses: tuple[House, House], monkeypatch: pytest.MonkeyPatch, at: int
    ) -> None:
        """The engine knows the new owner, which has not read yet what it took."""
        here, there = houses
        sessions, taken, lets_go = here.serving.desk.sessions, asyncio.Event(), asyncio.Event()
        take = sessions.stage.take

        async def slowly(*about: Any) -> Any:
            found = await take(*about)
            taken.set()
            await lets_go.wait()
            return found

        monkeypatch.setattr(sessions.stage, "take", slowly)
        async with there.client() as client:
            await client.init()
            client.cut()
            async with here.client() as again:
                coming = asyncio.create_task(again.init(resume_token=client.ack["resume_token"], last_event_id=0))
                await taken.wait()
                placed = await houses[at].dispatch(client.session_id)

                async def is_read() -> bool:
                    return any(given for _, given in sessions._coming)

                await eventually(is_read)
                lets_go.set()
                await coming
                assert await knows(here, placed["job_id"])
                await finish(there, await next_job(there))
                assert await all_ends(again, 1) == [(0, "said 0")]
        assert sessions._coming == []

    async def test_its_end_is_told_where_nobody_was_told_that_it_comes(
        self, houses: tuple[House, House], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here, there = houses
        neighbours = there.serving.desk.neighbours
        tell = neighbours.tell

        async def tell_no_beginning(instance_id: str, letter: Letter) -> bool:
            return letter.kind != "adopt" and await tell(instance_id, letter)

        monkeypatch.setattr(neighbours, "tell", tell_no_beginning)
        async with here.client() as client:
            await client.init()
            await there.dispatch(client.session_id)
            await finish(there, await next_job(there))
            assert await all_ends(client, 1) == [(0, "said 0")]

    async def test_what_is_told_too_late_is_told_to_its_submitter_alone(
        self, houses: tuple[House, House], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A later number has gone out meanwhile. Nobody waits for it, and the log names it."""
        here, there = houses
        neighbours, begun, lets_go = there.serving.desk.neighbours, asyncio.Event(), asyncio.Event()
        tell = neighbours.tell

        async def tell_late(instance_id: str, letter: Letter) -> bool:
            if letter.kind == "adopt":
                begun.set()
                await lets_go.wait()
            return await tell(instance_id, letter)

        monkeypatch.setattr(neighbours, "tell", tell_late)
        async with here.client() as client:
            await client.init()
            placing = asyncio.create_task(there.dispatch(client.session_id))
            await begun.wait()
            await client.utter(1)
            await finish(here, await next_job(here))
            assert await all_ends(client, 1) == [(1, "said 1")]
            lets_go.set()
            placed = await placing
            await finish(here, await next_job(here))
            assert (await there.ended(placed["job_id"]))["result"]["text_translated"] == "said 0"

            async def is_logged() -> bool:
                return [one["job_id"] for one in told(caplog, "adopt")] == [placed["job_id"]]

            await eventually(is_logged)
            (line,) = told(caplog, "adopt")
            assert line["session_id"] == client.session_id
            assert line["reason"] == "utterance_index 0 comes too late: 1 has been answered"
            await client.utter(2)
            await finish(here, await next_job(here))
            ends = await client.end_of(2)
            assert (ends["text_translated"], ends["event_id"]) == ("said 2", 2)


async def never_comes(*_about: object) -> None:
    """A letter that is on its way for longer than a test."""


async def knows(house: House, job_id: str) -> bool:
    return house.serving.desk.sessions.knows(job_id)
