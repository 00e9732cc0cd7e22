"""Nodes as programs of their own: `check`, `dev`, `start`, the examples, and what `lingua new` writes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from tests.support.house import LINGUA, House, eventually
from tests.support.people import SILENCE
from tests.support.programs import ran, started

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


async def uttered(house: House, src: str = "en", tgt: str = "es", **said: Any) -> Any:
    """What becomes of one utterance."""
    async with house.client() as client:
        await client.init(src_lang=src, tgt_lang=tgt, **said)
        await client.utter(0, src_lang=src, tgt_lang=tgt, audio=SILENCE)
        return await client.end_of(0)


async def test_in_production_a_node_logs_json_and_drains_on_sigterm(house: House) -> None:
    async with started(EXAMPLES / "echo_node.py", "start", LINGUA_URL=house.url, LINGUA_NODE_ID="echo") as node:
        joined = json.loads(await node.line('"joined"'))
        assert (joined["node_id"], joined["pools"], joined["level"]) == ("echo", ["en:es"], "info")
        result = await uttered(house)
        assert (result["text_translated"], result["tts_audio"]) == ("0.1 segundos", SILENCE)
        job = json.loads(await node.line('"job"'))
        assert (job["pair"], job["outcome"], job["audio_bytes"]) == ("en:es", "ok", 3_200)
        assert "segundos" not in "".join(node.lines)
        assert await node.end(signal.SIGTERM) == 0
    (left,) = (await house.get("/v1/nodes"))["nodes"]
    assert left["reported"] == "offline"


async def test_a_blocking_model_in_two_languages_both_ways(house: House) -> None:
    async with started(EXAMPLES / "two_languages.py", "start", "--url", house.url) as node:
        await node.line('"joined"')
        assert (await uttered(house, "en", "zh"))["text_translated"] == "早上好"
        assert (await uttered(house, "zh", "en"))["text_translated"] == "good morning"
        both = {"mode": "two_way_auto", "lang_a": "zh", "lang_b": "en"}
        assert (await uttered(house, "auto", "en", **both))["text_asr"] == "早上好"
        assert await node.end(signal.SIGTERM) == 0


WORDS = """
from lingua_scheduler.sdk import Node
node = Node(["en", "es"], pairs=[("en", "es")])
@node.job
async def say(job):
    return {"text_asr": "WORD"}
node.cli()
"""


SLOW = """
import time
from lingua_scheduler.sdk import Node
node = Node(["en", "es"], pairs=[("en", "es")], drain_s=60)
@node.job
def work(job):
    job.partial("at it")
    while not job.payload.get("short") and not job.is_cancelled:
        time.sleep(0.01)
    return {"text_asr": "done"}
node.cli()
"""


async def test_the_first_signal_lets_jobs_end_and_the_second_does_not(house: House, tmp_path: Path) -> None:
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    async with started(file, "start", "--url", house.url) as node:
        await node.line('"joined"')
        placed = await house.dispatch(tgt_lang="es")
        await eventually(lambda: runs(house, placed["job_id"]))
        node.process.send_signal(signal.SIGTERM)
        assert json.loads(await node.line('"draining"'))["jobs"] == 1
        assert await node.end(signal.SIGTERM) == 130
    await house.post("/v1/job/cancel", {"job_id": placed["job_id"]})


BLOCKED = """
import sys, time
from lingua_scheduler.sdk import Node
node = Node(["en", "es"], pairs=[("en", "es")])
@node.job
async def work(job):
    print("blocked", file=sys.stderr, flush=True)
    time.sleep(600)
node.cli()
"""


async def test_a_second_signal_ends_a_node_whose_handler_blocks_the_loop(house: House, tmp_path: Path) -> None:
    file = tmp_path / "blocked.py"
    file.write_text(BLOCKED)
    async with started(file, "start", "--url", house.url) as node:
        await node.line('"joined"')
        await house.dispatch(tgt_lang="es")
        await node.line("blocked")
        # Of the same signal twice one may be lost.
        assert await node.end(signal.SIGTERM, signal.SIGINT) == 130


CLINGING = """
import asyncio, sys, time
from lingua_scheduler.sdk import Node
node = Node(["en", "es"], pairs=[("en", "es")], drain_s=0)
async def swallow():
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            print("not me", file=sys.stderr, flush=True)
async def in_thread():
    await asyncio.to_thread(time.sleep, 600)
@node.job
async def work(job):
    print("at it", file=sys.stderr, flush=True)
    await HOW()
node.cli()
"""


@pytest.mark.parametrize("how", ["swallow", "in_thread"])
async def test_a_node_ends_though_its_handler_does_not(house: House, tmp_path: Path, how: str) -> None:
    file = tmp_path / "clinging.py"
    file.write_text(CLINGING.replace("HOW", how))
    async with started(file, "start", "--url", house.url) as node:
        await node.line('"joined"')
        await house.dispatch(tgt_lang="es")
        await node.line("at it")
        assert await node.end(signal.SIGTERM) == 0


WAITING = """
import time
from pathlib import Path
from lingua_scheduler.sdk import Node
node = Node(["en", "es"], pairs=[("en", "es")], drain_s=60)
@node.job
def work(job):
    while not Path(job.payload["until"]).exists():
        time.sleep(0.01)
    return {"text_asr": "done"}
node.cli()
"""


async def test_a_job_that_is_here_at_sigterm_is_done_before_the_node_goes(house: House, tmp_path: Path) -> None:
    file, until = tmp_path / "waiting.py", tmp_path / "until"
    file.write_text(WAITING)
    async with started(file, "start", "--url", house.url) as node:
        await node.line('"joined"')
        placed = await house.dispatch(tgt_lang="es", payload={"until": str(until)})
        await eventually(lambda: runs(house, placed["job_id"]))
        node.process.send_signal(signal.SIGTERM)
        await node.line('"draining"')
        until.touch()
        assert await node.end() == 0
    job = await house.ended(placed["job_id"])
    assert (job["state"], job["attempt_id"], job["result"]["text_asr"]) == ("FINISHED", 1, "done")


LOADING = WORDS.replace(
    "@node.job",
    """@node.setup
def load():
    import sys, time
    print("loading", file=sys.stderr, flush=True)
    time.sleep(600)
@node.job""",
)


async def test_a_node_that_is_told_to_go_while_it_loads_its_models_goes(tmp_path: Path) -> None:
    file = tmp_path / "loading.py"
    file.write_text(LOADING)
    async with started(file, "start") as node:
        await node.line("loading")
        assert await node.end(signal.SIGTERM) == 0


FAILING = LOADING.replace("time.sleep(600)", "RAISES")


@pytest.mark.parametrize("raises", ["int('much')", "open('/no/such/model')", "{}['model']"])
async def test_a_setup_that_fails_is_told_with_its_place(tmp_path: Path, raises: str) -> None:
    file = tmp_path / "failing.py"
    file.write_text(FAILING.replace("RAISES", raises))
    code, _, err = await ran(sys.executable, file, "start")
    said = json.loads(err.splitlines()[-1])
    assert (code, said["level"], said["event"]) == (1, "error", "the set-up failed")
    assert 'failing.py", line' in said["traceback"]
    assert "in load" in said["traceback"]
    code, _, err = await ran(sys.executable, file, "check")
    assert (code, "in load" in err) == (1, True)


async def runs(house: House, job_id: str) -> bool:
    state: str = (await house.get(f"/v1/job/{job_id}"))["state"]
    return state == "RUNNING"


async def test_dev_starts_again_when_the_file_changes_and_survives_a_mistake_in_it(
    house: House, tmp_path: Path
) -> None:
    file = tmp_path / "my_node.py"
    file.write_text(WORDS.replace("WORD", "first"))
    async with started(file, "dev", "--url", house.url) as node:
        await node.line("joined")
        assert (await uttered(house))["text_asr"] == "first"
        assert "ok" in await node.line("en:es")
        file.write_text("this is no Python")
        await node.line("my_node.py changed")
        await node.line("it starts again when a file changes")
        file.write_text(WORDS.replace("WORD", "second"))
        await node.line("joined")
        assert (await uttered(house))["text_asr"] == "second"
        assert await node.end(signal.SIGINT) == 0


async def test_nothing_is_left_running_when_the_reloader_is_killed(house: House, tmp_path: Path) -> None:
    file = tmp_path / "my_node.py"
    file.write_text(WORDS)
    async with started(file, "dev", "--url", house.url) as node:
        await node.line("joined")
        node.process.kill()
        await eventually(lambda: is_gone(house))


async def is_gone(house: House) -> bool:
    return len(list(house.serving.desk.links)) == 0


async def test_a_node_that_is_not_let_in_says_why_in_one_line(server: Any) -> None:
    async with House(server.url, **{"auth.node_tokens": ["fleet:0123456789abcdef"]}).open() as house:
        code, out, err = await ran(sys.executable, EXAMPLES / "echo_node.py", "start", "--url", house.url)
    assert (code, out) == (2, "")
    assert "echo_node.py: the scheduler refuses: UNAUTHENTICATED" in err
    assert "Traceback" not in err


async def test_a_token_that_cannot_be_one_is_told_in_one_line_without_it(house: House) -> None:
    said, shown = "LINGUA_TOKEN is no token", {"LINGUA_TOKEN": "SEC\nRET"}
    for command in ((sys.executable, EXAMPLES / "echo_node.py", "start"), (LINGUA, "nodes", "list")):
        code, out, err = await ran(*command, "--url", house.url, **shown)
        assert (code, out, err.count("\n"), said in err, "RET" in err) == (2, "", 1, True, False)


async def test_an_address_of_the_environment_counts_only_where_it_is_needed(house: House) -> None:
    file, wrong = EXAMPLES / "echo_node.py", {"LINGUA_URL": "ftp://x", "LINGUA_NODE_ID": ""}
    code, out, err = await ran(sys.executable, file, "start", **wrong)
    assert (code, out, err.count("\n"), "is not the address of a scheduler" in err) == (2, "", 1, True)
    async with started(file, "start", "--url", house.url, **wrong) as node:
        await node.line('"joined"')
        assert await node.end(signal.SIGTERM) == 0


async def test_a_token_may_end_its_line(server: Any) -> None:
    token = "0123456789abcdef"  # noqa: S105 - of this test
    async with House(server.url, **{"auth.node_tokens": [f"fleet:{token}"]}).open() as house:
        file = EXAMPLES / "echo_node.py"
        async with started(file, "start", "--url", house.url, LINGUA_TOKEN=f"{token}\n") as node:
            await node.line('"joined"')
            assert await node.end(signal.SIGTERM) == 0


async def test_check_needs_no_scheduler_and_suggests_how_many_at_once() -> None:
    code, out, _ = await ran(sys.executable, EXAMPLES / "two_languages.py", "check")
    assert code == 0
    assert "en:zh  ok" in out
    assert "zh:en  ok" in out
    assert "max_jobs=" in out
    code, out, _ = await ran(sys.executable, EXAMPLES / "echo_node.py", "check", "--json")
    said = json.loads(out)
    assert (code, said["ok"], said["tried"][0]["pair"]) == (0, True, "en:es")
    assert said["suggested"] in {step["at_once"] for step in said["steps"]}


BROKEN = WORDS.replace('return {"text_asr": "WORD"}', 'return {"translation": "hola"}')


async def test_check_says_what_is_wrong_with_a_handler(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    code, out, _ = await ran(sys.executable, file, "check")
    assert code == 1
    assert "INVALID_RESULT: the handler returned 'translation'" in out
    assert "not ready" in out
    code, _, err = await ran(sys.executable, file, "check", "--audio", file)
    assert (code, err) == (2, f"broken.py: {file} is no wav file: file does not start with RIFF id\n")


async def test_what_lingua_new_writes_runs_and_is_never_written_over(house: House, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    code, out, _ = await ran(LINGUA, "new", "node", file)
    assert (code, out) == (0, f"{file} is written; try it: python {file} check\n")
    assert "python mine.py start" in file.read_text(encoding="utf-8")
    code, out, _ = await ran(sys.executable, file, "check")
    assert (code, out.splitlines()[0].startswith("en:es  ok")) == (0, True)
    async with started(file, "start", "--url", house.url) as node:
        await node.line('"joined"')
        assert (await uttered(house))["text_asr"] == "3200 bytes of pcm16 at 16000 Hz"
    written = file.read_text(encoding="utf-8")
    code, out, err = await ran(LINGUA, "new", "node", file, "--json")
    assert (code, out, err) == (2, "", f"lingua: {file} is there already; nothing was written\n")
    assert file.read_text(encoding="utf-8") == written
    code, _, err = await ran(LINGUA, "new", "node", tmp_path / "nowhere" / "node.py")
    assert (code, err) == (
        2,
        f"lingua: {tmp_path / 'nowhere' / 'node.py'} cannot be written: No such file or directory\n",
    )


@pytest.mark.parametrize(("page", "language"), [("README.md", "py"), ("docs/node-sdk.md", "python")])
async def test_the_ten_lines_that_the_pages_show_run_as_they_stand(tmp_path: Path, page: str, language: str) -> None:
    shown = re.search(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    file = tmp_path / "my_node.py"
    file.write_text(shown[1], encoding="utf-8")
    code, out, err = await ran(sys.executable, file, "check")
    assert (code, err) == (0, "")
    assert out.startswith("en:es  ok")


#: All that the SDK needs.
NEEDS = ("msgspec", "websockets", "langcodes")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A place with the SDK's own dependencies and nothing else: what a `pip install --no-deps` of them would make."""
    place = tmp_path / "site"
    place.mkdir()
    for name in NEEDS:
        for file in distribution(name).files or ():
            top = file.parts[0]
            if not top.startswith("..") and not (place / top).exists():
                (place / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    (place / "lingua_scheduler").symlink_to(ROOT / "src" / "lingua_scheduler")
    return place


async def test_a_node_needs_none_of_what_the_server_needs(house: House, bare: Path) -> None:
    """`-S`: no site-packages; `-I` would ignore PYTHONPATH."""
    path = {"PYTHONPATH": str(bare)}
    probe = "import sys, lingua_scheduler.sdk; print(sorted({name.split('.')[0] for name in sys.modules}))"
    async with started("-S", "-W", "error", "-c", "import uvicorn", **path) as nothing:
        assert await nothing.end() == 1
        assert "No module named 'uvicorn'" in await nothing.line("uvicorn'")
    async with started("-S", "-W", "error", "-c", probe, **path) as imported:
        assert await imported.end() == 0
    command = ("-S", EXAMPLES / "echo_node.py", "start", "--url", house.url)
    async with started(*command, **path) as node:
        await node.line('"joined"')
        assert (await uttered(house))["text_translated"] == "0.1 segundos"
        assert await node.end(signal.SIGTERM) == 0
    shutil.copy(EXAMPLES / "echo_node.py", bare.parent / "echo.py")
    async with started("-S", "-W", "error", bare.parent / "echo.py", "dev", "--url", house.url, **path) as node:
        await node.line("joined")
        assert await node.end(signal.SIGTERM) == 0


async def test_the_command_says_what_it_needs_where_only_a_node_is_at_home(bare: Path) -> None:
    command = "from lingua_scheduler.operate.cli import main; main()"
    code, out, err = await ran(sys.executable, "-S", "-c", command, "new", "node", "x.py", PYTHONPATH=str(bare))
    said = "lingua: this command needs what a server needs: pip install lingua-scheduler\n"
    assert (code, out, err) == (2, "", said)
