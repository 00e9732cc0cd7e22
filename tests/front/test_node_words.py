"""What a node says about an attempt, told to the engine, with nobody who relays."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import pytest

from lingua_scheduler.core.errors import DependencyDown, ScriptFailed
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.front.assignment import Assignment
from lingua_scheduler.front.nodes import words as node_words
from lingua_scheduler.front.nodes.words import Words, result_text
from lingua_scheduler.protocol.node import JobAck, JobResult, JobStarted, JobStopped
from lingua_scheduler.protocol.options import Pipeline
from lingua_scheduler.views.audio import read_audio
from tests.support.nodes import Stage

if TYPE_CHECKING:
    from lingua_scheduler.front.nodes.phases import AttemptMessage
    from tests.support.world import World

PLAIN: Final = Assignment(src_lang="en", tgt_lang="zh", pipeline=Pipeline())
SPEECH: Final = base64.b64encode(b"speech").decode()


class Scene(Stage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.now_ms = 0
        self.words = Words(world.engine, self.delivery, lambda: self.now_ms, result_ttl_ms=60_000)

    async def give(self, node_id: str = "n1") -> str:
        return await self.put(preferred_node_id=node_id)

    async def tell(self, message: AttemptMessage, node_id: str = "n1") -> str:
        """The code of the refusal; "" if it was taken."""
        link = self.links.get(node_id)
        assert link is not None
        refusal = await self.words.tell(link.known, message)
        return "" if refusal is None else refusal.code


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene(world)


async def test_who_fails_leaves_it_to_the_next_at_once(scene: Scene) -> None:
    """Nobody waits for the outbox."""
    await scene.join("n1")
    other = await scene.join("n2")
    job_id = await scene.give()
    assert await scene.tell(JobResult(job_id=job_id, attempt_id=1, success=False)) == ""
    await scene.delivery.close()
    assert [message["attempt_id"] for message in other.messages("job_assign")] == [2]


async def test_who_is_done_with_an_attempt_has_no_errand(scene: Scene) -> None:
    """Also if the job itself waits for another node."""
    await scene.join()
    job_id = await scene.give()
    assert await scene.tell(JobStopped(job_id=job_id, attempt_id=1)) == ""
    assert len(scene.delivery.errands) == 0


async def test_the_word_of_another_node_ends_nobodys_errand(scene: Scene) -> None:
    """It is refused, and whoever has the job is heard as before."""
    await scene.join("n1")
    await scene.join("n2")
    job_id = await scene.give("n1")
    for word in (JobResult(job_id=job_id, attempt_id=1, success=True), JobStopped(job_id=job_id, attempt_id=1)):
        assert await scene.tell(word, "n2") == "NODE_MISMATCH"
    assert await scene.tell(JobAck(job_id=job_id, attempt_id=1), "n1") == ""
    assert [errand.job_id for errand in scene.listeners.of("accepted")] == [job_id]


async def test_the_speech_of_a_job_that_has_just_ended_is_erased(scene: Scene) -> None:
    await scene.join()
    job_id = await scene.give()
    await cancel(scene.world.engine, job_id)
    assert scene.delivery.errands.get(job_id, "n1") is not None
    result = JobResult(job_id=job_id, attempt_id=1, success=True, tts_audio=SPEECH)
    assert await scene.tell(result) == "STALE_ATTEMPT"
    assert isinstance(await read_audio(scene.world.engine, f"{job_id}.1.tts"), Refusal)


async def test_a_node_whose_job_came_from_elsewhere_may_speak(scene: Scene) -> None:
    """This process was not there when it was carried."""
    await scene.join()
    job_id = await scene.give()
    scene.delivery.errands.drop(job_id, 1)
    result = JobResult(job_id=job_id, attempt_id=1, success=True, tts_audio=SPEECH)
    assert await scene.tell(result) == ""
    assert not isinstance(await read_audio(scene.world.engine, f"{job_id}.1.tts"), Refusal)


async def test_speech_that_is_too_much_is_a_failure(scene: Scene) -> None:
    await scene.join()
    job_id = await scene.give()
    large = base64.b64encode(bytes(4 * 1024 * 1024 + 1)).decode()
    result = JobResult(job_id=job_id, attempt_id=1, success=True, tts_audio=large)
    assert await scene.tell(result) == "PAYLOAD_TOO_LARGE"
    await scene.delivery.close()
    (past,) = (await scene.world.cell()).jobs[job_id].past.attempts
    assert past.cause == "failed"


async def test_who_speaks_to_an_engine_that_stays_away_is_told_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.join()
    job_id = await scene.give()

    def away(*_args: Any) -> Any:
        raise DependencyDown("TEST", "away")

    with monkeypatch.context() as patched:
        patched.setattr(node_words, "PATIENCE_S", 0.1)
        patched.setattr(scene.world.engine, "run", away)
        assert await scene.tell(JobStarted(job_id=job_id, attempt_id=1)) == "SCHEDULER_DEPENDENCY_DOWN"
    assert await scene.tell(JobStarted(job_id=job_id, attempt_id=1)) == ""


@pytest.mark.parametrize(("kind", "said"), [(JobAck, {}), (JobResult, {"success": True})], ids=["ack", "result"])
@pytest.mark.parametrize(
    ("most_s", "left_ms", "heard"),
    [(60.0, 5_000, True), (60.0, 0, False), (60.0, -5_000, False), (0.0, 5_000, False)],
)
async def test_that_a_node_has_a_job_and_its_result_are_told_again_until_the_jobs_time_is_over(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    kind: Any,
    said: dict[str, bool],
    most_s: float,
    left_ms: int,
    heard: bool,
) -> None:
    """But not for ever; and other words are not."""
    await scene.join()
    job_id = await scene.give()
    errand = scene.delivery.errands.get(job_id, "n1")
    assert errand is not None
    assert errand.deadline_ms > 0
    scene.now_ms = errand.deadline_ms - left_ms
    run, calls = scene.world.engine.run, 0

    def away_twice(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls <= 2:
            raise DependencyDown("TEST", "away")
        return run(*args)

    monkeypatch.setattr(node_words, "PATIENCE_S", 0.0)
    monkeypatch.setattr(node_words, "LONG_PATIENCE_S", most_s)
    monkeypatch.setattr(scene.world.engine, "run", away_twice)
    away = "SCHEDULER_DEPENDENCY_DOWN"
    assert await scene.tell(JobStarted(job_id=job_id, attempt_id=1)) == away
    calls = 0
    assert await scene.tell(kind(job_id=job_id, attempt_id=1, **said)) == ("" if heard else away)
    assert calls == (3 if heard else 1)


async def test_a_mistake_of_ours_is_not_called_an_outage(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.join()

    def broken(*_args: Any) -> Any:
        raise ScriptFailed("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(scene.world.engine, "run", broken)
        with pytest.raises(ScriptFailed):
            await scene.tell(JobAck(job_id="c0.a", attempt_id=1))


def test_a_result_is_what_the_node_said_without_what_is_known_of_it() -> None:
    message = JobResult(
        job_id="c0.a",
        attempt_id=1,
        node_id="n1",
        session_id="s1",
        trace_id="t1",
        utterance_index=3,
        success=True,
        text_asr="hi",
        tts_audio=SPEECH,
        processing_time_ms=12.5,
        segments_meta=[{"a": 1}],
    )
    assert result_text(message, "c0.a.1.tts") == (
        '{"tts_ref":"c0.a.1.tts","text_asr":"hi","processing_time_ms":12.5,"segments_meta":[{"a":1}]}'
    )
