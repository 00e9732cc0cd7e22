"""Every command of `lingua`: what it takes, that it answers programs, and that a shell can complete it."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.operate.cli import app
from tests.contract.test_commands import NODE, lingua
from tests.support.house import LINGUA, House, eventually
from tests.support.programs import ran, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.test_commands import Lingua
    from tests.support.servers import Server

__all__ = ["lingua"]

#: They begin something, and have nobody to ask.
BEGINNERS = {"serve", "demo", "new node"}
#: What is typed after a command's name, in a fleet of one node and one job.
WORDS = {
    "nodes list": (),
    "nodes show": ("n1",),
    "nodes drain": ("n1", "--wait"),
    "nodes resume": ("n1",),
    "nodes evict": ("n1",),
    "nodes set-max": ("n1", "2"),
    "nodes pair": ("n1",),
    "pools": (),
    "jobs list": (),
    "jobs show": ("JOB",),
    "jobs explain": ("JOB",),
    "jobs cancel": ("JOB",),
    "explain": ("en", "zh"),
    "dlq list": (),
    "instances": (),
    "events": (),
    "link": (),
    "log-level": (),
    "top": (),
    "doctor": (),
    "config show": ("--origin",),
}
#: They need a letter that is dead, or a demo: tested where these are.
ELSEWHERE = {"dlq replay", "dlq delete", "nodes kill"}


def leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All that can be run, by what is typed for it."""
    for word, each in getattr(command, "commands", {}).items():
        yield from leaves(each, f"{name} {word}".strip())
    if not hasattr(command, "commands"):
        yield name, command


COMMANDS = dict(leaves(typer.main.get_command(app)))


def test_all_commands_are_known_here() -> None:
    assert COMMANDS.keys() == WORDS.keys() | ELSEWHERE | BEGINNERS


@pytest.mark.parametrize("name", COMMANDS)
def test_it_has_json_and_a_url_and_says_what_it_is(name: str) -> None:
    options = {word for option in COMMANDS[name].params for word in option.opts}
    assert "--json" in options
    assert ("--url" in options) == (name not in BEGINNERS)
    assert COMMANDS[name].help


@pytest.mark.parametrize("name", WORDS)
async def test_it_asks_the_scheduler_that_is_named_and_answers_programs_with_one_object(
    house: House, lingua: Lingua, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Whoever is named by a flag is asked, and not who stands in the environment.
    monkeypatch.setenv("LINGUA_URL", "http://127.0.0.1:9")
    await house.post("/v1/node/register", NODE)
    job = await house.dispatch(options={"preferred_node_id": "n1"})
    if name == "nodes drain":
        said = {key: job[key] for key in ("job_id", "attempt_id", "node_id")}
        await house.post("/v1/job/done", said | {"status": "ok"})
    await house.stats()
    words = [job["job_id"] if word == "JOB" else word for word in WORDS[name]]
    result = await lingua(*name.split(), *words, "--json", "--url", house.url)
    assert result.exit_code == 0, result.output
    (line,) = result.stdout.splitlines()
    assert isinstance(json.loads(line), dict)


@pytest.mark.parametrize("name", [*WORDS, *sorted(ELSEWHERE)])
async def test_nobody_there_is_one_line_and_no_traceback(name: str) -> None:
    words = [*WORDS.get(name, ("x",)), *(["--json"] if name == "top" else [])]
    code, out, err = await ran(LINGUA, *name.split(), *words, "--url", "http://127.0.0.1:9")
    assert code == 2
    assert "Traceback" not in out + err
    assert "127.0.0.1:9" in out + err


@dataclass
class Stranger:
    """Somebody who answers whatever he is asked in the same way, as no scheduler would."""

    status: int = 200
    body: str = "{}"
    #: He sends whoever asks to somebody else, who is asked for the same.
    to: str = ""
    url: str = ""
    heard: list[str] = field(default_factory=list)

    @contextmanager
    def open(self) -> Iterator[Stranger]:
        stranger = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = stranger.status, stranger.body.encode()
                stranger.heard.append(self.requestline)
                self.send_response(status)
                if stranger.to:
                    self.send_header("location", stranger.to + self.path)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_DELETE = do_GET  # noqa: N815 - the names are those of HTTP

            def log_message(self, *_: object) -> None:
                """Nobody wants to read it."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            serving.start()
            self.url = f"http://127.0.0.1:{server.server_port}"
            try:
                yield self
            finally:
                server.shutdown()
                serving.join()


@pytest.fixture(params=["{}", '["x"]', "7"])
def stranger(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of one who knows nothing of us."""
    with Stranger(body=request.param).open() as stranger:
        yield stranger.url


@pytest.mark.parametrize("name", [*WORDS, "dlq replay", "dlq delete"])
def test_somebody_who_is_no_scheduler_is_told_in_one_line_too(stranger: str, name: str) -> None:
    words = WORDS.get(name, ("x",))
    result = CliRunner().invoke(app, [*name.split(), *words, "--json", "--url", stranger])
    said = f"whoever answers at {stranger} is no scheduler"
    if name == "doctor":
        (finding,) = json.loads(result.stdout)["findings"]
        assert (finding["level"], result.exit_code) == ("unfit", 2)
        assert said in finding["said"]
    else:
        assert isinstance(result.exception, LinguaError), result.exception
        assert said in str(result.exception)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("name", ["nodes drain", "dlq delete", "pools"])
def test_who_is_sent_to_somebody_else_does_not_go_there_with_his_token(name: str, status: int) -> None:
    with Stranger(body='{"intent": "drain", "pools": [], "health": {}, "nodes": {}, "ok": true}').open() as other:
        with Stranger(status, to=f"{other.url}/lingua").open() as gateway:
            words = [word for word in WORDS.get(name, ("x",)) if word != "--wait"]
            result = CliRunner().invoke(app, [*name.split(), *words, "--url", gateway.url, "--token", "a-secret"])
        assert other.heard == []
    assert isinstance(result.exception, LinguaError), result.output
    said = f"{gateway.url} sends us to {other.url}/lingua: give that as --url (LINGUA_URL)"
    assert str(result.exception) == said


def test_who_is_sent_to_a_page_to_sign_in_is_told_where_that_is() -> None:
    with Stranger(302, to="/sign-in?next=").open() as gateway:
        result = CliRunner().invoke(app, ["pools", "--url", gateway.url])
    assert str(result.exception) == f"{gateway.url} sends us to {gateway.url}/sign-in: is it a scheduler?"


async def test_who_follows_goes_on_until_a_scheduler_says_no() -> None:
    with Stranger(body='{"events": [], "last": ""}').open() as stranger:
        async with started(LINGUA, "events", "--follow", "--url", stranger.url) as following:

            async def is_asked() -> bool:
                return bool(stranger.heard)

            await eventually(is_asked)
            # A balancer that has nobody behind it, and an instance that is about to end.
            stranger.status = 502
            await following.line(f"{stranger.url} refused: 502 Bad Gateway")
            stranger.status = 503
            stranger.body = '{"error": "SHUTTING_DOWN", "detail": "Come again.", "retryable": true}'
            await following.line(f"{stranger.url} refused: SHUTTING_DOWN: Come again.")
            stranger.status, stranger.body = 403, '{"error": "FORBIDDEN", "detail": "Not you.", "retryable": false}'
            await following.line(f"{stranger.url} refused: FORBIDDEN: Not you.")
            assert await following.end() == 2


def test_who_waits_until_a_node_is_drained_is_told_at_the_end_that_nobody_says_so() -> None:
    with Stranger(body='{"intent": "draining"}').open() as stranger:
        words = ["nodes", "drain", "n1", "--wait", "--timeout", "0", "--url", stranger.url]
        result = CliRunner().invoke(app, words)
    assert str(result.exception) == f"whoever answers at {stranger.url} is no scheduler"
    assert len(stranger.heard) == 2


async def test_who_has_no_token_is_told_how_to_give_one(server: Server) -> None:
    async with House(server.url, **{"auth.admin_tokens": ["an-operators-token"]}).open() as house:
        code, _, err = await ran(LINGUA, "nodes", "list", "--url", house.url)
    assert code == 2
    assert "UNAUTHENTICATED" in err
    assert "--token or LINGUA_TOKEN" in err


@pytest.mark.parametrize(
    ("token", "said", "fix"),
    [
        (None, "UNAUTHENTICATED", "give the operator's token: --token or LINGUA_TOKEN"),
        ("nobody-s-token-0123", "UNAUTHENTICATED", "give the operator's token: --token or LINGUA_TOKEN"),
        ("a-session-s-token-0", "has not got the scope admin", "give a token with the scope admin"),
    ],
)
async def test_a_doctor_who_may_not_look_is_answered_all_the_same(
    server: Server, token: str | None, said: str, fix: str
) -> None:
    tokens = {"auth.admin_tokens": ["an-operators-token"], "auth.session_tokens": ["a-session-s-token-0"]}
    async with House(server.url, **tokens).open() as house:
        shown = () if token is None else ("--token", token)
        code, out, _ = await ran(LINGUA, "doctor", "--json", "--url", house.url, *shown)
    (finding,) = json.loads(out)["findings"]
    assert (code, finding["level"]) == (2, "unfit")
    assert finding["said"].startswith("answers, but does not let us look")
    assert said in finding["said"]
    assert finding["fix"].startswith(fix)


async def test_the_settings_of_a_scheduler_are_those_that_it_was_started_with(house: House, lingua: Lingua) -> None:
    result = await lingua("config", "show", "--json", "--origin", "--url", house.url)
    said: dict[str, Any] = json.loads(result.stdout)
    assert said["loops.snapshot_interval_ms"]["value"] == 50
    here = json.loads((await lingua("config", "show", "--json", "--origin")).stdout)
    assert here.keys() == said.keys()
    assert here["loops.snapshot_interval_ms"]["value"] != 50


async def test_the_doctor_of_a_scheduler_says_what_it_says_of_its_fleet(house: House, lingua: Lingua) -> None:
    await house.stats()
    result = await lingua("doctor", "--json", "--url", house.url)
    said = json.loads(result.stdout)
    found = {one["check"]: (one["level"], one["said"]) for one in said["findings"]}
    assert found["fleet"] == ("warning", "says: no node has registered")
    assert (found["ready"][0], result.exit_code, said["exit_code"]) == ("ok", 1, 1)
    await house.post("/v1/node/register", NODE)
    await house.stats()
    result = await lingua("doctor", "--url", house.url)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "all well")


async def test_a_shell_is_taught_the_names() -> None:
    """That from which the command is called, whatever the test is called from."""
    code, script, _ = await ran("bash", "-c", f"{LINGUA} --show-completion; exit $?", PATH=os.environ["PATH"])
    assert code == 0
    assert "_LINGUA_COMPLETE=complete_bash" in script


@pytest.mark.parametrize(
    ("typed", "offered"), [("lingua ", "nodes"), ("lingua nodes ", "drain"), ("lingua jo", "jobs")]
)
async def test_a_shell_completes_what_was_typed(typed: str, offered: str) -> None:
    asked = {"_LINGUA_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1)}
    code, out, err = await ran(LINGUA, **asked, PATH=os.environ["PATH"])
    assert code == 0, err
    assert offered in out.split()
