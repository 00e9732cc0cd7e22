"""The command `lingua`."""

from __future__ import annotations

import asyncio
import json
from importlib.metadata import version
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from lingua_scheduler.config import ConfigError, load
from lingua_scheduler.config.load import LEAVES
from lingua_scheduler.core.errors import LinguaError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
config_app = typer.Typer(no_args_is_help=True, help="The settings.")
app.add_typer(config_app, name="config")
new_app = typer.Typer(no_args_is_help=True, help="A file to begin with.")
app.add_typer(new_app, name="new")
dlq_app = typer.Typer(no_args_is_help=True, help="Letters between schedulers that nobody could use.")
app.add_typer(dlq_app, name="dlq")

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on the last line, nothing for the eye.")]


Url = Annotated[str | None, typer.Option(help="Of a scheduler. [default: LINGUA_URL, else this machine's]")]
Token = Annotated[str | None, typer.Option(help="The operator's. [default: LINGUA_TOKEN]")]
LetterId = Annotated[str, typer.Argument(help="As `lingua dlq list` names it.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lingua-scheduler {version('lingua-scheduler')}")
        raise typer.Exit


@app.callback()
def lingua(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Lingua Scheduler: a dispatch plane for real-time speech translation."""


@app.command()
def demo(
    nodes: Annotated[int, typer.Option(min=1, max=500, help="Simulated nodes.")] = 12,
    callers: Annotated[int, typer.Option(min=1, max=500, help="Simulated callers.")] = 20,
    seed: Annotated[int, typer.Option(help="The same seed, the same fleet, the same things said.")] = 1,
    duration: Annotated[
        float | None, typer.Option(min=1, max=86_400, help="Seconds that they talk. Left out: until Ctrl-C.")
    ] = None,
    failure_rate: Annotated[float, typer.Option(min=0, max=1, help="Share of tries that fail.")] = 0.05,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Of the server. 0: any free one.")] = 0,
    instances: Annotated[int, typer.Option(min=1, max=16, help="Processes of the server, on one port.")] = 2,
    as_json: AsJson = False,
) -> None:
    """A whole fleet at work on this machine, and an auditor at the end. Ctrl-C drains; a second one stops at once."""
    from lingua_scheduler.operate.demo.begin import Show, begin  # noqa: PLC0415 - only this command needs it

    show = Show(nodes, callers, seed, failure_rate, duration, port, instances)
    raise typer.Exit(asyncio.run(begin(show, as_json=as_json)))


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="0: any free one. [default: 5010]")] = None,
    store: Annotated[str | None, typer.Option(help="URL of Valkey or Redis. [default: an engine of our own]")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the engine of our own keeps its data.")] = None,
    file: Annotated[Path | None, typer.Option("--config", help="A TOML file.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen to everybody, even without tokens.")] = False,
    workers: Annotated[int, typer.Option(min=1, max=256, help="So many instances, each a process, on one port.")] = 1,
    listen_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    as_json: AsJson = False,
) -> None:
    """Serve nodes and callers until SIGTERM or Ctrl-C; a second one stops at once."""
    from lingua_scheduler.operate import serve  # noqa: PLC0415 - only this command needs all of it

    flags = {
        "server.host": host,
        "server.port": port,
        "engine.url": store,
        "engine.data_dir": None if data_dir is None else str(data_dir),
    }
    loaded = load(file, flags=flags)
    if listen_fd is not None:
        # Whoever started this process has checked everything, and said it.
        raise typer.Exit(serve.main(loaded.settings, as_json=as_json, listen_fd=listen_fd))
    for line in loaded.deprecations:
        typer.echo(line, err=True)
    serve.check_exposure(loaded.settings, insecure=insecure)
    if workers == 1:
        raise typer.Exit(serve.main(loaded.settings, as_json=as_json))
    from lingua_scheduler.operate import workers as several  # noqa: PLC0415 - as above

    given = {"--host": host, "--port": port, "--store": store, "--data-dir": data_dir, "--config": file}
    arguments = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    raise typer.Exit(several.main(loaded.settings, workers, arguments, as_json=as_json))


@config_app.command("show")
def config_show(
    file: Annotated[Path | None, typer.Option("--config", help="A TOML file.")] = None,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value came from.")] = False,
    as_json: AsJson = False,
) -> None:
    """The settings as they are in force here."""
    loaded = load(file)
    for line in loaded.deprecations:
        typer.echo(line, err=True)
    values = {
        key: "(set; not shown)" if value and not LEAVES[key].repr else value
        for name, section in loaded.settings
        for key, value in ((f"{name}.{key}", value) for key, value in section)
    }
    if as_json:
        shown = {key: {"value": value, "origin": loaded.origins[key]} for key, value in values.items()}
        typer.echo(json.dumps(shown if origin else values))
        return
    table = Table("setting", "value", *(["origin"] if origin else []))
    for key, value in values.items():
        table.add_row(key, str(value), *([loaded.origins[key]] if origin else []))
    Console().print(table)


@app.command()
def doctor(
    store: Annotated[str | None, typer.Option(help="URL of Valkey or Redis. [default: as the settings say]")] = None,
    file: Annotated[Path | None, typer.Option("--config", help="A TOML file.")] = None,
    remove_old_keys: Annotated[
        bool, typer.Option("--remove-old-keys", help="Remove what the original scheduler left under our prefix.")
    ] = False,
    is_sure: Annotated[bool, typer.Option("--yes", help="Remove it without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look at the state engine, and say what mends what is wrong. Exit code: 0 all well, 1 warnings, 2 not fit."""
    from lingua_scheduler.operate import doctor  # noqa: PLC0415 - only this command needs it

    loaded = load(file, flags={"engine.url": store})
    for line in loaded.deprecations:
        typer.echo(line, err=True)
    wanted = doctor.Wanted(remove_old_keys, is_sure, as_json)
    raise typer.Exit(doctor.main(loaded.settings, wanted))


@new_app.command("node")
def new_node(file: Annotated[Path, typer.Argument(help="Where to write it.")], as_json: AsJson = False) -> None:
    """A node that runs as it is: `python FILE check`."""
    from lingua_scheduler.operate.new import write_node  # noqa: PLC0415 - only this command needs it

    wrong = write_node(file)
    if wrong:
        typer.echo(f"lingua: {wrong}", err=True)
        raise typer.Exit(2)
    said = {"file": str(file), "next": f"python {file} check"}
    typer.echo(json.dumps(said) if as_json else f"{file} is written; try it: {said['next']}")


@app.command()
def instances(url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """The schedulers that share one state engine: what each holds, and how full its inbox is."""
    from lingua_scheduler.operate.ask import Operator  # noqa: PLC0415 - only the operator's commands need it

    found = Operator(url, token).instances()
    rows = [
        (
            one["instance_id"],
            "gone" if not one["alive"] else "draining" if one["draining"] else "serving",
            "" if one["uptime_ms"] is None else f"{one['uptime_ms'] // 1000} s",
            one["nodes"],
            one["sessions"],
            one["inbox"]["letters"],
            one["url"],
        )
        for one in found
    ]
    _show(
        {"instances": found}, ("instance", "is", "up", "nodes", "sessions", "letters", "where"), rows, as_json=as_json
    )


@dlq_app.command("list")
def dlq_list(url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """The dead letters, the oldest first, and why each failed."""
    from lingua_scheduler.operate.ask import Operator  # noqa: PLC0415

    found = Operator(url, token).dead_letters()
    rows = [(one["id"], one["kind"], one["job_id"], one["deliveries"], one["reason"]) for one in found]
    _show({"letters": found}, ("letter", "kind", "job", "tries", "why"), rows, as_json=as_json)


@dlq_app.command("replay")
def dlq_replay(letter_id: LetterId, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Send a dead letter again: to whom it was sent, or, if that one is gone, to the scheduler that is asked."""
    from lingua_scheduler.operate.ask import Operator  # noqa: PLC0415

    said = Operator(url, token).replay(letter_id)
    typer.echo(json.dumps(said) if as_json else f"{letter_id} was sent again, to {said['instance_id']}")


@dlq_app.command("delete")
def dlq_delete(letter_id: LetterId, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Forget a dead letter."""
    from lingua_scheduler.operate.ask import Operator  # noqa: PLC0415

    said = Operator(url, token).delete(letter_id)
    typer.echo(json.dumps(said) if as_json else f"{letter_id} is deleted")


def _show(said: dict[str, Any], head: tuple[str, ...], rows: list[tuple[Any, ...]], *, as_json: bool) -> None:
    """A list: for programs as it came, for people as a table from which nothing is cut off."""
    if as_json:
        typer.echo(json.dumps(said))
        return
    table = Table(*(Column(name, overflow="fold") for name in head))
    for row in rows:
        table.add_row(*("" if value is None else escape(str(value)) for value in row))
    Console().print(table)


def main() -> None:
    """Run the command; what a user can mend is one line on standard error and exit code 2, not a traceback."""
    try:
        app()
    except asyncio.CancelledError:
        raise SystemExit(130) from None
    except (ConfigError, LinguaError) as error:
        typer.echo(f"lingua: {error}", err=True)
        raise SystemExit(2) from None
