"""The command `lingua`."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.metadata import version
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

try:
    import typer
except ModuleNotFoundError:
    # Where only the SDK is at home there is this command, too.
    sys.stderr.write("lingua: this command needs what a server needs: pip install lingua-scheduler\n")
    raise SystemExit(2) from None

from lingua_scheduler.config import ConfigError, load
from lingua_scheduler.config.load import shown
from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.operate.commands import dlq, events, fleet, jobs, logs, nodes, top
from lingua_scheduler.operate.commands.options import AsJson, AskedUrl, Token, operator, show

if TYPE_CHECKING:
    from lingua_scheduler.config import Settings

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
config_app = typer.Typer(no_args_is_help=True, help="The settings.")
app.add_typer(config_app, name="config")
new_app = typer.Typer(no_args_is_help=True, help="A file to begin with.")
app.add_typer(new_app, name="new")
app.add_typer(nodes.app, name="nodes")
app.add_typer(jobs.app, name="jobs")
app.add_typer(dlq.app, name="dlq")
for _command in (top.top, events.events, fleet.pools, fleet.explain, fleet.instances, fleet.link, logs.log_level):
    app.command()(_command)


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

    def again() -> Settings:
        return load(file, flags=flags).settings

    if listen_fd is not None:
        # Whoever started this process has checked everything, and said it.
        raise typer.Exit(serve.main(loaded, as_json=as_json, listen_fd=listen_fd, again=again))
    for line in loaded.deprecations:
        typer.echo(line, err=True)
    serve.check_exposure(loaded.settings, insecure=insecure)
    if workers == 1:
        raise typer.Exit(serve.main(loaded, as_json=as_json, again=again))
    from lingua_scheduler.operate import workers as several  # noqa: PLC0415 - as above

    given = {"--host": host, "--port": port, "--store": store, "--data-dir": data_dir, "--config": file}
    arguments = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    raise typer.Exit(several.main(loaded.settings, workers, arguments, as_json=as_json))


@config_app.command("show")
def config_show(
    file: Annotated[Path | None, typer.Option("--config", help="A TOML file.")] = None,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value came from.")] = False,
    url: AskedUrl = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """The settings as they are in force here; with --url, as they are in force in that scheduler."""
    if url is None:
        loaded = load(file)
        for line in loaded.deprecations:
            typer.echo(line, err=True)
        values, origins = shown(loaded.settings), loaded.origins
    else:
        said = operator(url, token).config()["settings"]
        values = {one["key"]: one.get("value") for one in said}
        origins = {one["key"]: one["origin"] for one in said}
    if not origin:
        show(values, ("setting", "value"), [(key, str(value)) for key, value in values.items()], as_json=as_json)
        return
    both = {key: {"value": value, "origin": origins[key]} for key, value in values.items()}
    rows = [(key, str(value), origins[key]) for key, value in values.items()]
    show(both, ("setting", "value", "origin"), rows, as_json=as_json)


@app.command()
def doctor(
    store: Annotated[str | None, typer.Option(help="URL of Valkey or Redis. [default: as the settings say]")] = None,
    file: Annotated[Path | None, typer.Option("--config", help="A TOML file.")] = None,
    remove_old_keys: Annotated[
        bool, typer.Option("--remove-old-keys", help="Remove what the original scheduler left under our prefix.")
    ] = False,
    is_sure: Annotated[bool, typer.Option("--yes", help="Remove it without asking.")] = False,
    url: AskedUrl = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Look at the state engine, or at a scheduler, and say what mends what is wrong.

    Exit code: 0 all well, 1 warnings, 2 not fit.
    """
    from lingua_scheduler.operate import doctor  # noqa: PLC0415 - only this command needs it

    if url is not None:
        raise typer.Exit(doctor.look_at(operator(url, token), as_json=as_json))
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


def main() -> None:
    """Run the command; what a user can mend is one line on standard error and exit code 2, not a traceback."""
    try:
        app()
    except asyncio.CancelledError:
        raise SystemExit(130) from None
    except (ConfigError, LinguaError) as error:
        typer.echo(f"lingua: {error}", err=True)
        raise SystemExit(2) from None
