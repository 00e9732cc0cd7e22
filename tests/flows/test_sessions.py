"""The state of a session: saved by the connection that owns it, taken over by another, dropped at the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.records import MAX_GIVEN, Entry, Given
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.ticket import LAST_INDEX, MAX_INDEX
from lingua_scheduler.flows.drop_session import Dropped, drop_session
from lingua_scheduler.flows.enter_session import NOTHING, Coming, Entered, enter_session
from lingua_scheduler.flows.keep_heard import keep_heard
from lingua_scheduler.flows.return_number import return_number
from lingua_scheduler.flows.save_session import save_session
from lingua_scheduler.flows.sessions import MAX_HEARD_BYTES, MAX_STATE_BYTES, Saved
from lingua_scheduler.flows.take_session import Taken, take_session
from lingua_scheduler.store.keys import cell_key, session_tag
from lingua_scheduler.views.session import Session, read_session
from tests.support.cells import watch
from tests.support.stage import T0, code_of, join

if TYPE_CHECKING:
    from tests.support.world import World

#: Nothing that is text in any encoding.
STATE = bytes(range(256)) * 2


def key_of(world: World, name: str = "session") -> str:
    return cell_key(world.engine.prefix, session_tag("s1"), name)


async def save(world: World, owner: str = "one", state: bytes = STATE, **how: Any) -> Saved | Refusal:
    usual: dict[str, Any] = {"principal": "ann", "token": "secret", "ttl_ms": 120_000}
    return await save_session(world.engine, "s1", owner, state, **(usual | how))


async def keep(
    world: World, start: int, audio: bytes, owner: str = "one", state: bytes = STATE, **how: Any
) -> Saved | Refusal:
    usual: dict[str, Any] = {"principal": "ann", "token": "secret", "ttl_ms": 120_000}
    return await keep_heard(world.engine, "s1", owner, state, start=start, audio=audio, **(usual | how))


async def heard(world: World) -> bytes | None:
    """The audio beside the state."""
    found: bytes | None = await world.engine.command("GET", key_of(world, "heard"))
    return found


async def begin(world: World, **how: Any) -> None:
    assert await save(world, create=True, **how) == Saved()


async def take(world: World, owner: str = "two", **how: Any) -> Taken | Refusal:
    usual: dict[str, Any] = {"principal": "ann", "token": "secret", "ttl_ms": 120_000}
    return await take_session(world.engine, "s1", owner, **(usual | how))


async def enter(
    world: World,
    principal: str = "ann",
    *,
    index: int | None = None,
    owner: str = "",
    burst: int = 40,
    coming: Coming = NOTHING,
) -> Entered | Refusal:
    how: dict[str, Any] = {"rate": 20, "burst": burst, "ttl_ms": 60_000, "coming": coming}
    return await enter_session(world.engine, "s1", principal, utterance_index=index, owner=owner, **how)


async def lent(world: World) -> bytes | None:
    """The numbers that the session's connection has and did not save."""
    found: bytes | None = await world.engine.command("HGET", key_of(world), "lent")
    return found


async def kept(world: World) -> tuple[str, str, bytes, int] | None:
    """Owner, token and state as they are kept, and how many seconds they will live."""
    owner, token, state = await world.engine.command("HMGET", key_of(world), "owner", "token", "state")
    if owner is None:
        return None
    return owner.decode(), token.decode(), state, await seconds_left(world)


async def entry(world: World) -> Entry:
    return msgspec.msgpack.decode(await world.engine.command("GET", key_of(world, "entry")), type=Entry)


async def seconds_left(world: World, name: str = "session") -> int:
    return round(int(await world.engine.command("PTTL", key_of(world, name))) / 1000)


class TestSaving:
    async def test_its_creator_owns_it_for_the_resume_window(self, world: World) -> None:
        await begin(world)
        assert await kept(world) == ("one", "secret", STATE, 120)
        assert await entry(world) == Entry("ann", 0, 0, 0, [])
        assert await seconds_left(world, "entry") == 120
        assert await read_session(world.engine, "s1") == Session("ann", 0, "one")

    async def test_each_save_is_the_whole_state_and_gives_it_its_time_anew(self, world: World) -> None:
        await begin(world)
        await world.engine.command("PEXPIRE", key_of(world), 5_000)
        await world.engine.command("PEXPIRE", key_of(world, "entry"), 5_000)
        assert await save(world, state=b"", token="") == Saved()
        assert await kept(world) == ("one", "", b"", 120)
        assert await seconds_left(world, "entry") == 120

    async def test_it_may_be_saved_for_less_but_whose_it_is_stays_as_long_as_was_said(self, world: World) -> None:
        await begin(world)
        await save(world, ttl_ms=30_000)
        assert (await seconds_left(world), await seconds_left(world, "entry")) == (30, 120)

    async def test_saves_of_one_tick_come_one_by_one(self, world: World) -> None:
        answers = await asyncio.gather(
            save(world, state=b"1", create=True),
            save(world, state=b"2"),
            save(world, "two", b"3", create=True),
            save(world, state=b"4", principal="bob"),
        )
        assert [code_of(answer) for answer in answers] == ["", "", "SESSION_TAKEN", "FORBIDDEN"]
        assert await kept(world) == ("one", "secret", b"2", 120)

    async def test_only_its_owner_saves_it(self, world: World) -> None:
        await begin(world)
        for create in (False, True):
            refusal = await save(world, "two", b"x", create=create, ttl_ms=1_000, next_index=9)
            assert isinstance(refusal, Refusal)
            assert (refusal.code, refusal.status, refusal.retryable) == ("SESSION_TAKEN", 409, False)
        assert await kept(world) == ("one", "secret", STATE, 120)
        assert await entry(world) == Entry("ann", 0, 0, 0, [])

    async def test_another_principal_does_not_save_it_even_as_its_owner(self, world: World) -> None:
        await begin(world)
        for who in ("bob", ""):
            assert code_of(await save(world, state=b"x", principal=who, create=True)) == "FORBIDDEN"
        assert await kept(world) == ("one", "secret", STATE, 120)

    async def test_a_session_that_is_not_there_is_saved_by_its_creator_alone(self, world: World) -> None:
        assert code_of(await save(world)) == "INVALID_SESSION"
        assert await world.keys() == 0
        await begin(world)
        await world.engine.command("PEXPIRE", key_of(world), 0)
        assert code_of(await save(world)) == "INVALID_SESSION"
        assert await kept(world) is None

    async def test_nobody_creates_what_another_principal_entered_before(self, world: World) -> None:
        await enter(world, "bob")
        assert code_of(await save(world, create=True)) == "FORBIDDEN"
        assert await kept(world) is None

    async def test_it_is_no_part_of_a_cell(self, world: World) -> None:
        await join(world)
        _, changes = await watch(world, begin(world))
        assert changes == {}


class TestHearing:
    async def test_it_is_saved_with_what_was_heard_and_both_are_taken_together(self, world: World) -> None:
        assert await keep(world, 0, b"\x00ab", create=True, next_index=4) == Saved()
        assert await kept(world) == ("one", "secret", STATE, 120)
        assert (await entry(world)).next == 4
        assert await seconds_left(world, "heard") == 120
        assert await take(world) == Taken("one", STATE, b"\x00ab")

    async def test_it_grows_where_it_ended_and_gets_its_time_anew(self, world: World) -> None:
        await keep(world, 0, b"ab", create=True)
        await world.engine.command("PEXPIRE", key_of(world, "heard"), 5_000)
        assert await keep(world, 2, b"cd", state=b"2") == Saved()
        assert (await heard(world), await seconds_left(world, "heard")) == (b"abcd", 120)
        assert await keep(world, 0, b"x", ttl_ms=30_000) == Saved()
        assert (await heard(world), await seconds_left(world, "heard")) == (b"x", 30)

    @pytest.mark.parametrize("start", [1, 3])
    async def test_what_does_not_go_on_where_it_ended_changes_nothing(self, world: World, start: int) -> None:
        await keep(world, 0, b"ab", create=True)
        assert code_of(await keep(world, start, b"cd", state=b"2")) == "UNKNOWN_AUDIO"
        assert await take(world) == Taken("one", STATE, b"ab")

    async def test_a_save_leaves_it_as_it_is_until_there_is_nothing(self, world: World) -> None:
        await keep(world, 0, b"ab", create=True)
        await save(world, state=b"2")
        assert await take(world, "one") == Taken("one", b"2", b"ab")
        await save(world, state=b"3", is_silent=True)
        assert await heard(world) is None
        assert await take(world, "one") == Taken("one", b"3", b"")

    async def test_what_is_heard_in_one_tick_is_kept_one_by_one(self, world: World) -> None:
        answers = await asyncio.gather(
            keep(world, 0, b"ab", create=True), keep(world, 2, b"cd", state=b"2"), keep(world, 4, b"ef", state=b"3")
        )
        assert [code_of(answer) for answer in answers] == ["", "", ""]
        assert await take(world) == Taken("one", b"3", b"abcdef")

    async def test_what_was_heard_before_is_not_taken_for_what_is_heard_now(self, world: World) -> None:
        """A server that takes over may have forgotten the last writes, and both may be of one length."""
        await keep(world, 0, b"early", create=True)
        names = ("entry", "session", "heard")
        before = {name: await world.engine.command("DUMP", key_of(world, name)) for name in names}
        assert await keep(world, 0, b"later", state=b"2", front=1) == Saved()
        for name, dumped in before.items():
            await world.engine.command("RESTORE", key_of(world, name), 120_000, dumped, "REPLACE")
        assert code_of(await keep(world, 5, b"on", state=b"3", front=1)) == "UNKNOWN_AUDIO"
        assert code_of(await save(world, state=b"3", front=1, size=5)) == "UNKNOWN_AUDIO"
        assert await take(world, "one") == Taken("one", STATE, b"early")
        assert await keep(world, 0, b"lateron", state=b"3", front=1) == Saved()
        assert await keep(world, 7, b"!", state=b"4", front=1) == Saved()
        assert await take(world, "one") == Taken("one", b"4", b"lateron!")

    async def test_what_must_be_there_is_looked_at_and_gets_its_time_anew(self, world: World) -> None:
        await keep(world, 0, b"ab", create=True, front=7)
        await world.engine.command("PEXPIRE", key_of(world, "heard"), 5_000)
        for front, size in ((7, 3), (6, 2)):
            assert code_of(await save(world, state=b"2", front=front, size=size)) == "UNKNOWN_AUDIO"
        assert (await kept(world), await seconds_left(world, "heard")) == (("one", "secret", STATE, 120), 5)
        assert await save(world, state=b"2", front=7, size=2) == Saved()
        assert (await heard(world), await seconds_left(world, "heard")) == (b"ab", 120)

    async def test_only_its_owner_is_heard(self, world: World) -> None:
        assert code_of(await keep(world, 0, b"ab")) == "INVALID_SESSION"
        assert await heard(world) is None
        await keep(world, 0, b"ab", create=True)
        for start in (0, 2):
            assert code_of(await keep(world, start, b"x", "two")) == "SESSION_TAKEN"
            assert code_of(await keep(world, start, b"x", principal="bob")) == "FORBIDDEN"
        assert code_of(await save(world, "two", is_silent=True)) == "SESSION_TAKEN"
        assert await heard(world) == b"ab"

    async def test_it_lives_as_long_as_what_it_belongs_to(self, world: World) -> None:
        await keep(world, 0, b"ab", create=True, ttl_ms=30_000)
        await take(world, ttl_ms=60_000)
        assert await seconds_left(world, "heard") == 60
        await take(world, ttl_ms=1_000)
        assert await seconds_left(world, "heard") == 60
        assert code_of(await drop_session(world.engine, "s1", "one")) == "SESSION_TAKEN"
        assert await heard(world) == b"ab"
        await drop_session(world.engine, "s1", "two")
        assert await heard(world) is None

    async def test_others_are_not_told_what_was_heard(self, world: World) -> None:
        await keep(world, 0, b"ab", create=True)
        for how in ({"principal": "bob"}, {"token": "guess"}):
            assert code_of(await take(world, **how)) == "INVALID_SESSION"

    async def test_an_engine_without_memory_takes_the_state_alone(self, world: World) -> None:
        await keep(world, 0, b"ab", create=True)
        await world.engine.command("CONFIG", "SET", "maxmemory", "1")
        try:
            with pytest.raises(DependencyDown, match="OOM"):
                await keep(world, 2, b"cd", state=b"2")
            assert await save(world, state=b"3", is_silent=True) == Saved()
        finally:
            await world.engine.command("CONFIG", "SET", "maxmemory", "0")
        assert await take(world) == Taken("one", b"3", b"")

    async def test_too_much_is_refused(self, world: World) -> None:
        await begin(world)
        refusal = await keep(world, 8, bytes(MAX_HEARD_BYTES - 7))
        assert code_of(refusal) == "PAYLOAD_TOO_LARGE"
        assert code_of(await keep(world, 0, b"")) == "INVALID_MESSAGE"
        assert code_of(await keep(world, -1, b"x")) == "INVALID_MESSAGE"
        assert await heard(world) is None


class TestNumbers:
    async def test_a_session_that_was_begun_is_entered_by_its_principal_alone(self, world: World) -> None:
        await begin(world)
        assert [code_of(await enter(world, who)) for who in ("bob", "")] == ["FORBIDDEN"] * 2
        assert await enter(world) == Entered(0, owner="one")

    async def test_a_session_that_has_entered_nothing_yet_may_send_its_full_burst(self, world: World) -> None:
        await begin(world)
        assert [code_of(answer) for answer in await asyncio.gather(*(enter(world) for _ in range(41)))] == [""] * 40 + [
            "RATE_LIMITED"
        ]

    async def test_a_save_leaves_the_numbers_and_the_bucket_alone(self, world: World) -> None:
        await begin(world)
        await enter(world)
        before = await entry(world)
        await save(world)
        await save(world, next_index=1)
        assert await entry(world) == before == Entry("ann", 1, 39_000, world.now_ms, [])

    async def test_numbers_go_on_from_where_the_owner_knows_them(self, world: World) -> None:
        await begin(world, next_index=5)
        assert [await enter(world), await save(world, next_index=3), await enter(world)] == [
            Entered(5, owner="one"),
            Saved(),
            Entered(6, owner="one"),
        ]

    async def test_numbers_go_on_after_the_last_that_anybody_may_give(self, world: World) -> None:
        await begin(world, next_index=MAX_INDEX + 1)
        assert await enter(world) == Entered(MAX_INDEX + 1, owner="one")
        assert await save(world, next_index=MAX_INDEX + 2) == Saved()

    async def test_an_engine_that_lost_everything_is_told_again_by_whoever_holds_the_state(self, world: World) -> None:
        await begin(world)
        await enter(world)
        await world.engine.command("DEL", key_of(world), key_of(world, "entry"))
        assert code_of(await save(world)) == "INVALID_SESSION"
        assert await save(world, create=True, next_index=1) == Saved()
        assert await kept(world) == ("one", "secret", STATE, 120)
        assert await enter(world) == Entered(1, owner="one")


class TestNumbersThatWereLent:
    """What a connection was given and never saved, it never placed: who goes on can have it again."""

    async def test_who_goes_on_has_what_was_not_saved(self, world: World) -> None:
        await begin(world)
        assert [await enter(world, owner="one") for _ in range(3)] == [Entered(0), Entered(1), Entered(2)]
        assert await save(world, next_index=1) == Saved()
        await take(world)
        assert await lent(world) is None
        assert code_of(await enter(world, index=0, owner="two")) == "INVALID_MESSAGE"
        assert await enter(world, index=2, owner="two") == Entered(2)
        assert await enter(world, index=1, owner="two") == Entered(1)
        assert await enter(world, owner="two") == Entered(3)
        assert await lent(world) == b"\x02\x01\x03"

    async def test_what_was_saved_is_the_sessions_own(self, world: World) -> None:
        await begin(world)
        await enter(world, owner="one")
        await enter(world, owner="one")
        assert await lent(world) == b"\x00\x01"
        await save(world, next_index=1)
        assert await lent(world) == b"\x01"
        await save(world, next_index=2)
        assert await lent(world) is None
        await take(world)
        assert code_of(await enter(world, index=0, owner="two")) == "INVALID_MESSAGE"

    async def test_what_others_have_stays_theirs(self, world: World) -> None:
        await begin(world)
        assert await enter(world) == Entered(0, owner="one")
        assert await lent(world) is None
        await take(world)
        assert code_of(await enter(world, index=0, owner="two")) == "INVALID_MESSAGE"

    async def test_what_was_given_back_meanwhile_is_free_once(self, world: World) -> None:
        await begin(world)
        await enter(world, owner="one")
        await return_number(world.engine, "s1", "ann", 0)
        await take(world)
        assert (await entry(world)).free == [(0, 0)]

    async def test_who_was_succeeded_gets_no_number(self, world: World) -> None:
        await begin(world)
        await take(world)
        before = await entry(world)
        assert code_of(await enter(world, owner="one")) == "SESSION_TAKEN"
        assert await entry(world) == before
        assert await lent(world) is None

    async def test_who_takes_his_own_session_keeps_what_he_was_lent(self, world: World) -> None:
        await begin(world)
        await enter(world, owner="one")
        await take(world, "one")
        assert await lent(world) == b"\x00"
        assert code_of(await enter(world, index=0, owner="one")) == "INVALID_MESSAGE"

    async def test_nothing_is_lent_to_a_session_that_is_not_there(self, world: World) -> None:
        assert await enter(world, owner="one") == Entered(0)
        assert await kept(world) is None
        assert await lent(world) is None

    async def test_what_is_refused_is_not_lent(self, world: World) -> None:
        await begin(world)
        assert await enter(world, owner="one", burst=1) == Entered(0)
        assert code_of(await enter(world, owner="one", burst=1)) == "RATE_LIMITED"
        assert await lent(world) == b"\x00"


class TestNumbersThatOthersWereGiven:
    """Whoever goes on with a session hears of them: the last owner may not have been told."""

    async def test_who_goes_on_hears_which_jobs_have_them(self, world: World) -> None:
        await begin(world)
        await enter(world, owner="one", coming=Coming("c0.own", "t", 60_000))
        assert await enter(world, coming=Coming("c0.j1", "trace", 60_000)) == Entered(1, owner="one")
        assert await enter(world, index=7, coming=Coming("c0.j7", "", 1)) == Entered(7, owner="one")
        assert await enter(world) == Entered(8, owner="one")
        given = (Given(1, "c0.j1", "trace", 60_000), Given(7, "c0.j7", "", 1))
        assert await take(world) == Taken("one", STATE, b"", given)
        assert await take(world, "three") == Taken("two", STATE, b"", given), "the one before may not have saved it"

    async def test_only_of_a_session_that_has_a_connection(self, world: World) -> None:
        assert await enter(world, coming=Coming("c0.j0", "t", 60_000)) == Entered(0)
        assert await kept(world) is None
        await begin(world, next_index=1)
        assert await take(world) == Taken("one", STATE)

    async def test_what_is_refused_was_not_given(self, world: World) -> None:
        await begin(world)
        await enter(world, index=0, burst=1, coming=Coming("c0.j0", "t", 60_000))
        assert code_of(await enter(world, index=0, coming=Coming("c0.j1", "t", 60_000))) == "INVALID_MESSAGE"
        assert code_of(await enter(world, burst=1, coming=Coming("c0.j2", "t", 60_000))) == "RATE_LIMITED"
        assert code_of(await enter(world, "bob", coming=Coming("c0.j3", "t", 60_000))) == "FORBIDDEN"
        assert await take(world) == Taken("one", STATE, b"", (Given(0, "c0.j0", "t", 60_000),))

    async def test_what_was_given_back_is_nobodys(self, world: World) -> None:
        await begin(world)
        for index in (3, 4, 5):
            await enter(world, index=index, coming=Coming(f"c0.j{index}", "t", 60_000))
        await return_number(world.engine, "s1", "ann", 4)
        await return_number(world.engine, "s1", "ann", 9)
        left = (Given(3, "c0.j3", "t", 60_000), Given(5, "c0.j5", "t", 60_000))
        assert await take(world) == Taken("one", STATE, b"", left)
        for index in (3, 5):
            await return_number(world.engine, "s1", "ann", index)
        assert await take(world, "three") == Taken("two", STATE, b"")
        assert await enter(world, index=4, coming=Coming("c0.again", "t", 60_000)) == Entered(4, owner="three")
        assert await take(world, "four") == Taken("three", STATE, b"", (Given(4, "c0.again", "t", 60_000),))

    async def test_only_the_last_of_them(self, world: World) -> None:
        await begin(world)
        for number in range(MAX_GIVEN + 2):
            await enter(world, burst=1_000, coming=Coming(f"c0.j{number}", "t", 60_000))
        taken = await take(world)
        assert isinstance(taken, Taken)
        assert [one.utterance for one in taken.given] == [*range(2, MAX_GIVEN + 2)]

    @pytest.mark.parametrize("wrong", [Coming("j" * 129), Coming("j", "t" * 129), Coming("j", "t", -1)])
    async def test_a_job_that_cannot_be_one_is_refused(self, world: World, wrong: Coming) -> None:
        assert code_of(await enter(world, coming=wrong)) == "INVALID_MESSAGE"
        assert await kept(world) is None


class TestTaking:
    async def test_a_newcomer_goes_on_and_the_last_owner_is_over(self, world: World) -> None:
        await begin(world)
        assert await take(world) == Taken("one", STATE)
        assert await kept(world) == ("two", "secret", STATE, 120)
        assert code_of(await save(world, state=b"late")) == "SESSION_TAKEN"
        assert await save(world, "two", b"next") == Saved()
        assert await take(world, "three") == Taken("two", b"next")

    async def test_who_takes_it_twice_has_it_still(self, world: World) -> None:
        await begin(world)
        assert [await take(world), await take(world)] == [Taken("one", STATE), Taken("two", STATE)]

    async def test_of_two_in_one_tick_the_last_has_it(self, world: World) -> None:
        await begin(world)
        answers = await asyncio.gather(*(take(world, owner) for owner in ("two", "three")))
        assert answers == [Taken("one", STATE), Taken("two", STATE)]
        assert [code_of(await save(world, owner)) for owner in ("two", "three")] == ["SESSION_TAKEN", ""]

    @pytest.mark.parametrize("is_saved", [True, False])
    async def test_of_two_connections_the_one_counts_that_was_opened_later(self, world: World, is_saved: bool) -> None:
        """Whoever was read late, by an instance that slept. The newer one came back to its owner, or took it over."""
        await begin(world, opened_ms=T0 - 9)
        if is_saved:
            await save(world, opened_ms=T0 - 5)
        else:
            await take(world, "one", opened_ms=T0 - 5)
        before = await kept(world)
        late = await take(world, opened_ms=T0 - 6)
        assert (code_of(late), await kept(world)) == ("SESSION_TAKEN", before)
        for owner, opened_ms in (("two", T0 - 5), ("three", T0 - 4)):
            assert isinstance(await take(world, owner, opened_ms=opened_ms), Taken)

    async def test_whoever_may_not_have_it_is_not_told_that_he_is_late(self, world: World) -> None:
        await begin(world, opened_ms=T0)
        assert code_of(await take(world, principal="bob", opened_ms=1)) == "INVALID_SESSION"

    async def test_a_clock_that_went_back_locks_nobody_out(self, world: World) -> None:
        await begin(world, opened_ms=T0 + 9_000)
        assert await take(world, opened_ms=T0) == Taken("one", STATE)

    @pytest.mark.parametrize("size", [0, 1, MAX_STATE_BYTES])
    async def test_the_state_comes_back_whole(self, world: World, size: int) -> None:
        state = (STATE * (size // len(STATE) + 1))[:size]
        await begin(world, state=state)
        assert await take(world) == Taken("one", state)

    @pytest.mark.parametrize(
        "how",
        [{"principal": "bob"}, {"principal": ""}, {"token": "Secret"}, {"token": ""}],
        ids=str,
    )
    async def test_who_may_not_have_it_is_told_that_there_is_none(self, world: World, how: dict[str, str]) -> None:
        there_is_none = await take(world)
        assert isinstance(there_is_none, Refusal)
        assert (there_is_none.code, there_is_none.status) == ("INVALID_SESSION", 404)
        await begin(world)
        before = await kept(world)
        assert await take(world, **how) == there_is_none
        assert await kept(world) == before

    async def test_nobody_takes_a_session_whose_window_is_over(self, world: World) -> None:
        await begin(world, token="")
        await world.engine.command("PEXPIRE", key_of(world), 0)
        assert code_of(await take(world, token="")) == "INVALID_SESSION"
        assert await kept(world) is None

    async def test_nobody_takes_a_session_that_was_only_entered(self, world: World) -> None:
        await enter(world)
        assert code_of(await take(world, token="")) == "INVALID_SESSION"
        assert await kept(world) is None

    @pytest.mark.parametrize(("ttl_ms", "left_s"), [(60_000, 120), (300_000, 300)])
    async def test_who_takes_it_gives_it_time_and_never_less(self, world: World, ttl_ms: int, left_s: int) -> None:
        await begin(world)
        await take(world, ttl_ms=ttl_ms)
        assert [await seconds_left(world), await seconds_left(world, "entry")] == [left_s] * 2


class TestDropping:
    async def test_nobody_takes_what_its_owner_dropped(self, world: World) -> None:
        await begin(world)
        assert await drop_session(world.engine, "s1", "one") == Dropped(True)
        assert await world.engine.command("EXISTS", key_of(world)) == 0
        assert code_of(await take(world)) == "INVALID_SESSION"
        assert code_of(await save(world)) == "INVALID_SESSION"
        assert await read_session(world.engine, "s1") == Session("ann", 0, "")

    async def test_its_numbers_and_whose_it_was_stay_for_their_time(self, world: World) -> None:
        await begin(world, next_index=4)
        await drop_session(world.engine, "s1", "one")
        assert [code_of(await enter(world, "bob")), await enter(world)] == ["FORBIDDEN", Entered(4)]

    async def test_what_is_dropped_twice_is_gone(self, world: World) -> None:
        await begin(world)
        answers = await asyncio.gather(*(drop_session(world.engine, "s1", "one") for _ in range(2)))
        assert answers == [Dropped(True), Dropped(False)]

    async def test_who_was_succeeded_drops_nothing(self, world: World) -> None:
        await begin(world)
        await take(world)
        assert code_of(await drop_session(world.engine, "s1", "one")) == "SESSION_TAKEN"
        assert await kept(world) == ("two", "secret", STATE, 120)


@pytest.mark.parametrize(
    "how",
    [
        {"owner": ""},
        {"owner": "a:b"},
        {"state": "text"},
        {"state": bytes(MAX_STATE_BYTES + 1)},
        {"ttl_ms": 0},
        {"ttl_ms": 2_678_400_001},
        {"principal": "a b"},
        {"token": "t" * 129},
        {"token": None},
        {"next_index": -1},
        {"next_index": LAST_INDEX + 1},
        {"create": 1},
    ],
    ids=lambda how: str(how)[:30],
)
async def test_what_cannot_be_saved_is_invalid_and_writes_nothing(world: World, how: dict[str, Any]) -> None:
    assert code_of(await save(world, **({"create": True} | how))) == "INVALID_MESSAGE"
    assert await world.keys() == 0


@pytest.mark.parametrize(
    "how", [{"owner": "{x}"}, {"principal": None}, {"token": 7}, {"ttl_ms": 0}, {"ttl_ms": 2_678_400_001}], ids=str
)
async def test_what_cannot_be_taken_is_invalid_and_changes_nothing(world: World, how: dict[str, Any]) -> None:
    await begin(world)
    assert code_of(await take(world, **how)) == "INVALID_MESSAGE"
    assert await kept(world) == ("one", "secret", STATE, 120)


@pytest.mark.parametrize("session_id", ["", "s:1", "s{1}", None])
async def test_what_is_no_session_is_invalid(world: World, session_id: str) -> None:
    answers = [
        await save_session(world.engine, session_id, "one", b"", 1_000, create=True),
        await take_session(world.engine, session_id, "one", ttl_ms=1_000),
        await drop_session(world.engine, session_id, "one"),
        await drop_session(world.engine, "s1", "o:ne"),
    ]
    assert [code_of(answer) for answer in answers] == ["INVALID_MESSAGE"] * 4
    assert await world.keys() == 0
