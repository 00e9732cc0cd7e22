"""The demo as a new user runs it: one command, and afterwards nothing of it is left."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINGUA = str(Path(sys.executable).parent / "lingua")
PATIENCE_S = 60
SMALL = ("--nodes", "2", "--callers", "4", "--seed", "3")


def processes_of(directory: Path) -> dict[int, str]:
    """Everything that has this temporary directory in its environment, or runs in it as the engine does; what it is."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                signs = (entry / "environ").read_bytes() + bytes((entry / "cwd").readlink())
                if str(directory).encode() in signs:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found


def hosts(directory: Path) -> list[int]:
    """The processes with nodes."""
    return sorted(pid for pid, line in processes_of(directory).items() if "demo.host" in line)


def environment(directory: Path) -> dict[str, str]:
    # Settings of the user's own scheduler and nodes are none of the demo's business.
    strangers = {"LINGUA_SERVER__PORT": "1", "LINGUA_NODE_ID": "mine", "LINGUA_TOKEN": "x" * 20}
    return os.environ | strangers | {"TMPDIR": str(directory), "XDG_STATE_HOME": str(directory)}


@contextmanager
def demo(directory: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A demo that was just started; however it ends, nothing may be left of it."""
    with subprocess.Popen(
        [LINGUA, "demo", *SMALL, *args],
        env=environment(directory),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
    nothing_is_left(directory)


def nothing_is_left(directory: Path) -> None:
    wait_until(lambda: not processes_of(directory), what=f"still there: {processes_of(directory)}")
    assert [path.name for path in directory.iterdir()] == []


def ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Its first line, with `--json`."""
    assert process.stdout is not None
    said: dict[str, Any] = json.loads(process.stdout.readline())
    assert said["event"] == "ready"
    return said


def talking(said: dict[str, Any], at_least: int = 1) -> dict[str, Any]:
    """Return when so many jobs are done, with what is said of the fleet then."""
    wait_until(lambda: stats(said)["jobs"]["finished_total"] >= at_least, PATIENCE_S, "somebody is answered")
    return stats(said)


def stats(said: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = httpx2.get(said["links"]["stats"], trust_env=False).json()
    return found


def end(process: subprocess.Popen[str], *signals: signal.Signals) -> tuple[int, list[str], str]:
    for number in signals:
        process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out.strip().splitlines(), err


def adds_up(line: str) -> dict[str, Any]:
    """The last line, with which everything must be right."""
    report: dict[str, Any] = json.loads(line)
    server = report["server"]
    assert report["event"] == "ended"
    assert report["submitted"] == report["ended"] == report["done"] + report["failed"]
    assert report["failed"] == sum(report["failed_by"].values())
    assert server["accepted"] == report["ended"] - report["refused"]
    assert server["finished"] == report["done"]
    assert server["failed"] + server["expired"] + server["cancelled"] == report["failed"] - report["refused"]
    assert server["dispatched"] == server["accepted"] + server["retried"]
    assert (report["others"], report["audit_violations"], report["wrong"]) == (0, 0, [])
    return report


def test_the_numbers_of_a_demo_add_up(tmp_path: Path) -> None:
    with demo(tmp_path, "--duration", "6", "--json", "--failure-rate", "0.4") as process:
        said = ready(process)
        assert [httpx2.get(url, trust_env=False).status_code for url in said["links"].values()] == [200] * 5
        # Two lines for a program: this was the first.
        code, (line,), err = end(process)
    assert (code, err) == (0, "")
    report = adds_up(line)
    assert report["done"] > 0
    assert report["server"]["retried"] > 0
    assert 0 < report["stages_ms"]["asr"]["p50"] < report["stages_ms"]["answer"]["p50"]


def test_when_every_try_fails_every_utterance_ends_all_the_same(tmp_path: Path) -> None:
    with demo(tmp_path, "--json", "--failure-rate", "1", "--nodes", "6") as process:
        said = ready(process)
        wait_until(lambda: stats(said)["jobs"]["failed_total"] > 0, PATIENCE_S, "a job has failed for good")
        code, (line,), _ = end(process, signal.SIGINT)
    assert code == 0
    report = adds_up(line)
    assert report["done"] == 0
    assert report["failed_by"]["JOB_FAILED"] > 0


def test_sigterm_drains_and_a_file_gets_plain_lines(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        assert process.stdout is not None
        first, links = process.stdout.readline(), process.stdout.readline().split()
        assert first.startswith("ready: http://127.0.0.1:")
        talking({"links": {"stats": links[2]}})
        code, lines, err = end(process, signal.SIGTERM)
    assert (code, err) == (0, "")
    assert any(line.startswith("draining: ") for line in lines)
    assert lines[-1] == "The auditor found nothing, and everything adds up."
    assert "\x1b" not in first + "".join(lines)


def test_ctrl_c_in_a_terminal_drains(tmp_path: Path) -> None:
    keyboard, screen = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = subprocess.Popen(
        [LINGUA, "demo", *SMALL],
        env=environment(tmp_path) | {"TERM": "xterm-256color"},
        stdin=screen,
        stdout=screen,
        stderr=screen,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - it must be the one who hears Ctrl-C
    )
    os.close(screen)
    try:
        seen = watch(keyboard, lambda text: "just said" in text and "→" in text)
        assert "2 of 2 nodes" in watch(keyboard, lambda text: "2 of 2 nodes" in text, seen)
        os.write(keyboard, b"\x03")
        seen = watch(keyboard, lambda _: False)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(keyboard)
    assert "Ctrl-C again stops at once" in seen
    assert "The auditor found nothing, and everything adds up." in seen
    # The cursor is there again.
    assert seen.rindex("\x1b[?25h") > seen.rindex("just said")
    nothing_is_left(tmp_path)


def watch(keyboard: int, is_enough: Callable[[str], bool], seen: str = "") -> str:
    """What a terminal shows, until it is enough or all have gone."""
    shown = seen.encode()
    while not is_enough(shown.decode(errors="replace")):
        assert select.select([keyboard], [], [], PATIENCE_S)[0], "the terminal shows nothing new"
        try:
            more = os.read(keyboard, 65_536)
        except OSError:
            break
        shown += more
    return shown.decode(errors="replace")


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        talking({"links": {"stats": process.stdout.readline().split()[2]}})
        for pid in hosts(tmp_path):
            os.kill(pid, signal.SIGSTOP)  # So that there is something to wait for.
        process.send_signal(signal.SIGINT)
        assert any(line.startswith("draining: ") for line in iter(process.stdout.readline, ""))
        code, lines, err = end(process, signal.SIGINT)
    assert (code, lines, err) == (130, [], "")


def test_a_signal_before_it_is_ready_ends_it_too(tmp_path: Path) -> None:
    with demo(tmp_path, "--json") as process:
        wait_until(lambda: any(" serve " in line for line in processes_of(tmp_path).values()), what="the server starts")
        code, lines, err = end(process, signal.SIGTERM)
    assert (code, err) == (0, "")
    assert adds_up(lines[-1])["submitted"] == 0


def test_nobody_outlives_a_demo_that_is_killed(tmp_path: Path) -> None:
    with demo(tmp_path, "--json") as process:
        said = ready(process)
        talking(said)
        # Itself, the server and its two instances, two with nodes, the guardian and its engine.
        ours = {process.pid, said["server_pid"], *said["instance_pids"], *hosts(tmp_path)}
        assert ours < processes_of(tmp_path).keys()
        assert len(processes_of(tmp_path)) == 8
        process.kill()


def test_without_its_server_a_demo_says_so_and_ends(tmp_path: Path) -> None:
    with demo(tmp_path, "--json") as process:
        said = ready(process)
        talking(said)
        os.kill(said["server_pid"], signal.SIGKILL)
        code, lines, err = end(process)
    assert (code, lines) == (2, [])
    assert err == "lingua: the server was killed by SIGKILL\n"


def test_when_a_process_with_nodes_is_killed_the_others_go_on(tmp_path: Path) -> None:
    with demo(tmp_path, "--json", "--nodes", "6") as process:
        said = ready(process)
        done = talking(said)["jobs"]["finished_total"]
        os.kill(hosts(tmp_path)[0], signal.SIGKILL)
        talking(said, at_least=done + 5)
        code, (line,), err = end(process, signal.SIGTERM)
    assert (code, err) == (0, "")
    adds_up(line)


def test_when_an_instance_is_killed_the_other_goes_on_and_nothing_is_lost(tmp_path: Path) -> None:
    with demo(tmp_path, "--json", "--nodes", "6") as process:
        said = ready(process)
        talking(said)
        instance, other = said["instance_pids"]
        os.kill(instance, signal.SIGKILL)
        done = stats(said)["jobs"]["finished_total"]
        talking(said, at_least=done + 5)
        code, (line,), err = end(process, signal.SIGTERM)
    assert (code, err) == (0, "")
    assert adds_up(line)["done"] > done
    assert instance != other


def test_a_node_of_a_demo_is_killed_by_a_command_and_comes_back() -> None:
    # A socket's path is short.
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        directory = Path(made)
        with demo(directory, "--json", "--nodes", "6") as process:
            said = ready(process)
            talking(said)
            command = [LINGUA, "nodes", "kill", "sim-1", "--json"]
            killed = subprocess.run(command, env=environment(directory), capture_output=True, check=True)
            assert json.loads(killed.stdout)["node_id"] == "sim-1"
            url = f"{said['url']}/v1/nodes/sim-1"
            wait_until(lambda: httpx2.get(url, trust_env=False).json()["standing"] == "available", PATIENCE_S, "back")
            code, (line,), err = end(process, signal.SIGTERM)
        assert (code, err) == (0, "")
        adds_up(line)


def test_one_instance_alone_is_the_server(tmp_path: Path) -> None:
    with demo(tmp_path, "--json", "--instances", "1", "--duration", "2") as process:
        said = ready(process)
        code, (line,), err = end(process)
    assert said["instance_pids"] == [said["server_pid"]]
    assert (code, err) == (0, "")
    adds_up(line)


def test_without_any_nodes_a_demo_says_so_and_ends(tmp_path: Path) -> None:
    with demo(tmp_path, "--json") as process:
        said = ready(process)
        talking(said)
        for pid in hosts(tmp_path):
            os.kill(pid, signal.SIGKILL)
        code, lines, err = end(process)
    assert (code, lines) == (2, [])
    assert "node process" in err
    assert "was killed by SIGKILL" in err


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with demo(tmp_path, "--port", str(port)) as process:
            code, lines, err = end(process)
    assert (code, lines) == (2, [])
    assert f"port {port} on 127.0.0.1 is taken" in err
    assert len(err.splitlines()) == 1
