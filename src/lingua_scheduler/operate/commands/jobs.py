"""`lingua jobs`: which there are, what became of one, and why."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingua_scheduler.operate.commands.explaining import show_explanation
from lingua_scheduler.operate.commands.nodes import ago
from lingua_scheduler.operate.commands.options import AsJson, JobId, Token, Url, operator, printable, say, show_facts

if TYPE_CHECKING:
    from collections.abc import Iterator

app = typer.Typer(no_args_is_help=True, help="The jobs: which there are, what became of one and why, and an end to it.")

_STEPS = ("reserved", "dispatched", "accepted", "started", "ended", "released")


@app.command("list")
def list_jobs(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="Only those that each of these fits: the beginning of an id, session, node, en:zh, state."),
    ] = None,
    job: Annotated[str | None, typer.Option(help="Only those whose id begins so.")] = None,
    session: Annotated[str | None, typer.Option(help="Only those of this session.")] = None,
    node: Annotated[str | None, typer.Option(help="Only those that this node has or had.")] = None,
    pair: Annotated[str | None, typer.Option(help="Only those of this pair, like en:zh.")] = None,
    state: Annotated[str | None, typer.Option(help="Only those in this state: RUNNING, FAILED, …")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """The newest jobs: those under way, then those that have ended."""
    wanted = {"q": " ".join(words or ()) or None, "job": job, "session": session, "node": node, "pair": pair}
    found = operator(url, token).jobs(limit, **wanted, state=state)
    now_ms = time.time_ns() // 1_000_000
    lines = [line for one in found for line in _lines(one, now_ms)]
    say({"jobs": found}, "\n".join(lines) or "no job fits", as_json=as_json)


def _lines(one: dict[str, Any], now_ms: int) -> Iterator[str]:
    """A job, its id on a line of its own: it is long, and somebody may want to copy it."""
    yield one["job_id"]
    took = f"   took {one['ended_at_ms'] - one['created_at_ms']} ms" if "ended_at_ms" in one else ""
    attempts = f"   attempts {one['attempts']}" if one["attempts"] != 1 else ""
    node, made = f"   {one['node_id']}" if "node_id" in one else "", ago(now_ms - one["created_at_ms"])
    yield f"  {one['state']}   {one['src_lang']}:{one['tgt_lang']}{node}   {made}{took}{attempts}"
    yield f"  session {one['session_id']}, utterance {one['utterance_index']}"
    if "reason" in one:
        yield f"  why: {printable(one['reason'])}"


@app.command("show")
def show_job(job_id: JobId, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Everything known of a job."""
    job = operator(url, token).job(job_id)
    show_facts(job, _facts(job), as_json=as_json)


def _facts(job: dict[str, Any]) -> list[tuple[str, Any]]:
    times = job["timings"]
    created = times["created_at_ms"]
    after = [f"{step} {times[f'{step}_at_ms'] - created} ms" for step in _STEPS if f"{step}_at_ms" in times]
    return [
        ("job", job["job_id"]),
        ("state", job["state"]),
        ("why", ": ".join(part for part in (job.get("error"), job.get("reason")) if part)),
        ("pair", f"{job['src_lang']}:{job['tgt_lang']}"),
        ("session", f"{job['session_id']}, utterance {job['utterance_index']}"),
        ("node", job.get("node_id")),
        ("attempts", ", ".join(f"{_where(one)} ({one['end'] or 'goes on'})" for one in job["attempts"])),
        ("after", ", ".join(after)),
        ("trace", job["trace_id"]),
    ]


def _where(attempt: dict[str, Any]) -> str:
    """The node of an attempt; of a guest also the cell."""
    guest_in = attempt.get("guest_in")
    return f"{attempt.get('node_id')} of {guest_in}" if guest_in else str(attempt.get("node_id"))


@app.command()
def cancel(
    job_id: JobId,
    reason: Annotated[str, typer.Option(help="What its client and its node are told.")] = "cancelled by the operator",
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Nobody wants the result of a job any more. One that has ended stays as it is."""
    said = operator(url, token).cancel(job_id, reason)
    say(said, f"{job_id} is {said['state']}", as_json=as_json)


@app.command()
def explain(
    job_id: JobId,
    nodes: Annotated[bool, typer.Option("--nodes", help="Also who could take it now, and why the others not.")] = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Why a job went where it went, attempt by attempt."""
    show_explanation(operator(url, token).explain_job(job_id, nodes=nodes), as_json=as_json)
