"""`lingua nodes`: see them, and say what you want of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from lingua_scheduler.core.health import WINDOW
from lingua_scheduler.core.node import MAX_SLOTS
from lingua_scheduler.operate.commands.events import lines_of
from lingua_scheduler.operate.commands.options import (
    AsJson,
    NodeId,
    Patience,
    Token,
    Url,
    is_watched,
    operator,
    say,
    show,
    show_facts,
)

if TYPE_CHECKING:
    from lingua_scheduler.operate.ask import Operator

app = typer.Typer(no_args_is_help=True, help="The nodes: see them, drain them, let them work again.")

_LOOK_S: Final = 0.25
#: So many of the last things that happened to a node are shown with it.
_EVENTS: Final = 10


@app.command("list")
def list_nodes(
    standing: Annotated[str | None, typer.Option(help="Only those that stand so: available, full, lost, …")] = None,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """All nodes: how each stands, and how many of its slots are taken."""
    found = operator(url, token).nodes(standing)
    now_ms = time.time_ns() // 1_000_000
    rows = [
        (
            one["node_id"],
            stands(one),
            one["reported"],
            one["intent"],
            f"{one['used']}/{one['max']}" + (f" ({one['limbo']} in limbo)" if one["limbo"] else ""),
            ago(now_ms - one["seen_at_ms"]),
        )
        for one in found
    ]
    none = f"no node is {standing}" if standing else "no node has registered: `lingua new node my_node.py` writes one"
    head = ("node", "stands", "says", "is meant to be", "slots", "heard")
    show({"nodes": found}, head, rows, as_json=as_json, none=none)


def stands(node: dict[str, Any]) -> str:
    """How a node stands, in words. A suspect that is tried with a job stands like one that is trusted."""
    is_tried = node["standing"] == "available" and node.get("suspect")
    return "available, on trial" if is_tried else str(node["standing"]).replace("_", " ")


def ago(passed_ms: int) -> str:
    """`7 s ago`. The clocks of two machines may differ."""
    seconds = max(0, passed_ms) // 1000
    return f"{seconds} s ago" if seconds < 120 else f"{seconds // 60} min ago"  # noqa: PLR2004 - two minutes


@app.command("show")
def show_node(node_id: NodeId, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Everything known of a node, and what happened to it: its suspicion, rest and healing step by step, and why."""
    asked = operator(url, token)
    node = asked.node(node_id)
    events = asked.events("", _EVENTS, node_id)["events"]
    show_facts(node | {"events": events}, _facts(node), as_json=as_json)
    if events and not as_json:
        console = Console(highlight=False)
        for line in (line for event in events for line in lines_of(event, node_id)):
            console.print(line, soft_wrap=True)


def _facts(node: dict[str, Any]) -> list[tuple[str, Any]]:
    about = node["about"] or {}
    pairs = node["nmt_pairs"]
    override = node.get("max_override")
    return [
        ("node", node["node_id"]),
        ("stands", stands(node)),
        ("says", node["reported"]),
        ("is meant to be", node["intent"]),
        ("health", f"{node['health']} of 100"),
        ("failed", f"{node['failures']} of its last {WINDOW} jobs" if node.get("failures") else None),
        ("rests", _left(node.get("rest_until_ms", 0))),
        ("slots", f"{node['used']} of {node['max']} taken" + (f"; limited to {override}" if override else "")),
        ("in limbo", node["limbo"] or None),
        ("works on", ", ".join(_held(lease) for lease in node["leases"] if "fenced_at_ms" not in lease)),
        ("pools", ", ".join(node["pools"])),
        ("repairs", ", ".join(node["semantic_langs"])),
        ("hears", ", ".join(node.get("asr_langs") or [])),
        ("translates", pairs if isinstance(pairs, str) else ", ".join(":".join(pair) for pair in pairs or [])),
        ("speaks", ", ".join(node.get("tts_langs") or [])),
        ("services", ", ".join(f"{name}{'' if ready else ' (not ready)'}" for name, ready in node["services"].items())),
        ("marked", ", ".join(_marked(mark) for mark in node["marks"])),
        ("installed", ", ".join(_installed(one) for one in node["installed"])),
        ("labels", ", ".join(f"{name}={value}" for name, value in node["labels"].items())),
        ("load", ", ".join(f"{name} {100 * share:.0f} %" for name, share in node["current_load"].items())),
        ("version", about.get("version")),
        ("platform", about.get("platform")),
    ]


def _left(until_ms: int) -> str | None:
    """For how long something still lasts. The clocks of two machines may differ."""
    left_s = until_ms / 1000 - time.time()
    return f"for another {left_s:.0f} s" if left_s > 0 else None


def _marked(mark: dict[str, Any]) -> str:
    what, left = mark["service"] or mark["type"] or "the whole node", _left(mark["until_ms"])
    return f"{what} {left}" if left else str(what)


def _held(lease: dict[str, Any]) -> str:
    return f"{lease['job_id']} (a guest of another cell)" if lease.get("guest") else str(lease["job_id"])


def _installed(one: dict[str, Any]) -> str:
    version = f" {one['version']}" if "version" in one else ""
    return (
        f"{one['service_id']}{version} ({one['status']}{', ' + one['latest'] if one['status'] == 'outdated' else ''})"
    )


@app.command()
def drain(
    node_id: NodeId,
    wait: Annotated[bool, typer.Option("--wait", help="Return when it has nothing more to do.")] = False,
    timeout: Annotated[float, typer.Option(min=0, help="With --wait: give up after so many seconds.")] = 300,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """No new jobs for a node; those that it has may end. Exit code 1: with --wait, they did not in time."""
    asked = operator(url, token)
    said = asked.intend(node_id, "drain")
    if not wait:
        say(said, f"{node_id} gets no new jobs", as_json=as_json)
        return
    until, shown = time.monotonic() + timeout, -1
    while left := _still_at_work(asked, node_id, until):
        if time.monotonic() >= until:
            say(said | {"used": left}, f"{node_id} still has {left} of its slots taken", as_json=as_json)
            raise typer.Exit(1)
        if left != shown and is_watched():
            typer.echo(f"{node_id}: {left} to go", err=True)
        shown = left
        time.sleep(_LOOK_S)
    line = f"{node_id} has left" if left is None else f"{node_id} is drained: it has nothing to do, and gets nothing"
    say(said | {"used": 0}, line, as_json=as_json)


def _still_at_work(asked: Operator, node_id: str, until: float) -> int | None:
    """How many of its slots are taken; None: it has left, and has nothing to do either.

    Where nobody answers, as in a rolling restart, it is asked again until then.
    """
    from lingua_scheduler.operate.ask import NotAnswered  # noqa: PLC0415 - only commands that ask need it

    patience = Patience()
    while True:
        try:
            return int(asked.node(node_id)["used"])
        except NotAnswered as error:
            if error.code == "UNKNOWN_NODE":
                return None
            if time.monotonic() >= until:
                raise
            patience.bear(error)
        time.sleep(_LOOK_S)


@app.command()
def resume(node_id: NodeId, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """A node that was drained or evicted may have jobs again."""
    say(operator(url, token).intend(node_id, "resume"), f"{node_id} may have jobs again", as_json=as_json)


@app.command()
def evict(node_id: NodeId, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """The jobs of a node go to others at once, and it gets no more."""
    said = operator(url, token).intend(node_id, "evict")
    say(said, f"{node_id} is evicted: its jobs go to others, and it gets no more until `resume`", as_json=as_json)


@app.command("set-max")
def set_max(
    node_id: NodeId,
    slots: Annotated[str, typer.Argument(help="How many jobs it may have at once; `auto`: as many as it says.")],
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """How many jobs a node may have at once, whatever it says itself."""
    if slots != "auto" and not (slots.isdecimal() and 1 <= int(slots) <= MAX_SLOTS):
        raise typer.BadParameter(f"a number from 1 to {MAX_SLOTS}, or auto, not {slots!r}", param_hint="SLOTS")
    said = operator(url, token).set_max(node_id, None if slots == "auto" else int(slots))
    say(said, f"{node_id} may have {said['max_concurrent_jobs']} jobs at once", as_json=as_json)


@app.command()
def pair(node_id: NodeId, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Six digits that stand for a node, for a while: a session that gives them gets this node and no other."""
    said = operator(url, token).pairing(node_id)
    code, minutes = said["pairing_code"], said["expires_in_ms"] // 60_000
    say(said, f"{code} stands for {node_id}, for {minutes} min", as_json=as_json)


@app.command()
def kill(node_id: NodeId, url: Url = None, as_json: AsJson = False) -> None:
    """Only in a demo: a simulated node dies in the middle of its work, without a word. Watch where its jobs go."""
    from lingua_scheduler.operate.demo.trapdoor import kill_node  # noqa: PLC0415 - only this command needs it

    jobs = kill_node(node_id, url)
    others = "goes to another node" if jobs == 1 else "go to other nodes"
    line = f"{node_id} is dead; its {jobs} job{'s' * (jobs != 1)} {others}, and it comes back in a few seconds"
    say({"node_id": node_id, "jobs": jobs}, line, as_json=as_json)
