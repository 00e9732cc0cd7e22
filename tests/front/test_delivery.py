"""Carrying jobs to their nodes, with links that write into a list."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.erase_audio import erase_audio
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.flows.store_audio import store_audio
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.assignment import Assignment, cargo_of
from lingua_scheduler.protocol.errors import CloseCode
from lingua_scheduler.protocol.frames import AudioFrame, decode_frame
from lingua_scheduler.protocol.options import Pipeline
from lingua_scheduler.views.audio import read_audio
from lingua_scheduler.views.job import Job, read_job
from lingua_scheduler.views.node import Node, read_node
from tests.support.nodes import TALKATIVE, Stage, Tape
from tests.support.stage import T0, join, place
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.nodes import Tape
    from tests.support.world import World

ASK: Final = Ask("s1", "en", "zh", utterance_index=7)
PLAIN: Final = Assignment(src_lang="en", tgt_lang="zh", pipeline=Pipeline(use_asr=True, use_nmt=True))
HEARD: Final = Assignment(src_lang="en", tgt_lang="zh", pipeline=Pipeline(), audio_ref="a1", has_own_audio=True)


@pytest.fixture
async def stage(world: World) -> AsyncIterator[Stage]:
    await store_audio(world.engine, "a1", b"sound", owner="", media="pcm16", ttl_ms=60_000)
    yield Stage(world)
    await erase_audio(world.engine, "a1")


async def put(stage: Stage, assignment: Assignment = PLAIN, ask: Ask = ASK, **more: Any) -> Submitted:
    submitted = await stage.delivery.place(ask, assignment, **more)
    assert isinstance(submitted, Submitted), submitted
    return submitted


async def job_of(stage: Stage, submitted: Submitted) -> Job:
    job = await read_job(stage.world.engine, submitted.job_id)
    assert isinstance(job, Job)
    return job


async def node_of(stage: Stage, node_id: str) -> Node:
    node = await read_node(stage.world.engine, CELL, node_id)
    assert isinstance(node, Node)
    return node


async def test_a_job_is_written_to_its_node_with_everything_it_must_know(stage: Stage) -> None:
    tape = await stage.join()
    submitted = await put(stage, trace_id="t1")
    assert tape.messages() == [
        {
            "type": "job_assign",
            "job_id": submitted.job_id,
            "attempt_id": 1,
            "session_id": "s1",
            "utterance_index": 7,
            "src_lang": "en",
            "tgt_lang": "zh",
            "dialect": None,
            "pipeline": {"use_asr": True, "use_nmt": True},
            "audio": "",
            "audio_format": "pcm16",
            "sample_rate": 16_000,
            "trace_id": "t1",
            "is_manual_cut": False,
            "is_timeout_triggered": False,
            "is_max_duration_triggered": False,
            "deadline_ms": T0 + 60_000,
        }
    ]
    await stage.noted()
    assert (await job_of(stage, submitted)).record.state == "DISPATCHED"


class TestWhatTheEngineHearsOfADelivery:
    """A node that acks says it itself, so for a moment it is waited for."""

    async def test_a_moment_later_it_hears_of_what_the_node_has_not_acknowledged(self, stage: Stage) -> None:
        await stage.join()
        submitted = await put(stage)
        assert (await job_of(stage, submitted)).record.state == "RESERVED"
        async with asyncio.timeout(10):
            while (await job_of(stage, submitted)).record.state != "DISPATCHED":
                pass
        assert len(stage.delivery.notes) == 0

    async def test_of_a_node_that_never_acks_it_hears_at_once(self, stage: Stage) -> None:
        await stage.join(advanced_features=[])
        submitted = await put(stage)
        assert len(stage.delivery.notes) == 0
        # What was told first is executed first.
        await asyncio.sleep(0)
        assert (await job_of(stage, submitted)).record.state == "ACCEPTED"

    async def test_what_the_node_has_acknowledged_is_not_told_again(self, stage: Stage) -> None:
        await stage.join()
        submitted = await put(stage)
        stage.delivery.accepted(submitted.job_id, "n1")
        assert len(stage.delivery.notes) == 0

    async def test_what_the_node_is_through_with_is_not_told_again(self, stage: Stage) -> None:
        await stage.join()
        submitted = await put(stage)
        stage.delivery.over(submitted.job_id, 1, "n1")
        assert len(stage.delivery.notes) == 0

    @pytest.mark.parametrize(("attempt_id", "node_id"), [(1, "n2"), (2, "n1")])
    async def test_what_others_say_of_it_counts_for_nothing(self, stage: Stage, attempt_id: int, node_id: str) -> None:
        await stage.join()
        submitted = await put(stage)
        stage.delivery.over(submitted.job_id, attempt_id, node_id)
        stage.delivery.accepted(submitted.job_id, "n2")
        assert len(stage.delivery.notes) == 1

    async def test_of_a_node_that_says_nothing_more_it_hears_at_once(self, stage: Stage) -> None:
        await asyncio.gather(stage.join("n1"), stage.join("n2"))
        asks = [msgspec.structs.replace(ASK, wanted=Wanted(preferred_node_id=node_id)) for node_id in ("n1", "n2")]
        first, second = [await put(stage, ask=ask) for ask in asks]
        stage.delivery.notes.tell_of("n1")
        await asyncio.sleep(0)
        states = [(await job_of(stage, one)).record.state for one in (first, second)]
        assert states == ["DISPATCHED", "RESERVED"]

    async def test_an_instance_that_stops_leaves_nothing_untold(self, stage: Stage) -> None:
        await stage.join()
        submitted = await put(stage)
        await stage.delivery.close()
        await asyncio.sleep(0)
        assert (await job_of(stage, submitted)).record.state == "DISPATCHED"


async def test_a_node_that_came_back_meanwhile_is_not_told_what_it_was_taken_off(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did not name what nobody had told it, and its slot was free at once: told now, it would have one too many."""
    await stage.join()
    link, submit = stage.links.get("n1"), stage.submitter.submit
    assert link is not None
    stage.links.remove(link)
    tapes = []

    async def and_it_comes_back(*asked: Any, **more: Any) -> Submitted | Refusal:
        submitted = await submit(*asked, **more)
        tapes.append(await stage.join(epoch=link.epoch, running=[]))
        return submitted

    monkeypatch.setattr(stage.submitter, "submit", and_it_comes_back)
    submitted = await put(stage)
    (tape,) = tapes
    assert stage.links.get("n1") is not None
    assert tape.messages("job_assign") == []
    assert (submitted.placed.state, submitted.placed.attempt_id) == ("RESERVED", 2)
    await stage.delivery.carry_again(submitted.job_id, 2)
    assert [message["attempt_id"] for message in tape.messages("job_assign")] == [2]


@pytest.mark.parametrize("running", [[], None])
async def test_nor_is_one_that_came_while_others_were_asked_for_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, running: list[Any] | None
) -> None:
    """One that does not tell what it runs was taken off nothing, and is told."""
    await stage.join()
    link = stage.links.get("n1")
    assert link is not None
    stage.links.remove(link)
    tell_holder = stage.neighbours.tell_holder
    tapes: list[Tape] = []

    async def and_it_comes_back(*letter: Any) -> bool:
        is_told = await tell_holder(*letter)
        if not tapes:
            tapes.append(await stage.join(epoch=link.epoch, running=running))
        return is_told

    monkeypatch.setattr(stage.neighbours, "tell_holder", and_it_comes_back)
    submitted = await put(stage)
    (tape,) = tapes
    told = [message["attempt_id"] for message in tape.messages("job_assign")]
    if running is None:
        assert (told, submitted.placed.state, submitted.placed.attempt_id) == ([1], "DISPATCHED", 1)
    else:
        assert (told, submitted.placed.state, submitted.placed.attempt_id) == ([], "RESERVED", 2)
        await stage.delivery.carry_again(submitted.job_id, 2)
        assert [message["attempt_id"] for message in tape.messages("job_assign")] == [2]


async def test_a_job_that_was_cancelled_while_its_audio_was_read_is_not_written(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node stopped what it had never heard of, and its one slot is another's."""
    tape = await stage.join(max_concurrent_jobs=1)
    first = await place(stage.world, f"{CELL}.first", body=HEARD.text())

    async def and_meanwhile(*asked: Any) -> Any:
        await cancel(stage.world.engine, f"{CELL}.first", "no")
        await stopped(stage.world.engine, f"{CELL}.first", 1, "n1", first.epoch)
        await place(stage.world, f"{CELL}.second", body=PLAIN.text())
        return await read_audio(*asked)

    monkeypatch.setattr("lingua_scheduler.front.delivery.read_audio", and_meanwhile)
    await stage.delivery.carry_again(f"{CELL}.first", 1)
    await stage.delivery.carry_again(f"{CELL}.second", 1)
    assert [message["job_id"] for message in tape.messages("job_assign")] == [f"{CELL}.second"]


async def test_what_somebody_may_have_written_stays_with_a_node_that_may_come_back(stage: Stage) -> None:
    """Whoever wrote it was killed before he could say so, and the letter or the event is somebody else's now."""
    await stage.join()
    await stage.join("n2")
    placed = await place(stage.world, f"{CELL}.first", body=PLAIN.text())
    link = stage.links.get(placed.node_id)
    assert link is not None
    stage.links.remove(link)
    await disconnect(stage.world.engine, CELL, placed.node_id, link.known.connection, "handover")
    for _ in range(2):
        await stage.delivery.carry_again(f"{CELL}.first", 1)
        job = (await stage.world.cell()).jobs[f"{CELL}.first"]
        assert (job.state, job.attempt, job.node) == ("RESERVED", 1, placed.node_id)


async def test_a_node_that_never_acks_accepts_by_the_write(stage: Stage) -> None:
    await stage.join(advanced_features=None)
    submitted = await put(stage)
    assert (await job_of(stage, submitted)).record.state == "ACCEPTED"
    assert [errand.job_id for errand in stage.listeners.of("accepted")] == [submitted.job_id]


async def test_it_is_written_in_the_tick_in_which_the_engine_answers(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else there is to do: where it went is remembered, and what its request stands for, afterwards."""
    tape = await stage.join()
    order: list[str] = []
    run, write = stage.world.engine.run, tape.write

    def runs(script: Any, *more: Any) -> Any:
        order.append(script.name)
        return run(script, *more)

    def writes(data: str | bytes, **more: Any) -> bool:
        order.append("write")
        return write(data, **more)

    monkeypatch.setattr(stage.world.engine, "run", runs)
    monkeypatch.setattr(tape, "write", writes)
    await put(stage, request_id="r1")
    dispatched = order.index("dispatch")
    assert order[dispatched:] == ["dispatch", "write", "remember", "seal"]


async def test_a_caller_who_goes_in_between_leaves_a_job_that_was_delivered(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He may send his request again, and the node has it already."""
    tape = await stage.join(advanced_features=None)
    run = stage.world.engine.run

    def leaves(script: Any, *more: Any) -> Any:
        if script.name == "seal":
            raise asyncio.CancelledError
        return run(script, *more)

    monkeypatch.setattr(stage.world.engine, "run", leaves)
    with pytest.raises(asyncio.CancelledError):
        await put(stage, request_id="r1")
    await stage.delivery.close()
    (job,) = (await stage.world.cell()).jobs.values()
    assert (job.state, len(tape.messages())) == ("ACCEPTED", 1)


@pytest.mark.parametrize(
    ("named", "assigned", "state"),
    [({"new_id": f"{CELL}.own"}, 1, "DISPATCHED"), ({"request_id": "r1"}, 1, "DISPATCHED"), ({}, 0, "CANCELLED")],
)
async def test_a_caller_who_goes_while_it_is_carried_leaves_what_others_can_name(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, named: dict[str, Any], assigned: int, state: str
) -> None:
    begun = asyncio.Event()

    async def hold_back(*_: Any) -> Any:
        begun.set()
        await asyncio.Future()

    tape = await stage.join()
    with monkeypatch.context() as patched:
        patched.setattr("lingua_scheduler.front.delivery.read_audio", hold_back)
        task = asyncio.create_task(stage.delivery.place(ASK, HEARD, **named))
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
    await stage.delivery.close()
    assert len(tape.messages("job_assign")) == assigned
    assert [job.state for job in (await stage.world.cell()).jobs.values()] == [state]


@pytest.mark.parametrize("request_id", ["", "r1"])
async def test_a_job_that_its_caller_cannot_hear_of_can_be_asked_for_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, request_id: str
) -> None:
    """Its node could not be written to, and the engine went away before it heard of that."""
    (await stage.join()).room = 0
    run, is_away = stage.world.engine.run, True

    def fails(script: Any, *more: Any) -> Any:
        if script.name == "undeliver" and is_away:
            raise DependencyDown("TEST", "away")
        return run(script, *more)

    monkeypatch.setattr(stage.world.engine, "run", fails)
    with pytest.raises(OutcomeUnknown) as unknown:
        await put(stage, request_id=request_id)
    is_away = False
    again = unknown.value.request_id
    assert again == request_id or not request_id
    submitted = await put(stage, request_id=again)
    assert isinstance(submitted, Submitted)
    ((job_id, job),) = (await stage.world.cell()).jobs.items()
    assert (submitted.job_id, job.state) == (job_id, "RESERVED")


async def test_a_number_that_was_not_asked_for_is_on_the_wire(stage: Stage) -> None:
    async def enters(_job_id: str) -> int:
        return 12

    tape = await stage.join()
    submitted = await put(stage, ask=Ask("s1", "en", "zh"), enters=enters)
    assert tape.messages()[0]["utterance_index"] == 12
    assert (await job_of(stage, submitted)).ticket.utterance == 12


class TestAFailedWrite:
    async def test_the_next_node_has_the_job_before_its_caller_hears(self, stage: Stage) -> None:
        """It costs no try, and the slot is free at once."""
        broken, whole = await stage.join("n1"), await stage.join("n2")
        broken.room = 0
        submitted = await put(stage, ask=Ask("s1", "en", "zh", wanted=Wanted(preferred_node_id="n1")))
        assert (submitted.placed.node_id, submitted.placed.attempt_id) == ("n2", 2)
        assert [message["attempt_id"] for message in whole.messages("job_assign")] == [2]
        assert (await node_of(stage, "n1")).record.used == 0
        assert (await job_of(stage, submitted)).record.past.tries == 0

    async def test_a_node_whose_link_has_another_epoch_is_not_written_to(self, stage: Stage) -> None:
        old, whole = await stage.join("n1"), await stage.join("n2")
        link = stage.links.get("n1")
        assert link is not None
        link.known.epoch = "another"
        submitted = await put(stage, ask=Ask("s1", "en", "zh", wanted=Wanted(preferred_node_id="n1")))
        assert submitted.placed.node_id == "n2"
        assert (len(old.messages()), len(whole.messages())) == (0, 1)

    async def test_without_another_node_the_job_stays_and_waits(self, stage: Stage) -> None:
        broken = await stage.join()
        broken.room = 0
        submitted = await put(stage)
        assert submitted.placed.state == "RETRYING"
        assert len(stage.delivery.errands) == 0

    async def test_the_event_of_an_attempt_that_was_carried_writes_nothing(self, stage: Stage) -> None:
        """Its own carrier was faster than the outbox."""
        broken, whole = await stage.join("n1"), await stage.join("n2")
        broken.room = 0
        submitted = await put(stage, ask=Ask("s1", "en", "zh", wanted=Wanted(preferred_node_id="n1")))
        await stage.delivery.carry_again(submitted.job_id, 2)
        assert len(whole.messages()) == 1

    async def test_a_node_that_got_half_of_it_is_hung_up_on(self, stage: Stage) -> None:
        torn = await stage.join("n1", advanced_features=[*TALKATIVE, "binary_audio"])
        torn.room = 1
        submitted = await put(stage, HEARD, audio=b"sound")
        await asyncio.sleep(0)
        assert torn.closed_with == CloseCode.OVERLOADED
        assert submitted.placed.state == "RETRYING"


class TestALaterAttempt:
    async def test_it_is_carried_with_the_same_assignment(self, stage: Stage) -> None:
        first, second = await stage.join("n1"), await stage.join("n2")
        submitted = await put(stage, HEARD, audio=b"sound", trace_id="t1")
        node_id = submitted.placed.node_id
        await fail(stage.world.engine, submitted.job_id, 1, node_id, reason="broken")
        await stage.delivery.carry_again(submitted.job_id, 2)
        told, again = (first, second) if node_id == "n1" else (second, first)
        (one,), (two,) = told.messages("job_assign"), again.messages("job_assign")
        assert two == one | {"attempt_id": 2}
        assert one["audio"] == base64.b64encode(b"sound").decode()

    async def test_one_that_is_over_is_not_carried(self, stage: Stage) -> None:
        tape = await stage.join()
        submitted = await put(stage)
        await done(stage.world.engine, submitted.job_id, 1, "n1")
        await stage.delivery.carry_again(submitted.job_id, 1)
        await stage.delivery.carry_again(submitted.job_id, 2)
        assert len(tape.messages()) == 1

    async def test_both_at_once_write_it_once(self, stage: Stage) -> None:
        first, second = await stage.join("n1"), await stage.join("n2")
        submitted = await put(stage)
        await fail(stage.world.engine, submitted.job_id, 1, submitted.placed.node_id, reason="broken")
        again = (stage.delivery.carry_again(submitted.job_id, 2) for _ in range(3))
        await asyncio.gather(*again)
        assert len(first.messages()) + len(second.messages()) == 2

    async def test_who_has_an_older_one_leaves_it_to_who_carries_the_later(self, stage: Stage) -> None:
        first, second = await stage.join("n1"), await stage.join("n2")
        submitted = await put(stage)
        await fail(stage.world.engine, submitted.job_id, 1, submitted.placed.node_id, reason="broken")
        cargo = cargo_of(await job_of(stage, submitted))
        assert cargo is not None
        carried = await asyncio.gather(
            stage.delivery.carry_again(submitted.job_id, 2),
            stage.delivery.carry(submitted.job_id, submitted.placed, cargo, None),
        )
        assert isinstance(carried[1], Refusal)
        assert sorted(job["attempt_id"] for job in first.messages() + second.messages()) == [1, 2]

    async def test_a_job_whose_audio_is_gone_is_cancelled(self, stage: Stage) -> None:
        await stage.join("n1")
        await stage.join("n2")
        submitted = await put(stage, HEARD, audio=b"sound")
        await fail(stage.world.engine, submitted.job_id, 1, submitted.placed.node_id, reason="broken")
        await erase_audio(stage.world.engine, "a1")
        await stage.delivery.carry_again(submitted.job_id, 2)
        job = await job_of(stage, submitted)
        assert (job.record.state, job.record.past.reason) == ("CANCELLED", "its audio is gone")

    async def test_a_job_that_waited_is_carried_by_who_hears_of_its_node(self, stage: Stage) -> None:
        tape = await stage.join(max_concurrent_jobs=1)
        first = await put(stage)
        waits = asyncio.ensure_future(put(stage, ask=Ask("s2", "en", "zh", wanted=Wanted(wait_ms=1_000))))
        while len((await stage.world.cell()).jobs) < 2:
            pass
        await done(stage.world.engine, first.job_id, 1, "n1")
        second = await waits
        assert len(tape.messages()) == 1
        await stage.delivery.carry_again(second.job_id, 1)
        assert [message["job_id"] for message in tape.messages()] == [first.job_id, second.job_id]


class TestAudio:
    async def test_own_audio_travels_in_the_message(self, stage: Stage) -> None:
        tape = await stage.join()
        await put(stage, HEARD, audio=b"sound")
        (message,) = tape.messages()
        assert (message["audio"], "audio_ref" in message) == (base64.b64encode(b"sound").decode(), False)

    async def test_it_is_read_where_the_caller_has_not_got_it(self, stage: Stage) -> None:
        tape = await stage.join()
        await put(stage, HEARD)
        assert tape.messages()[0]["audio"] == base64.b64encode(b"sound").decode()

    async def test_a_node_that_fetches_it_gets_the_reference(self, stage: Stage) -> None:
        tape = await stage.join(advanced_features=["audio_ref", "binary_audio"])
        await put(stage, HEARD, audio=b"sound")
        (message,) = tape.messages()
        assert (message["audio"], message["audio_ref"], len(tape.written)) == ("", "a1", 1)

    async def test_a_node_that_takes_frames_gets_one(self, stage: Stage) -> None:
        tape = await stage.join(advanced_features=["binary_audio"])
        await put(stage, HEARD, audio=b"sound")
        message, frame = tape.messages()[0], tape.written[1]
        assert message["audio"] == ""
        assert isinstance(frame, bytes)
        assert decode_frame(frame) == AudioFrame("s1", 7, 0, is_final=True, audio=b"sound")

    async def test_what_is_not_ours_is_handed_on_and_never_read(self, stage: Stage) -> None:
        tape = await stage.join()
        await put(stage, Assignment(src_lang="en", tgt_lang="zh", pipeline=Pipeline(), audio_ref="blob://x y"))
        assert (tape.messages()[0]["audio"], tape.messages()[0]["audio_ref"]) == ("", "blob://x y")


class TestANodeWithoutASocket:
    async def test_its_assignment_waits_in_its_mailbox(self, stage: Stage) -> None:
        await join(stage.world, "n1")
        with stage.delivery.mailbox_bell("n1") as bell:
            submitted = await put(stage, HEARD, audio=b"sound")
            assert await bell.wait(0)
        assert submitted.placed.state == "DISPATCHED"
        message = await stage.delivery.assignment_of(submitted.job_id, 1)
        assert not isinstance(message, Refusal)
        assert (message.job_id, message.audio) == (submitted.job_id, base64.b64encode(b"sound").decode())

    async def test_what_is_over_is_not_handed_out(self, stage: Stage) -> None:
        await join(stage.world, "n1")
        submitted = await put(stage)
        await done(stage.world.engine, submitted.job_id, 1, "n1")
        answer = await stage.delivery.assignment_of(submitted.job_id, 1)
        assert isinstance(answer, Refusal)
        assert answer.code == "STALE_ATTEMPT"

    async def test_one_whose_socket_is_not_here_has_no_mailbox(self, stage: Stage) -> None:
        await stage.join("n1")
        link = stage.links.get("n1")
        assert link is not None
        stage.links.remove(link)
        assert (await put(stage)).placed.state == "RETRYING"


async def test_a_refusal_reaches_the_caller(stage: Stage) -> None:
    answer = await stage.delivery.place(ASK, PLAIN)
    assert isinstance(answer, Refusal)
    assert answer.code == "NO_CAPABLE_NODE"


async def test_the_same_request_is_carried_once(stage: Stage) -> None:
    tape = await stage.join()
    first = await put(stage, request_id="r1")
    again = await put(stage, request_id="r1")
    assert (again.job_id, len(tape.messages())) == (first.job_id, 1)


async def test_what_was_written_while_the_engine_went_away_is_noted_when_it_is_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node has it: the caller is told so, and it is written no second time."""
    tape = await stage.join(advanced_features=None)
    run = stage.world.engine.run
    is_away = True

    def fails(script: Any, *more: Any) -> Any:
        if script.name == "deliver" and is_away:
            away = asyncio.get_running_loop().create_future()
            away.set_exception(DependencyDown("TEST", "away"))
            return away
        return run(script, *more)

    monkeypatch.setattr(stage.world.engine, "run", fails)
    submitted = await put(stage)
    assert submitted.placed.state == "RESERVED"
    await stage.delivery.carry_again(submitted.job_id, 1)
    assert len(tape.messages()) == 1
    assert (await job_of(stage, submitted)).record.state == "RESERVED"
    is_away = False
    await stage.delivery.close()
    assert (await job_of(stage, submitted)).record.state == "ACCEPTED"
