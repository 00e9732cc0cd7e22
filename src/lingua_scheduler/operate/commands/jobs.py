"""`lingua jobs`: what became of one, and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lingua_scheduler.operate.commands.explaining import show_explanation
from lingua_scheduler.operate.commands.options import AsJson, JobId, Token, Url, operator, say, show_facts

app = typer.Typer(no_args_is_help=True, help="One job: what became of it, why, and that nobody wants it any more.")

_STEPS = ("reserved", "dispatched", "accepted", "started", "ended", "released")


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
