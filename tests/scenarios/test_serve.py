"""`lingua serve` as an operator runs it: a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from tests.support.servers import start_server
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server

LINGUA = str(Path(sys.executable).parent / "lingua")
PATIENCE_S = 30


def command(*args: str) -> list[str]:
    return [LINGUA, "serve", *args]


@contextmanager
def serving(*args: str, **env: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server and its first line. Whatever the test does, it is gone afterwards."""
    process = subprocess.Popen(
        command(*args), env=os.environ | env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def refused(*args: str, **env: str) -> str:
    """The one line with which it did not start."""
    ran = subprocess.run(
        command(*args), env=os.environ | env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.strip().splitlines()
    return line


def end(process: subprocess.Popen[str], *signals: signal.Signals) -> tuple[int, str, str]:
    for number in signals:
        process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def test_one_line_says_that_it_is_ready_and_it_is(server: Server) -> None:
    with serving("--port", "0", "--store", server.url, "--json") as (process, line):
        said: dict[str, Any] = json.loads(line)
        assert (said["event"], said["pid"], said["host"]) == ("ready", process.pid, "127.0.0.1")
        assert said["url"] == f"http://127.0.0.1:{said['port']}"
        assert httpx2.get(f"{said['url']}/readyz").json() == {"ok": True}
        assert httpx2.get(f"{said['url']}/health").text == "OK"
        assert httpx2.get(f"{said['url']}/docs").status_code == 200
        code, out, err = end(process, signal.SIGTERM)
        assert (code, out) == (0, "")
        assert "Traceback" not in err


def test_without_a_store_it_brings_its_own(tmp_path: Path) -> None:
    with serving("--port", "0", "--data-dir", str(tmp_path / "data")) as (process, line):
        assert line.startswith("ready: http://127.0.0.1:")
        url = line.split()[1]
        assert httpx2.get(f"{url}/readyz").status_code == 200
        assert end(process, signal.SIGINT) == (0, "", "")
    assert (tmp_path / "data").is_dir()


def test_a_busy_port_is_one_line(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--port", str(port), "--store", server.url)
    assert said.startswith(f"lingua: port {port} on 127.0.0.1 is taken: ")
    assert "--port" in said


def test_a_store_that_is_away_is_one_line() -> None:
    assert "redis://127.0.0.1:1/0" in refused("--port", "0", "--store", "redis://127.0.0.1:1")


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"LINGUA_SERVER__PROT": "1"}, "did you mean LINGUA_SERVER__PORT?"),
        ({"LINGUA_SERVER__HOST": "no.such.host.invalid", "LINGUA_AUTH__NODE_TOKENS": "a" * 20}, "no.such.host.invalid"),
        ({"LINGUA_SERVER__HOST": "0.0.0.0"}, "auth.node_tokens"),  # noqa: S104 - that is the point
        ({"LINGUA_SERVER__HOST": "::"}, "--insecure"),
    ],
)
def test_what_cannot_be_served_is_one_line(env: dict[str, str], named: str) -> None:
    assert named in refused("--port", "0", **env)


def test_a_bad_key_in_the_file_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "lingua.toml"
    config.write_text("[auth]\nnode_token = ['x']\n")
    assert "did you mean 'auth.node_tokens'?" in refused("--config", str(config))


def test_who_insists_listens_to_everybody_and_is_told_so_aloud(server: Server) -> None:
    with serving("--port", "0", "--host", "0.0.0.0", "--insecure", "--store", server.url, "--json") as (process, line):  # noqa: S104
        assert httpx2.get(f"http://127.0.0.1:{json.loads(line)['port']}/openapi.json").status_code == 200
        code, _, err = end(process, signal.SIGTERM)
    assert code == 0
    assert "INSECURE" in err


def test_with_tokens_it_listens_anywhere_and_asks_for_them(server: Server) -> None:
    token = "0123456789abcdef"  # noqa: S105 - of this test
    env = {"LINGUA_AUTH__ADMIN_TOKENS": token, "LINGUA_SERVER__HOST": "0.0.0.0"}  # noqa: S104 - that is the point
    with serving("--port", "0", "--store", server.url, "--json", **env) as (process, line):
        url = f"http://127.0.0.1:{json.loads(line)['port']}"
        assert httpx2.get(f"{url}/openapi.json").status_code == 401
        assert httpx2.get(f"{url}/openapi.json", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        code, out, err = end(process, signal.SIGTERM)
        assert code == 0
        assert token not in line + out + err


def test_with_tokens_it_prints_a_link_that_signs_a_browser_in_once(server: Server) -> None:
    tokens = {"LINGUA_AUTH__ADMIN_TOKENS": "ops:operator-token-1"}
    with serving("--port", "0", "--store", server.url, **tokens) as (process, line):
        assert process.stdout is not None
        url = line.removeprefix("ready: ").partition(" ")[0]
        page, _, link = process.stdout.readline().strip().removeprefix("sign in, once: ").partition("#")
        assert page == f"{url}/sign-in"
        with httpx2.Client(base_url=url, headers={"origin": url}) as browser:
            assert browser.post("/api/v1/sign-in", json={"link": link}).json()["name"] == "(console)"
            assert browser.get("/v1/nodes").json() == {"nodes": []}
            assert browser.post("/api/v1/sign-in", json={"link": link}).status_code == 410


def test_a_second_signal_does_not_wait_for_who_is_being_answered(tmp_path: Path) -> None:
    engine = start_server(tmp_path)
    try:
        with serving("--port", "0", "--store", engine.url, "--json") as (process, line):
            port = json.loads(line)["port"]
            engine.freeze()
            with socket.create_connection(("127.0.0.1", port)) as asking:
                # The answer to the first tells that the second has been taken in.
                asking.sendall(
                    b"".join(b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n" % path for path in (b"livez", b"readyz"))
                )
                assert asking.recv(15) == b"HTTP/1.1 200 OK"
                process.send_signal(signal.SIGTERM)
                wait_until(lambda: is_closed(port), what="nobody new comes in")
                code, _, err = end(process, signal.SIGTERM)
            assert code == 130
            assert "Traceback" not in err
    finally:
        engine.stop()


def is_closed(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_two_instances_share_one_store_and_one_leaves_the_other_alone(server: Server) -> None:
    with (
        serving("--port", "0", "--store", server.url, "--json") as (first, line),
        serving("--port", "0", "--store", server.url, "--json") as (_, other),
    ):
        assert json.loads(line)["instance_id"] != json.loads(other)["instance_id"]
        assert end(first, signal.SIGTERM)[0] == 0
        assert httpx2.get(f"{json.loads(other)['url']}/readyz").status_code == 200


async def test_an_instance_whose_store_dies_says_so_and_comes_back_with_it(tmp_path: Path) -> None:
    engine = start_server(tmp_path, "--appendonly", "yes")
    try:
        with serving("--port", "0", "--store", engine.url, "--json") as (_, line):
            url = json.loads(line)["url"]
            engine.stop()
            down = await asyncio.to_thread(httpx2.get, f"{url}/readyz")
            assert (down.status_code, down.json()["error"]) == (503, "SCHEDULER_DEPENDENCY_DOWN")
            assert httpx2.get(f"{url}/livez").status_code == 200
            engine = start_server(tmp_path, "--appendonly", "yes")
            wait_until(lambda: httpx2.get(f"{url}/readyz").status_code == 200, what="it serves again")
    finally:
        engine.stop()


def test_whoever_runs_in_a_terminal_ends_with_it(server: Server) -> None:
    """To a service a hangup says that it should read its levels again; here it says that nobody is there any more."""
    keyboard, screen = pty.openpty()
    try:
        words = command("--port", "0", "--store", server.url, "--json")
        with subprocess.Popen(words, stdin=screen, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["event"] == "ready"
            process.send_signal(signal.SIGHUP)
            assert process.wait(PATIENCE_S) == -signal.SIGHUP
    finally:
        os.close(keyboard)
        os.close(screen)
