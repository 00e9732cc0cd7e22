"""What of a session's audio is brought to the engine: what is new, or all of it if that is not sure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.front.sessions.saver import Change, NotSaved, Saver
from lingua_scheduler.front.sessions.state import Heard, Saved, Stream
from tests.support.logs import told
from tests.unit.front.sessions.talking import START_MS, chunk, talk

if TYPE_CHECKING:
    from collections.abc import Callable


class Engine:
    """Takes what it is brought, or answers as it is told."""

    def __init__(self) -> None:
        self.brought: list[tuple[Change | None, bool]] = []
        self.last: Saved | None = None
        self.answers: list[Refusal | Exception | None] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def put(self, saved: Saved, change: Change | None, *, create: bool) -> Refusal | None:
        self.brought.append((change, create))
        self.last = saved
        self.meanwhile()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def changes(self) -> list[Change | None]:
        changes = [change for change, _ in self.brought]
        self.brought.clear()
        return changes


class Speaker:
    """A session, and what it has heard."""

    def __init__(self, *, create: bool = True) -> None:
        self.front = 0
        self.parts: list[bytes | bytearray] = [b""]
        self.engine = Engine()
        machine = talk()
        machine.hear(chunk(0, b"aa"), START_MS)
        self.saver = Saver(machine.save, lambda: Heard(self.front, self.parts), self.engine.put, create=create)

    async def saves(self, *parts: bytes, left: int = 0) -> list[Change | None]:
        self.front, self.parts = self.front + left, list(parts)
        await self.saver.save()
        return self.engine.changes()


async def test_only_what_is_new_is_brought() -> None:
    speaker = Speaker()
    assert await speaker.saves(b"") == [None]
    assert await speaker.saves(b"ab") == [Change(0, b"ab")]
    assert await speaker.saves(b"abcd") == [Change(2, b"cd")]
    # Nothing is new, but it must be there.
    assert await speaker.saves(b"abcd") == [Change(4, b"")]
    assert await speaker.saves(b"abcdef", b"gh", b"ij") == [Change(4, b"efghij")]
    assert await speaker.saves(b"gh", b"ijkl", left=1) == [Change(0, b"ghijkl", 1)]
    assert await speaker.saves(b"gh", b"ijklmn", left=0) == [Change(6, b"mn", 1)]
    assert await speaker.saves(b"", left=2) == [Change(0, b"", 3)]
    assert await speaker.saves(b"", left=1) == [None]


async def test_what_is_heard_while_it_is_saved_is_brought_with_the_next() -> None:
    speaker = Speaker()
    opened = bytearray(b"ab")
    speaker.front, speaker.parts = 0, [opened]
    speaker.engine.meanwhile = lambda: opened.extend(b"cd")
    await speaker.saver.save()
    await speaker.saver.save()
    assert speaker.engine.changes() == [Change(0, b"ab"), Change(2, b"cd")]


async def test_whoever_goes_on_with_a_session_brings_all_of_it() -> None:
    speaker = Speaker(create=False)
    assert await speaker.saves(b"ab") == [Change(0, b"ab")]
    assert await speaker.saves(b"abc") == [Change(2, b"c")]


async def test_what_may_have_been_written_is_brought_again() -> None:
    speaker = Speaker()
    await speaker.saves(b"ab")
    speaker.engine.answers = [OutcomeUnknown("?")]
    with pytest.raises(OutcomeUnknown):
        await speaker.saves(b"abcd")
    speaker.engine.changes()
    assert await speaker.saves(b"abcd") == [Change(0, b"abcd")]


@pytest.mark.parametrize("lost", ["INVALID_SESSION", "UNKNOWN_AUDIO"])
async def test_what_the_engine_has_lost_is_brought_whole(lost: str) -> None:
    speaker = Speaker()
    await speaker.saves(b"ab")
    speaker.engine.answers = [refuse(lost, audio_ref="heard")]
    await speaker.saver.save()
    speaker.parts = [b"abcd"]
    speaker.engine.changes()
    speaker.engine.answers = [refuse(lost, audio_ref="heard")]
    await speaker.saver.save()
    assert speaker.engine.brought == [(Change(2, b"cd"), False), (Change(0, b"abcd"), True)]


async def test_an_engine_that_came_back_empty_gets_everything() -> None:
    speaker = Speaker()
    await speaker.saves(b"ab")
    speaker.saver.lost()
    await speaker.saver.save()
    assert speaker.engine.brought == [(Change(0, b"ab"), True)]


async def test_an_engine_without_memory_takes_the_rest_and_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    speaker = Speaker()
    await speaker.saves(b"ab")
    speaker.engine.answers = [DependencyDown("OOM", "full")]
    assert await speaker.saves(b"abcd") == [Change(2, b"cd"), Change(0, b"")]
    assert speaker.engine.last is not None
    # Nothing is heard that would have to be kept.
    assert speaker.engine.last.stream == Stream()
    speaker.engine.answers = [DependencyDown("OOM", "full")]
    await speaker.saves(b"abcdef")
    assert [one["session_id"] for one in told(caplog, "keep_heard")] == ["s-1"]
    assert await speaker.saves(b"abcdef") == [Change(0, b"abcdef")]
    assert speaker.engine.last.stream.size == 2
    speaker.engine.answers = [DependencyDown("OOM", "full")]
    await speaker.saves(b"abcdefgh")
    assert len(told(caplog, "keep_heard")) == 2


@pytest.mark.parametrize("why", [DependencyDown("UNREACHABLE", ""), DependencyDown("READONLY", "")])
async def test_an_engine_that_is_away_is_away(why: DependencyDown) -> None:
    speaker = Speaker()
    speaker.engine.answers = [why]
    with pytest.raises(DependencyDown):
        await speaker.saves(b"ab")
    assert len(speaker.engine.brought) == 1


async def test_without_audio_nothing_is_left_out() -> None:
    speaker = Speaker()
    speaker.engine.answers = [DependencyDown("OOM", "")]
    with pytest.raises(DependencyDown):
        await speaker.saves(b"")
    speaker.engine.answers = [refuse("RATE_LIMITED")]
    with pytest.raises(NotSaved):
        await speaker.saves(b"")
