from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown, ScriptFailed
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.scripts import Script, compose
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server


def script(name: str, body: str) -> Script:
    return compose(name, lambda _: f"#!lua\n{body}")


def journal(name: str) -> Script:
    """A script that writes down its name and items in the order of execution, and gives the items back."""
    return script(
        name,
        f"""local out = {{}}
        for i = 3, #ARGV do
          redis.call('RPUSH', KEY.outbox, '{name}:' .. ARGV[i])
          out[#out + 1] = ARGV[i]
        end
        return out""",
    )


ACK, DONE, DISPATCH, LEAVE = journal("ack"), journal("done"), journal("dispatch"), journal("leave")


@pytest.fixture
async def engine(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    async with await Engine.connect(server.url, prefix=request.node.name) as engine:
        yield engine


async def written(engine: Engine, cell: str = "c0") -> list[str]:
    entries: list[bytes] = await engine.command("LRANGE", f"{engine.prefix}:{{{cell}}}:outbox", 0, -1)
    return [entry.decode() for entry in entries]


async def number(engine: Engine, section: str, name: str) -> int:
    found = re.search(rf"{name}[:=](?:calls=)?(\d+)", (await engine.command("INFO", section)).decode())
    return int(found[1]) if found else 0


async def test_calls_of_one_tick_flow_and_cell_are_one_script_call(engine: Engine) -> None:
    before = await number(engine, "commandstats", "cmdstat_evalsha")
    answers = await asyncio.gather(*(engine.run(ACK, "c0", (b"%d" % i,)) for i in range(10)))
    assert answers == [b"%d" % i for i in range(10)]
    assert await number(engine, "commandstats", "cmdstat_evalsha") == before + 1
    assert await written(engine) == [f"ack:{i}" for i in range(10)]


async def test_another_cell_is_another_script_call(engine: Engine) -> None:
    before = await number(engine, "commandstats", "cmdstat_evalsha")
    await asyncio.gather(*(engine.run(ACK, cell, (b"x",)) for cell in ("c0", "c1", "c0")))
    assert await number(engine, "commandstats", "cmdstat_evalsha") == before + 2
    assert await written(engine, "c0") == ["ack:x", "ack:x"]
    assert await written(engine, "c1") == ["ack:x"]


async def test_all_calls_of_one_tick_are_one_write(engine: Engine) -> None:
    await engine.run(ACK, "c0", (b"x",))
    before = await number(engine, "stats", "total_reads_processed")
    waiting: list[asyncio.Future[Any]] = [engine.command("PING")]
    waiting += [engine.run(flow, cell, (b"x",)) for flow in (DISPATCH, ACK, DONE) for cell in ("c0", "c1")]
    waiting.append(engine.command("PING"))
    await asyncio.gather(*waiting)
    # The second is the question itself.
    assert await number(engine, "stats", "total_reads_processed") == before + 2


async def test_the_flows_of_one_tick_go_out_in_the_fixed_order(engine: Engine) -> None:
    calls = [DISPATCH, DONE, ACK, DISPATCH, LEAVE, ACK, DONE]
    await asyncio.gather(*(engine.run(flow, "c0", (b"%d" % i,)) for i, flow in enumerate(calls)))
    assert await written(engine) == [
        *("ack:2", "ack:5", "done:1", "done:6", "leave:4", "dispatch:0", "dispatch:3"),
    ]


async def test_a_later_tick_never_overtakes_an_earlier_one(engine: Engine) -> None:
    first = engine.run(DISPATCH, "c0", (b"1",))
    await asyncio.sleep(0)
    await asyncio.gather(first, engine.run(ACK, "c0", (b"2",)))
    assert await written(engine) == ["dispatch:1", "ack:2"]


async def test_a_batch_has_a_cap(server: Server, request: pytest.FixtureRequest) -> None:
    async with await Engine.connect(server.url, prefix=request.node.name, max_batch=4) as engine:
        before = await number(engine, "commandstats", "cmdstat_evalsha")
        answers = await asyncio.gather(*(engine.run(ACK, "c0", (b"%d" % i,)) for i in range(10)))
        assert answers == [b"%d" % i for i in range(10)]
        assert await number(engine, "commandstats", "cmdstat_evalsha") == before + 3
        assert await written(engine) == [f"ack:{i}" for i in range(10)]


@pytest.mark.parametrize(("max_batch", "runs"), [(64, 3), (5, 4)])
async def test_a_flow_that_may_have_much_to_do_has_a_cap_of_its_own(
    server: Server, request: pytest.FixtureRequest, max_batch: int, runs: int
) -> None:
    """The lower of the two counts; the order of the items stays, and other flows are folded as before."""
    async with await Engine.connect(server.url, prefix=request.node.name, max_batch=max_batch) as engine:
        before = await number(engine, "commandstats", "cmdstat_evalsha")
        answers = await asyncio.gather(*(engine.run(LEAVE, "c0", (b"%d" % i,)) for i in range(20)))
        assert answers == [b"%d" % i for i in range(20)]
        assert await number(engine, "commandstats", "cmdstat_evalsha") == before + runs
        assert await written(engine) == [f"leave:{i}" for i in range(20)]


async def test_a_script_gets_clock_rules_and_the_parts_of_every_item(
    server: Server, request: pytest.FixtureRequest
) -> None:
    pairs = script("claim", "return {ARGV[1] .. ARGV[2] .. ARGV[3] .. ARGV[4], ARGV[5] .. ARGV[6]}")
    url, prefix = server.url, request.node.name
    async with await Engine.connect(url, prefix, b"\x00rules\r\n", lambda: 1_700_000_000_123) as engine:
        items = [(b"a", b"b"), (b"", b"\r\n")]
        answers = await asyncio.gather(*(engine.run(pairs, "c0", item) for item in items))
        assert answers == [b"1700000000123\x00rules\r\nab", b"\r\n"]
    async with await Engine.connect(url, prefix) as engine:
        assert await asyncio.gather(*(engine.run(pairs, "c0", (b"a", b"b")) for _ in range(2))) == [b"ab", b"ab"]


async def test_an_item_of_another_width_is_refused_before_it_could_shift_its_neighbours(engine: Engine) -> None:
    first = engine.run(ACK, "c0", (b"x",))
    with pytest.raises(ValueError, match="has 1 parts, not 2"):
        engine.run(ACK, "c0", (b"y", b"z"))
    assert await first == b"x"


async def test_an_item_that_cannot_be_sent_hurts_only_its_caller(engine: Engine) -> None:
    first = engine.run(ACK, "c0", (b"x",))
    with pytest.raises(TypeError):
        engine.run(ACK, "c0", ("text",))  # type: ignore[arg-type]  # that is the point
    assert await first == b"x"


async def test_commands_take_text_numbers_and_bytes(engine: Engine) -> None:
    key = f"{engine.prefix}:text"
    assert await engine.command("SET", key, "ж") == b"OK"
    assert await engine.command(b"APPEND", key, 7) == 3
    assert await engine.command("GET", key) == "ж7".encode()
    assert await engine.command("GET", f"{key}:none") is None
    with pytest.raises(ScriptFailed, match="WRONGTYPE"):
        await engine.command("LPUSH", key, "x")


# Scripts that the engine has forgotten.


async def test_a_script_flush_is_healed_and_nobody_notices(engine: Engine) -> None:
    await asyncio.gather(engine.run(ACK, "c0", (b"0",)), engine.run(DISPATCH, "c0", (b"0",)))
    loads = await number(engine, "commandstats", r"cmdstat_script\|load")
    await engine.command("SCRIPT", "FLUSH")
    waiting = [engine.run(flow, "c0", (b"%d" % i,)) for flow in (DISPATCH, ACK) for i in (1, 2)]
    await asyncio.sleep(0)
    waiting += [engine.run(flow, "c0", (b"%d" % i,)) for flow in (DISPATCH, ACK) for i in (3, 4)]
    assert await asyncio.gather(*waiting) == [b"1", b"2", b"1", b"2", b"3", b"4", b"3", b"4"]
    # The order of the two ticks has survived, and each script was loaded again once.
    assert await written(engine) == [
        *("ack:0", "dispatch:0", "ack:1", "ack:2", "dispatch:1", "dispatch:2"),
        *("ack:3", "ack:4", "dispatch:3", "dispatch:4"),
    ]
    assert await number(engine, "commandstats", r"cmdstat_script\|load") == loads + 2


async def test_calls_made_while_scripts_are_loaded_again_come_after_those_that_wait_for_it(engine: Engine) -> None:
    await asyncio.gather(engine.run(ACK, "c0", (b"0",)), engine.run(DONE, "c0", (b"0",)))
    flushed = engine.command("SCRIPT", "FLUSH")
    early = engine.run(DONE, "c0", (b"1",))
    await flushed  # the reply to `early`, NOSCRIPT, came with it
    late = [engine.run(ACK, "c0", (b"2",)), engine.command("RPUSH", f"{engine.prefix}:{{c0}}:outbox", "plain")]
    await asyncio.gather(early, *late)
    assert await written(engine) == ["ack:0", "done:0", "done:1", "plain", "ack:2"]


async def test_a_new_script_does_not_overtake_those_that_are_loaded_again(
    server: Server, request: pytest.FixtureRequest
) -> None:
    async with (
        Proxy(server.path) as proxy,
        await Engine.connect(proxy.url, prefix=request.node.name, timeout_ms=5000) as engine,
    ):
        await asyncio.gather(engine.run(ACK, "c0", (b"0",)), engine.run(DONE, "c0", (b"0",)))
        proxy.dribble = 1
        waiting: list[asyncio.Future[Any]] = [engine.command("SCRIPT", "FLUSH")]
        waiting += [engine.run(ACK, "c0", (b"1",)), engine.run(DONE, "c0", (b"1",))]
        async with asyncio.timeout(5):
            # One NOSCRIPT has come, the other is still on its way.
            while not engine._held:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert engine._on_way == {"c0": 1}
        await asyncio.gather(*waiting, engine.run(LEAVE, "c0", (b"2",)))
        assert await written(engine) == ["ack:0", "done:0", "ack:1", "done:1", "leave:2"]


async def test_a_script_that_does_not_compile_says_so_and_harms_no_other(engine: Engine) -> None:
    broken = script("fail", "this is no Lua")
    bad, good = engine.run(broken, "c0", (b"x",)), engine.run(ACK, "c0", (b"y",))
    with pytest.raises(ScriptFailed, match="fail: ERR Error compiling script"):
        await bad
    assert await good == b"y"


# Errors inside scripts.


async def test_an_error_inside_a_script_names_script_and_line(engine: Engine) -> None:
    dying = script("done", "redis.call('SET', KEY.jobs, 'text')\nlocal x = nil\nreturn {x.field}")
    with pytest.raises(ScriptFailed, match=r"done, line 4 `return \{x.field\}`: .*attempt to index"):
        await engine.run(dying, "c0", (b"x",))


async def test_an_error_of_a_command_inside_a_script_is_the_scripts_whatever_its_word(engine: Engine) -> None:
    """It may have written before, so it must not pass for a refusal."""
    body = "redis.call('SET', KEY.jobs, 'x')\nerror('OOM of its own making')"
    with pytest.raises(ScriptFailed, match="OOM of its own making"):
        await engine.run(script("done", body), "c0", (b"x",))


@pytest.mark.parametrize("reply", ["{}", "{'a', 'b', 'c'}", "'a'", "1"])
async def test_a_reply_of_the_wrong_shape_is_nobodys(engine: Engine, reply: str) -> None:
    wrong = script("ack", f"return {reply}")
    outcomes = await asyncio.gather(*(engine.run(wrong, "c0", (b"x",)) for _ in range(2)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ScriptFailed, ScriptFailed]


async def test_an_answer_that_is_no_text_fails_its_own_caller_only(engine: Engine) -> None:
    mixed = script("ack", "return {'a', 1}")
    outcomes = await asyncio.gather(*(engine.run(mixed, "c0", (b"x",)) for _ in range(2)), return_exceptions=True)
    assert outcomes[0] == b"a"
    assert isinstance(outcomes[1], ScriptFailed)


# The end.


async def test_closing_ends_every_call_with_the_truth(server: Server, request: pytest.FixtureRequest) -> None:
    engine = await Engine.connect(server.url, prefix=request.node.name)
    sent = [engine.run(ACK, "c0", (b"x",)), engine.command("PING")]
    await asyncio.sleep(0)
    unsent = [engine.run(DONE, "c0", (b"x",)), engine.command("PING")]
    await engine.close()
    late = [engine.run(DISPATCH, "c0", (b"x",)), engine.command("PING")]
    outcomes = await asyncio.gather(*sent, *unsent, *late, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown] * 2 + [DependencyDown] * 4
    assert {outcome.reason for outcome in outcomes if isinstance(outcome, DependencyDown)} == {"CLOSED"}
    await engine.close()


async def test_of_a_script_that_only_reads_nothing_is_unknown(server: Server, request: pytest.FixtureRequest) -> None:
    engine = await Engine.connect(server.url, prefix=request.node.name)
    look = compose("look", lambda _: "#!lua flags=no-writes\nreturn { 'seen' }")
    assert await engine.run(look, "c0", (b"x",)) == b"seen"
    sent = [engine.run(look, "c0", (b"x",)), engine.run(ACK, "c0", (b"x",))]
    await asyncio.sleep(0)
    await engine.close()
    read, write = await asyncio.gather(*sent, return_exceptions=True)
    assert isinstance(read, DependencyDown)
    assert read.reason == "SILENT"
    assert isinstance(write, OutcomeUnknown)


def test_a_loop_that_ends_before_the_engine_is_closed_ends_quietly(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async def forgetful() -> None:
        engine = await Engine.connect(server.url)
        engine.run(ACK, "c0", (b"x",))
        await asyncio.sleep(0)
        engine.run(ACK, "c0", (b"y",))

    asyncio.run(forgetful())
    assert not caplog.records
