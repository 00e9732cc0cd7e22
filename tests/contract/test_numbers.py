"""Jobs over HTTP in a live session: each has its turn there, or is refused before anything is placed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.views.cell import read_cell
from lingua_scheduler.views.session import Session, read_session
from tests.support.house import CELL

if TYPE_CHECKING:
    from lingua_scheduler.store.scripts import Script
    from tests.support.house import House


async def known(house: House, session_id: str) -> tuple[set[str], Session]:
    """The jobs that there are, and what the engine knows of a session."""
    engine = house.serving.desk.engine
    cell, session = await read_cell(engine, CELL), await read_session(engine, session_id)
    assert isinstance(cell, Cell)
    assert isinstance(session, Session)
    return set(cell.jobs), session


async def test_a_number_that_has_no_turn_any_more_is_refused_before_anything_is_placed(house: House) -> None:
    async with house.client() as client, house.node("n1") as node:
        await client.init()
        await node.register()
        await client.utter(5)
        await node.result(await node.job())
        assert (await client.end_of(5))["type"] == "translation_result"
        before = await known(house, client.session_id)
        for index, why in ((3, "too late"), (5, "given out"), (3, "too late")):
            refused = await house.dispatch(client.session_id, status=400, utterance_index=index, request_id=f"r{index}")
            assert (refused["error"], refused["retryable"]) == ("INVALID_MESSAGE", False)
            assert why in refused["detail"]
        assert await known(house, client.session_id) == before
        await client.utter(3)
        assert "too late" in (await client.next("error", code="INVALID_MESSAGE"))["message"]
        assert (await known(house, client.session_id))[0] == before[0]
        await house.dispatch(client.session_id, utterance_index=6)
        await node.result(await node.job())
        assert (await client.end_of(6))["type"] == "translation_result"


async def test_what_had_its_turn_may_be_asked_for_again(house: House) -> None:
    async with house.client() as client, house.node("n1") as node:
        await client.init()
        await node.register()
        placed = await house.dispatch(client.session_id, utterance_index=0, request_id="r1")
        await node.result(await node.job())
        assert (await client.end_of(0))["type"] == "translation_result"
        assert await house.dispatch(client.session_id, utterance_index=0, request_id="r1") == placed


async def test_a_number_of_a_refused_utterance_is_nobody_s_job(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session takes it for what its client said just when a job is about to have it."""
    async with house.client() as client, house.node("n1") as node:
        await client.init()
        await node.register()
        engine, session = house.serving.desk.engine, house.serving.desk.sessions.get(client.session_id)
        assert session is not None
        run, said = (
            engine.run,
            [f'{{"type": "utterance", "utterance_index": {index}, "audio": "?"}}' for index in (1, 0)],
        )

        def meanwhile(script: Script, *about: Any) -> asyncio.Future[bytes]:
            answer = run(script, *about)
            if script.name == "enter_session" and said:
                assert session.connection is not None
                session.hear(session.connection, said.pop())
            return answer

        monkeypatch.setattr(engine, "run", meanwhile)
        placed = await house.dispatch(client.session_id)
        await node.result(await node.job())
        ends = [await client.end_of(index) for index in (0, 1, 2)]
        assert [end["type"] for end in ends] == ["missing_result", "missing_result", "translation_result"]
        assert ends[2]["job_id"] == placed["job_id"]


@pytest.mark.parametrize("away", [{"dispatch"}, {"dispatch", "return_number"}], ids=["for a job", "for a while"])
@pytest.mark.parametrize("request_id", [None, "r1"])
async def test_whoever_chose_a_number_may_come_again_with_it_when_the_engine_could_not_serve(
    house: House, monkeypatch: pytest.MonkeyPatch, away: set[str], request_id: str | None
) -> None:
    async with house.client() as client, house.node("n1") as node:
        await client.init()
        await node.register()
        engine = house.serving.desk.engine
        run, left, returned = engine.run, [*away], asyncio.Event()

        async def fail() -> bytes:
            raise DependencyDown("UNREACHABLE", "nobody answers")

        async def giving_back(*about: Any) -> Any:
            answer = await run(*about)
            returned.set()
            return answer

        def meanwhile(script: Script, *about: Any) -> Any:
            if script.name in left:
                left.remove(script.name)
                return asyncio.ensure_future(fail())
            return giving_back(script, *about) if script.name == "return_number" else run(script, *about)

        monkeypatch.setattr(engine, "run", meanwhile)
        said: dict[str, Any] = {"utterance_index": 0} | ({"request_id": request_id} if request_id else {})
        refused = await house.dispatch(client.session_id, status=503, **said)
        assert refused["error"] == "SCHEDULER_DEPENDENCY_DOWN"
        async with asyncio.timeout(5):
            await returned.wait()
        placed = await house.dispatch(client.session_id, **said)
        await node.result(await node.job())
        assert (await client.end_of(0))["job_id"] == placed["job_id"]


async def test_a_session_that_waits_for_too_many_answers_takes_no_more(house: House) -> None:
    async with house.client() as client, house.node("n1") as node:
        await client.init()
        await node.register()
        session = house.serving.desk.sessions.get(client.session_id)
        assert session is not None
        ledger = session.talk.ledger
        for index in range(ledger.rules.max_open):
            ledger.adopt(index, f"c0.j{index}", "t", 2**50, 0)
        refused = await house.dispatch(client.session_id, status=429)
        assert (refused["error"], refused["retryable"]) == ("RATE_LIMITED", True)
        assert (await known(house, client.session_id))[0] == set()
        for index in range(ledger.rules.max_open):
            house.serving.desk.sessions.withdraw(client.session_id, index, f"c0.j{index}")
        await house.dispatch(client.session_id)
        await node.result(await node.job())
        assert (await client.next("translation_result"))["utterance_index"] >= ledger.rules.max_open
