"""A submit goes by what is remembered of its session: pieces of a turn stay together, the rest spreads."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Hints, Policy, Wanted
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.release import release
from lingua_scheduler.flows.resume import resume
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.submit import Submitter
from lingua_scheduler.views.memory import recall
from tests.support.pasts import doubt, give
from tests.support.stage import code_of, join, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

SPREAD, STICKY = Wanted(policy="spread"), Wanted(policy="sticky_pool")


@pytest.fixture(autouse=True)
def same_choices_in_every_run() -> None:
    """A submit draws the seed of its job."""
    random.seed(0)


async def submit(world: World, session_id: str = "s1", **asked: Any) -> Submitted:
    answer = await Submitter(world.engine, CELL).submit(Ask(session_id, "en", "zh", **asked))
    assert isinstance(answer, Submitted), answer
    return answer


async def goes_to(world: World, session_id: str = "s1", **asked: Any) -> str:
    """Who takes such a job. It is done at once."""
    answer = await submit(world, session_id, **asked)
    node_id = answer.placed.node_id
    await done(world.engine, answer.job_id, 1, node_id)
    return node_id


async def reasons(world: World, job_id: str) -> list[str]:
    return (await world.cell()).jobs[job_id].choice.reasons


async def fleet(world: World, number: int, **said: Any) -> list[str]:
    names = [f"n{n}" for n in range(number)]
    await asyncio.gather(*(join(world, node_id, **said) for node_id in names))
    return names


class TestPiecesOfOneTurn:
    async def test_they_go_to_the_same_node(self, world: World) -> None:
        await fleet(world, 8)
        for turn in ("t1", "t2", "t3"):
            assert len({await goes_to(world, bind_key=turn) for _ in range(10)}) == 1

    async def test_turns_and_sessions_do_not_share_a_node_for_it(self, world: World) -> None:
        """Each turn is drawn anew: 40 of them all on one node of eight would be no accident."""
        await fleet(world, 8)
        assert len({await goes_to(world, bind_key=f"t{number}") for number in range(40)}) > 1
        assert len({await goes_to(world, f"s{number}", bind_key="t1") for number in range(40)}) > 1

    async def test_jobs_of_no_turn_are_free(self, world: World) -> None:
        await fleet(world, 8)
        assert len({await goes_to(world) for _ in range(40)}) > 1
        assert await recall(world.engine, "s1") == Hints()

    async def test_they_stay_with_it_as_long_as_it_has_room(self, world: World) -> None:
        """Two slots: the third piece goes elsewhere, and from then on the turn is there."""
        await fleet(world, 3)
        pieces = [await submit(world, bind_key="t1") for _ in range(3)]
        first, second, third = (piece.placed.node_id for piece in pieces)
        assert first == second != third
        assert await reasons(world, pieces[2].job_id) == ["bound full"]
        await done(world.engine, pieces[0].job_id, 1, first)
        assert (await submit(world, bind_key="t1")).placed.node_id == third

    @pytest.mark.parametrize("how", ["leaves", "drains", "is lost"])
    async def test_when_it_is_gone_another_takes_its_place(self, world: World, how: str) -> None:
        names = await fleet(world, 3, connection="x")
        first = await goes_to(world, bind_key="t1")
        if how == "leaves":
            await leave(world.engine, CELL, first)
        elif how == "drains":
            await drain(world.engine, CELL, first)
        else:
            await disconnect(world.engine, CELL, first, "x")
            world.now_ms += 500
            await sweep(world)
        second = await goes_to(world, bind_key="t1")
        assert second in set(names) - {first}
        if how == "drains":
            await resume(world.engine, CELL, first)
        assert {await goes_to(world, bind_key="t1") for _ in range(10)} == {second}

    async def test_a_node_that_cannot_do_the_next_piece_is_not_asked(self, world: World) -> None:
        await join(world, "n1", tts_langs=["zh"])
        first = await submit(world, bind_key="t1")
        await join(world, "n2", nmt_pairs=[["zh", "en"]])
        answer = await Submitter(world.engine, CELL).submit(Ask("s1", "zh", "en", bind_key="t1"))
        assert isinstance(answer, Submitted)
        assert (first.placed.node_id, answer.placed.node_id) == ("n1", "n2")
        assert await reasons(world, answer.job_id) == ["bound no_pool"]

    async def test_the_binding_ends_after_a_minute(self, world: World) -> None:
        await fleet(world, 8)
        first = await submit(world, bind_key="t1")
        assert (await recall(world.engine, "s1", bind_key="t1")) == Hints(first.placed.node_id, first.placed.node_id)
        world.now_ms += 60_000
        hints = await recall(world.engine, "s1", bind_key="t1")
        assert isinstance(hints, Hints)
        assert hints.bound_node_id == ""

    async def test_a_named_node_comes_after_the_node_of_the_turn(self, world: World) -> None:
        await fleet(world, 2)
        named = {node_id: Wanted(preferred_node_id=node_id) for node_id in ("n0", "n1")}
        assert await goes_to(world, bind_key="t1", wanted=named["n0"]) == "n0"
        assert await goes_to(world, bind_key="t1", wanted=named["n1"]) == "n0"

    async def test_a_node_that_is_insisted_on_comes_before_it(self, world: World) -> None:
        await fleet(world, 2)
        for node_id in ("n0", "n1"):
            strict = Wanted(preferred_node_id=node_id, strict=True)
            assert await goes_to(world, bind_key="t1", wanted=strict) == node_id

    async def test_a_retry_of_a_piece_goes_elsewhere(self, world: World) -> None:
        await fleet(world, 2)
        piece = await submit(world, bind_key="t1")
        first = piece.placed.node_id
        await submit(world, bind_key="t1")
        answer = await fail(world.engine, piece.job_id, 1, first, reason="")
        assert isinstance(answer, Failed)
        assert answer.node_id == ({"n0", "n1"} - {first}).pop()

    async def test_a_suspect_keeps_its_turn(self, world: World) -> None:
        await fleet(world, 3)
        first = await goes_to(world, bind_key="t1")
        await doubt(world, first)
        answer = await submit(world, bind_key="t1")
        assert answer.placed.node_id == first
        assert await reasons(world, answer.job_id) == ["suspect"]

    async def test_a_refused_piece_binds_nothing(self, world: World) -> None:
        await join(world, "n1", max_concurrent_jobs=1)
        await give(world, "n1")
        answer = await Submitter(world.engine, CELL).submit(Ask("s1", "en", "zh", bind_key="t1"))
        assert isinstance(answer, Refusal)
        assert await recall(world.engine, "s1", bind_key="t1") == Hints()

    async def test_a_turn_that_cannot_be_named_is_refused(self, world: World) -> None:
        await join(world)
        answer = await Submitter(world.engine, CELL).submit(Ask("s1", "en", "zh", bind_key="a turn"))
        assert isinstance(answer, Refusal)
        assert answer.code == "INVALID_MESSAGE"
        assert (await world.cell()).jobs == {}


class TestSpread:
    async def test_no_two_jobs_in_a_row_go_to_the_same_node(self, world: World) -> None:
        await fleet(world, 3)
        nodes = [await goes_to(world, wanted=SPREAD) for _ in range(30)]
        assert all(one != other for one, other in itertools.pairwise(nodes))
        assert set(nodes) == {"n0", "n1", "n2"}

    async def test_it_comes_back_to_it_when_there_is_no_other(self, world: World) -> None:
        await fleet(world, 2, max_concurrent_jobs=1)
        first = await goes_to(world, wanted=SPREAD)
        other = ({"n0", "n1"} - {first}).pop()
        await give(world, other)
        assert await goes_to(world, wanted=SPREAD) == first

    async def test_another_session_s_last_node_is_no_matter(self, world: World) -> None:
        await join(world, "n1")
        await goes_to(world, "s1", wanted=SPREAD)
        await join(world, "n2")
        assert len({await goes_to(world, f"other-{number}", wanted=SPREAD) for number in range(40)}) == 2

    async def test_a_job_of_another_policy_that_numbers_its_utterance_counts_as_the_last(self, world: World) -> None:
        await fleet(world, 2)
        for number in range(10):
            last = await goes_to(world, utterance_index=number)
            assert await goes_to(world, wanted=SPREAD) != last


class TestStickyPool:
    async def pools(self, world: World) -> None:
        """Two pools of two nodes with two slots each."""
        for number in range(4):
            await join(world, f"{'ab'[number % 2]}{number}", labels={"group": "ab"[number % 2]})

    async def test_a_session_stays_in_the_pool_in_which_it_began(self, world: World) -> None:
        await self.pools(world)
        for session in range(4):
            nodes = [await goes_to(world, f"s{session}", wanted=STICKY) for _ in range(12)]
            assert len({node_id[0] for node_id in nodes}) == 1
            assert len(set(nodes)) == 2

    async def test_sessions_begin_in_any_pool(self, world: World) -> None:
        await self.pools(world)
        assert {(await goes_to(world, f"s{n}", wanted=STICKY))[0] for n in range(40)} == {"a", "b"}

    async def test_when_the_pool_is_full_it_moves_to_another_and_stays_there(self, world: World) -> None:
        await self.pools(world)
        jobs = [await submit(world, wanted=STICKY) for _ in range(5)]
        pools = [job.placed.node_id[0] for job in jobs]
        assert pools[:4] == [pools[0]] * 4
        assert pools[4] != pools[0]
        assert await reasons(world, jobs[4].job_id) == ["pool full"]
        for job in jobs[:4]:
            await done(world.engine, job.job_id, 1, job.placed.node_id)
        assert (await submit(world, wanted=STICKY)).placed.node_id[0] == pools[4]

    async def test_nodes_without_a_pool_make_nothing_stick(self, world: World) -> None:
        await fleet(world, 4)
        assert len({await goes_to(world, wanted=STICKY) for _ in range(40)}) > 1
        hints = await recall(world.engine, "s1")
        assert isinstance(hints, Hints)
        assert hints.last_pool == ""

    async def test_a_retry_leaves_the_pool_rather_than_go_back_to_the_node_that_failed_it(self, world: World) -> None:
        await join(world, "a0", labels={"group": "a"})
        await goes_to(world, wanted=STICKY)
        job = await submit(world, wanted=STICKY)
        await join(world, "b0", labels={"group": "b"})
        answer = await fail(world.engine, job.job_id, 1, "a0", reason="")
        assert isinstance(answer, Failed)
        assert answer.node_id == "b0"

    async def test_only_this_policy_asks_for_the_pool(self, world: World) -> None:
        await self.pools(world)
        await goes_to(world, wanted=STICKY)
        assert {(await goes_to(world, utterance_index=n))[0] for n in range(40)} == {"a", "b"}


class TestAnUtteranceThatIsSentAgain:
    """A node may refuse what it has seen: (session, index) goes to another while another can."""

    async def test_it_goes_to_a_node_that_has_not_seen_it_while_there_is_one(self, world: World) -> None:
        names = await fleet(world, 5)
        assert sorted([await goes_to(world, utterance_index=7) for _ in range(5)]) == names

    async def test_when_all_have_seen_it_any_may_have_it(self, world: World) -> None:
        names = await fleet(world, 2)
        assert {await goes_to(world, utterance_index=7) for _ in range(20)} == set(names)

    async def test_other_utterances_and_sessions_are_free(self, world: World) -> None:
        await join(world, "n1")
        await goes_to(world, utterance_index=7)
        await join(world, "n2")
        assert len({await goes_to(world, utterance_index=number) for number in range(8, 40)}) == 2
        assert len({await goes_to(world, f"other-{number}", utterance_index=7) for number in range(40)}) == 2

    async def test_a_suspect_that_has_not_seen_it_comes_before_one_that_has(self, world: World) -> None:
        await join(world, "n1")
        await goes_to(world, utterance_index=7)
        await join(world, "n2")
        await doubt(world, "n2")
        assert await goes_to(world, utterance_index=7) == "n2"

    async def test_a_retry_avoids_those_who_have_seen_it_too(self, world: World) -> None:
        """n1 has seen it in an earlier job; n2 fails it now; n3 is left."""
        await join(world, "n1")
        await goes_to(world, utterance_index=7)
        await join(world, "n2")
        again = await submit(world, utterance_index=7)
        assert again.placed.node_id == "n2"
        await join(world, "n3")
        answer = await fail(world.engine, again.job_id, 1, "n2", reason="")
        assert isinstance(answer, Failed)
        assert answer.node_id == "n3"

    async def test_a_job_of_it_that_moved_has_been_seen_by_all_its_nodes(self, world: World) -> None:
        """Whoever moved it: the one that remembers need not be the one that hears of it."""
        await join(world, "n1")
        first = await submit(world, utterance_index=7)
        await join(world, "n2")
        await fail(world.engine, first.job_id, 1, "n1", reason="")
        await join(world, "n3")
        await fail(world.engine, first.job_id, 2, "n2", reason="")
        await done(world.engine, first.job_id, 3, "n3")
        await join(world, "n4", max_concurrent_jobs=1)
        again = await submit(world, utterance_index=7)
        assert again.placed.node_id == "n4"
        assert (await world.cell()).tickets[again.job_id].wish.seen == ["n1", "n2", "n3"]
        # There is no other: then better there than nowhere.
        assert (await submit(world, utterance_index=7)).placed.node_id in {"n1", "n2", "n3"}

    async def test_when_its_job_is_forgotten_the_first_node_still_counts(self, world: World) -> None:
        await join(world, "n1")
        first = await submit(world, utterance_index=7)
        await join(world, "n2")
        await fail(world.engine, first.job_id, 1, "n1", reason="")
        await done(world.engine, first.job_id, 2, "n2")
        await release(world.engine, first.job_id)
        world.now_ms += 300_000
        await sweep(world)
        assert (await world.cell()).jobs == {}
        assert await recall(world.engine, "s1", utterance_index=7) == Hints("", "n1", "", ("n1",))

    @pytest.mark.parametrize("asked", [{"bind_key": "t1"}, {"wanted": STICKY}, {"wanted": SPREAD}])
    async def test_neither_its_turn_nor_its_pool_brings_it_back_to_a_node_that_has_seen_it(
        self, world: World, asked: dict[str, Any]
    ) -> None:
        await join(world, "a0", labels={"group": "a"})
        await goes_to(world, utterance_index=7, **asked)
        await join(world, "b0", labels={"group": "b"})
        again = await submit(world, utterance_index=7, **asked)
        assert again.placed.node_id == "b0"
        met = {"bind_key": ["bound seen"], "wanted": ["pool full"] if asked.get("wanted") == STICKY else []}
        assert await reasons(world, again.job_id) == met[next(iter(asked))]

    async def test_the_only_node_of_its_turn_may_see_it_twice(self, world: World) -> None:
        await join(world, "n1")
        for _ in range(3):
            assert await goes_to(world, utterance_index=7, bind_key="t1") == "n1"

    async def test_a_session_that_does_not_number_them_has_not_seen_any(self, world: World) -> None:
        await join(world, "n1")
        await goes_to(world, bind_key="t1")
        hints = await recall(world.engine, "s1", utterance_index=0)
        assert hints == Hints("", "n1")


class TestTheUsualPolicy:
    """Of a job that names none, as the settings say."""

    async def test_it_is_that_of_the_submitter(self, world: World) -> None:
        await fleet(world, 2)
        submitter = Submitter(world.engine, CELL, policy="spread")
        nodes = []
        for _ in range(6):
            answer = await submitter.submit(Ask("s1", "en", "zh"))
            assert isinstance(answer, Submitted)
            nodes.append(answer.placed.node_id)
            await done(world.engine, answer.job_id, 1, answer.placed.node_id)
        assert nodes in (["n0", "n1"] * 3, ["n1", "n0"] * 3)
        assert {job.choice.policy for job in (await world.cell()).jobs.values()} == {Policy.spread}

    async def test_a_job_that_names_one_has_that(self, world: World) -> None:
        await fleet(world, 2)
        submitter = Submitter(world.engine, CELL, policy="spread")
        answer = await submitter.submit(Ask("s1", "en", "zh", wanted=Wanted(policy="least_loaded")))
        assert isinstance(answer, Submitted)
        assert (await world.cell()).jobs[answer.job_id].choice.policy == Policy.least_loaded
        assert await recall(world.engine, "s1") == Hints()


async def test_a_request_that_is_sent_again_is_the_same_job_on_the_same_node(world: World) -> None:
    """What was remembered of its first time does not drive it away."""
    await fleet(world, 4)
    submitter = Submitter(world.engine, CELL)
    ask = Ask("s1", "en", "zh", utterance_index=7, bind_key="t1", wanted=SPREAD, limits=Limits(max_retry=0))
    answers = [await submitter.submit(ask, request_id="r1") for _ in range(5)]
    assert len({answer.job_id for answer in answers if isinstance(answer, Submitted)}) == 1
    # The first carries it to its node, and nobody else.
    assert [isinstance(answer, Submitted) and answer.is_new for answer in answers] == [True, *[False] * 4]
    assert len((await world.cell()).jobs) == 1


async def test_pieces_of_a_turn_that_come_at_once_go_to_one_node(world: World) -> None:
    for node_id in ("n1", "n2", "n3", "n4"):
        await join(world, node_id, max_concurrent_jobs=8)
    submitter = Submitter(world.engine, CELL)
    ask = Ask("s1", "en", "zh", bind_key="turn-1")
    pieces = await asyncio.gather(*(submitter.submit(ask) for _ in range(6)))
    nodes = {piece.placed.node_id for piece in pieces if isinstance(piece, Submitted)}
    assert (len(pieces), len(nodes)) == (6, 1)


async def test_a_piece_that_waits_does_not_hold_up_the_next_one(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    submitter, ask = Submitter(world.engine, CELL), Ask("s1", "en", "zh", bind_key="turn-1")
    assert isinstance(await submitter.submit(ask), Submitted)
    patient = Ask("s1", "en", "zh", bind_key="turn-1", wanted=Wanted(wait_ms=60_000))
    waits = asyncio.create_task(submitter.submit(patient))
    while not (await world.cell()).queue:  # noqa: ASYNC110 - the engine tells
        await asyncio.sleep(0)
    assert code_of(await submitter.submit(ask)) == "ALL_CANDIDATES_FULL_OR_FAILED"
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)


async def test_a_caller_that_gives_up_lets_the_next_piece_go_on(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=8)
    submitter, ask = Submitter(world.engine, CELL), Ask("s1", "en", "zh", bind_key="turn-1")
    one, two, three = (asyncio.create_task(submitter.submit(ask)) for _ in range(3))
    await asyncio.sleep(0)
    one.cancel()
    two.cancel()
    assert isinstance(await three, Submitted)
    assert submitter._placer._turns._locks == {}


async def test_a_request_that_names_the_usual_policy_is_the_same_as_one_that_names_none(world: World) -> None:
    await join(world)
    submitter = Submitter(world.engine, CELL, policy="spread")
    asks = [Ask("s1", "en", "zh", wanted=Wanted(policy=policy)) for policy in ("", "spread", "random")]
    one, same, other = [await submitter.submit(ask, request_id="r1") for ask in asks]
    assert isinstance(one, Submitted)
    assert isinstance(same, Submitted)
    assert (same.job_id, code_of(other)) == (one.job_id, "IDEMPOTENCY_CONFLICT")
