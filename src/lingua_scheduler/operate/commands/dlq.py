"""`lingua dlq`: the letters between schedulers that nobody could use."""

from __future__ import annotations

from typing import Annotated

import typer

from lingua_scheduler.operate.commands.options import AsJson, Token, Url, operator, say, show

app = typer.Typer(no_args_is_help=True, help="Letters between schedulers that nobody could use.")

LetterId = Annotated[str, typer.Argument(help="As `lingua dlq list` names it.")]


@app.command("list")
def list_letters(url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """The dead letters, the oldest first, and why each failed."""
    found = operator(url, token).dead_letters()
    rows = [(one["id"], one["kind"], one["job_id"], one["deliveries"], one["reason"]) for one in found]
    show({"letters": found}, ("letter", "kind", "job", "tries", "why"), rows, as_json=as_json, none="no dead letters")


@app.command()
def replay(letter_id: LetterId, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Send a dead letter again: to whom it was sent, or, if that one is gone, to the scheduler that is asked."""
    said = operator(url, token).replay(letter_id)
    say(said, f"{letter_id} was sent again, to {said['instance_id']}", as_json=as_json)


@app.command()
def delete(letter_id: LetterId, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Forget a dead letter."""
    say(operator(url, token).delete(letter_id), f"{letter_id} is deleted", as_json=as_json)
