"""The operator's commands against a scheduler that serves."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.flows.register import register
from lingua_scheduler.flows.route import route
from lingua_scheduler.operate.cli import app
from tests.contract.test_events import fail
from tests.support.house import LINGUA, eventually
from tests.support.people import PATIENCE_S
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from typer.testing import Result

    from tests.support.house import House

    Lingua = Callable[..., Awaitable[Result]]

NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]], "max_concurrent_jobs": 2}


@pytest.fixture
def lingua(house: House, monkeypatch: pytest.MonkeyPatch) -> Lingua:
    """The command, in a thread of its own: it asks the scheduler, which is here."""
    monkeypatch.setenv("LINGUA_URL", house.url)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    async def run(*words: str) -> Result:
        return await asyncio.to_thread(lambda: CliRunner().invoke(app, words))

    return run


async def told(lingua: Lingua, *words: str) -> dict[str, Any]:
    """What it says to a program."""
    result = await lingua(*words, "--json")
    assert result.exit_code == 0, result.output
    said: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return said


async def shown(lingua: Lingua, *words: str) -> str:
    """What it says to a person."""
    result = await lingua(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


async def refused(lingua: Lingua, *words: str) -> str:
    """In one line, why it did not do it."""
    result = await lingua(*words)
    assert isinstance(result.exception, LinguaError), result.output
    return str(result.exception)


async def test_a_node_is_shown_with_what_happened_to_it_and_why(house: House, lingua: Lingua) -> None:
    async with house.node("n1") as node:
        await node.register()
        await node.is_ready()
        for _ in range(3):
            last = await fail(node, house)
        house.serving.desk.marker.saw("n1", "whisper", "asr")

        async def is_told() -> bool:
            kinds = {event["kind"] for event in (await told(lingua, "nodes", "show", "n1"))["events"]}
            return {"node_suspect", "node_marked"} <= kinds

        await eventually(is_told)
        text = await shown(lingua, "nodes", "show", "n1")
    assert "3 of its last 5 jobs" in text
    assert f"the last was {last}: failed" in text.replace("\n", "")
    assert "whisper: MODEL_NOT_AVAILABLE, for 60 s" in text
    assert "whisper for another" in text
    assert "node_suspect" in await shown(lingua, "events", "--about", "n1")
    assert "node_suspect" not in await shown(lingua, "events", "--about", "n2")


async def test_of_many_at_once_every_name_has_its_line(house: House, lingua: Lingua) -> None:
    for number in range(14):
        await house.post("/v1/node/register", NODE | {"node_id": f"n{number}"})

    async def are_told() -> bool:
        return any("each" in event for event in (await told(lingua, "events"))["events"])

    await eventually(are_told)
    text = await shown(lingua, "events")
    assert "n10 and 3 more" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith(" ")] == ["n10", "n11", "n12", "n13"]
    assert "n12" in await shown(lingua, "nodes", "show", "n12")
    assert "it serves 1 pairs" in await shown(lingua, "events", "--about", "n12")


async def test_nodes_are_listed_and_shown(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE | {"labels": {"region": "eu"}})
    await house.post("/v1/node/register", NODE | {"node_id": "[red]n2[/red]"}, status=400)
    found = await told(lingua, "nodes", "list")
    assert [(node["node_id"], node["standing"]) for node in found["nodes"]] == [("n1", "available")]
    assert "available" in await shown(lingua, "nodes", "list")
    assert (await told(lingua, "nodes", "list", "--standing", "lost"))["nodes"] == []
    assert "standing must be one of" in await refused(lingua, "nodes", "list", "--standing", "tall")
    text = await shown(lingua, "nodes", "show", "n1")
    assert "0 of 2 taken" in text
    assert "region=eu" in text
    assert "UNKNOWN_NODE" in await refused(lingua, "nodes", "show", "nobody")


async def test_a_node_is_drained_waited_for_and_let_work_again(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    placed = await house.dispatch()
    late = await lingua("nodes", "drain", "n1", "--wait", "--timeout", "0")
    assert (late.exit_code, late.stdout.strip()) == (1, "n1 still has 1 of its slots taken")
    draining = asyncio.create_task(told(lingua, "nodes", "drain", "n1", "--wait"))
    await house.post("/v1/job/done", {"job_id": placed["job_id"], "attempt_id": 1, "node_id": "n1", "status": "ok"})
    assert await draining == {"ok": True, "node_id": "n1", "intent": "draining", "used": 0}
    assert (await told(lingua, "nodes", "resume", "n1"))["intent"] == "active"
    assert "gets no new jobs" in await shown(lingua, "nodes", "drain", "n1")
    assert (await told(lingua, "nodes", "evict", "n1"))["intent"] == "evicted"


async def test_whoever_waits_until_a_node_is_drained_outlives_a_restart(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    placed = await house.dispatch()
    async with Proxy(house.port) as proxy:
        draining = asyncio.ensure_future(lingua("nodes", "drain", "n1", "--wait", "--url", proxy.http))
        async with asyncio.timeout(PATIENCE_S):
            # It was asked for the drain, and is asked now how far that is.
            await proxy.accepted_more_than(1)
            proxy.sever()
            await proxy.refused_more_than(1)
        proxy.heal()
        await house.post("/v1/job/done", {"job_id": placed["job_id"], "attempt_id": 1, "node_id": "n1", "status": "ok"})
        result = await draining
    assert (result.exit_code, result.stdout) == (0, "n1 is drained: it has nothing to do, and gets nothing\n")
    lines = result.stderr.splitlines()
    assert lines
    assert all(line.startswith(f"lingua: no scheduler answers at {proxy.http}") for line in lines)


async def test_a_node_that_leaves_while_somebody_waits_until_it_is_drained_has_nothing_to_do(
    house: House, lingua: Lingua
) -> None:
    await house.post("/v1/node/register", NODE)
    await house.dispatch()
    draining = asyncio.ensure_future(lingua("nodes", "drain", "n1", "--wait"))

    async def is_drained() -> bool:
        return bool((await house.get("/v1/nodes/n1"))["intent"] == "draining")

    await eventually(is_drained)
    await house.post("/v1/node/offline", {"node_id": "n1"})
    result = await draining
    assert (result.exit_code, result.stdout) == (0, "n1 has left\n")
    # One that was never there is another matter.
    assert "UNKNOWN_NODE" in await refused(lingua, "nodes", "drain", "nobody", "--wait")


async def test_the_level_of_a_module_is_told_wherever_it_is_said_and_one_that_is_not_there_is_refused(
    lingua: Lingua,
) -> None:
    found = await told(lingua, "log-level", "front.door")
    assert [(one["module"], one["level"]) for one in found["modules"]] == [("lingua_scheduler.front.door", "info")]
    assert "front.door" in await shown(lingua, "log-level", "front.door")
    for name in ("door", "front.nothing"):
        assert "module must be one of" in await refused(lingua, "log-level", name)


async def test_slots_and_a_pairing_code(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    assert (await told(lingua, "nodes", "set-max", "n1", "1"))["max_concurrent_jobs"] == 1
    assert (await told(lingua, "nodes", "set-max", "n1", "auto"))["max_concurrent_jobs"] == 2
    for number in ("0", "1025"):
        refusal = await lingua("nodes", "set-max", "n1", number)
        assert refusal.exit_code == 2
        assert "from 1 to 1024" in refusal.stderr
    assert len((await told(lingua, "nodes", "pair", "n1"))["pairing_code"]) == 6


async def test_only_a_demo_kills_nodes(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    assert f"no demo runs at {house.url}: " in await refused(lingua, "nodes", "kill", "n1", "--url", house.url)


async def test_a_job_is_shown_explained_and_cancelled(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    job_id = (await house.dispatch())["job_id"]
    assert (await told(lingua, "jobs", "show", job_id))["state"] == "DISPATCHED"
    assert "en:zh" in await shown(lingua, "jobs", "show", job_id)
    why = await told(lingua, "jobs", "explain", job_id)
    assert [(one["node_id"], one["end"]) for one in why["attempts"]] == [("n1", "")]
    assert why["nodes"] is None
    text = await shown(lingua, "jobs", "explain", job_id, "--nodes")
    assert "goes on" in text
    assert "1 of 1 nodes could take a job now" in text
    assert (await told(lingua, "jobs", "cancel", job_id))["state"] == "CANCELLED"
    assert f"{job_id} is CANCELLED" in await shown(lingua, "jobs", "cancel", job_id)
    assert "cancelled by the operator" in await shown(lingua, "jobs", "explain", job_id)
    assert "UNKNOWN_JOB" in await refused(lingua, "jobs", "show", "c0.nothing")


async def test_jobs_are_listed_and_searched(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    first = (await house.dispatch("room-1"))["job_id"]
    await told(lingua, "jobs", "cancel", first)
    second = (await house.dispatch("room-2"))["job_id"]

    async def listed(*words: str) -> list[str]:
        return [one["job_id"] for one in (await told(lingua, "jobs", "list", *words))["jobs"]]

    assert await listed() == [second, first]
    assert await listed("--limit", "1") == [second]
    assert await listed("--session", "room-1") == await listed("room-1", "en:zh") == await listed(first) == [first]
    assert await listed("--state", "DISPATCHED") == await listed("--node", "n1", "--job", second) == [second]
    assert await listed("--pair", "zh:en") == []
    text = await shown(lingua, "jobs", "list")
    assert "CANCELLED" in text
    assert "cancelled by" in text
    assert "state must be one of" in await refused(lingua, "jobs", "list", "--state", "DONE")
    assert await shown(lingua, "jobs", "list", "room-3") == "no job fits\n"


async def test_what_a_node_gives_as_a_reason_is_no_command_to_a_terminal(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    placed = await house.dispatch()
    for attempt in (1, 2, 3):
        failed = {"job_id": placed["job_id"], "attempt_id": attempt, "node_id": "n1", "status": "error"}
        await house.post("/v1/job/fail", failed | {"reason": "\x1b[2Jgone\nFINISHED"})
    for words in (("list",), ("show", placed["job_id"]), ("explain", placed["job_id"])):
        text = await shown(lingua, "jobs", *words)
        assert "\\x1b[2Jgone\\nFINISHED" in text
        assert "\x1b" not in text


async def test_who_could_take_a_job_and_why_the_others_could_not(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    await house.post("/v1/node/register", NODE | {"node_id": "n2"})
    await house.post("/v1/nodes/n2/drain", {})
    text = await shown(lingua, "explain", "en", "zh")
    assert "en:zh: 1 of 2 nodes could take a job now." in text
    assert "no: draining" in text
    said = await told(lingua, "explain", "en", "zh", "--tts")
    assert {one["node_id"]: one["reason"] for one in said["nodes"]} == {"n1": "no_service", "n2": "no_service"}


async def test_every_page_is_read(house: House, lingua: Lingua, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lingua_scheduler.operate.ask.PAGE", "3")
    for number in range(7):
        await house.post("/v1/node/register", NODE | {"node_id": f"n{number}"})
    found = await told(lingua, "explain", "en", "zh")
    assert ({one["node_id"] for one in found["nodes"]}, found["cursor"]) == ({f"n{number}" for number in range(7)}, "")
    assert len((await told(lingua, "nodes", "list"))["nodes"]) == 7


async def test_where_there_is_nothing_that_is_said_with_what_to_do_next(lingua: Lingua) -> None:
    assert "lingua new node" in await shown(lingua, "nodes", "list")
    assert await shown(lingua, "nodes", "list", "--standing", "lost") == "no node is lost\n"
    assert "lingua nodes list" in await shown(lingua, "pools")
    assert await shown(lingua, "dlq", "list") == "no dead letters\n"
    assert await told(lingua, "dlq", "list") == {"letters": []}


async def test_pools_and_one_that_hangs_on_a_single_node(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    await house.stats()
    assert "en:zh !" in await shown(lingua, "pools")
    (pool,) = (await told(lingua, "pools"))["pools"]
    assert (pool["pair"], pool["slots"], pool["free"]) == ("en:zh", 2, 2)


async def test_one_look_at_the_top(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    await house.stats()
    said = await told(lingua, "top")
    assert [node["node_id"] for node in said["nodes"]] == ["n1"]
    assert said["stats"]["slots"]["total"] == 2


async def test_whom_nobody_answers_is_told_in_a_line(lingua: Lingua) -> None:
    assert "no scheduler answers at http://127.0.0.1:1" in await refused(lingua, "top", "--url", "127.0.0.1:1")


async def test_events_are_listed_in_lines_of_which_nothing_is_markup(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    await house.stats()
    await lingua("nodes", "drain", "[red]x")
    await lingua("nodes", "drain", "n1")
    found: dict[str, Any] = {}

    async def are_there() -> bool:
        found.update(await told(lingua, "events"))
        return {"pair_empty"} <= {event["kind"] for event in found["events"]}

    await eventually(are_there)
    kinds = [event["kind"] for event in found["events"]]
    assert kinds == ["instance_came", "node_joined", "admin_drain", "admin_drain", "pair_empty"]
    text = await shown(lingua, "events")
    assert [line.split()[2] for line in text.splitlines()] == kinds
    assert "by somebody without a name from 127.0.0.1: ok" in text
    assert "[red]x" in text
    last = await told(lingua, "events", "--limit", "1")
    assert [event["id"] for event in last["events"]] == [found["last"]]


async def test_no_name_of_a_service_begins_a_line_of_the_events(house: House, lingua: Lingua) -> None:
    await house.post("/v1/node/register", NODE)
    house.serving.desk.marker.saw("n1", "x\n2026-01-01 00:00:00  node_lost  n1\x1b[2J", "asr")

    async def is_marked() -> bool:
        return "node_marked" in {event["kind"] for event in (await told(lingua, "events"))["events"]}

    await eventually(is_marked)
    for words in (("events",), ("events", "--about", "n1"), ("nodes", "show", "n1")):
        lines = (await shown(lingua, *words)).splitlines()
        assert [line for line in lines if line.startswith("2026-01-01")] == []
        assert not any("\x1b" in line for line in lines)


async def test_whoever_follows_the_events_is_told_of_what_comes(house: House, tmp_path: Path) -> None:
    following = await asyncio.create_subprocess_exec(
        LINGUA, "events", "--follow", "--json", "--url", house.url, stdout=asyncio.subprocess.PIPE, cwd=tmp_path
    )
    assert following.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        assert json.loads(await following.stdout.readline())["kind"] == "instance_came"
        await house.post("/v1/node/register", NODE)
        event = json.loads(await following.stdout.readline())
    assert (event["kind"], event["about"]) == ("node_joined", "n1")
    following.send_signal(signal.SIGINT)
    assert await following.wait() == 0


async def test_a_link_that_signs_a_browser_in_is_made_for_the_address_that_was_asked(
    house: House, lingua: Lingua
) -> None:
    said = await told(lingua, "link")
    assert said["url"] == house.url + said["path"]
    assert (said["path"][:9], len(said["path"]), said["read_only"]) == ("/sign-in#", 52, False)
    assert (await told(lingua, "link", "--read-only"))["read_only"] is True
    text = await shown(lingua, "link", "--read-only")
    assert text.startswith(f"{house.url}/sign-in#")
    assert text.endswith("opens once, within 10 min, only to look\n")


async def test_a_guest_is_called_one(house: House, lingua: Lingua) -> None:
    """The job's node leaves, and the only other one of its pair is in another cell."""
    await house.post("/v1/node/register", NODE)
    placed = await house.dispatch()
    desk = house.serving.desk
    await desk.directory.begin("c1")
    await register(desk.engine, "c1", "far", semantic_langs=["en", "zh"], nmt_pairs=[["en", "zh"]])
    await route(desk.engine, "c1", ["en:zh"])
    desk.directory.know_home("far", "c1")
    await house.post("/v1/node/offline", {"node_id": "n1"})

    async def is_a_guest() -> bool:
        return bool((await house.get(f"/v1/job/{placed['job_id']}")).get("node_id") == "far")

    await eventually(is_a_guest)
    assert "n1 (left_early), far of c1 (goes on)" in await shown(lingua, "jobs", "show", placed["job_id"])
    assert f"{placed['job_id']} (a guest of another cell)" in await shown(lingua, "nodes", "show", "far")
    assert "guest c1" in await shown(lingua, "jobs", "explain", placed["job_id"])
