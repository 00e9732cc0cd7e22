"""`lingua log-level`: how much the schedulers write down."""

from __future__ import annotations

from typing import Annotated

import typer

from lingua_scheduler.operate.commands.options import AsJson, Token, Url, operator, say, show

Module = Annotated[str | None, typer.Argument(help="Like front.door or loops; `lingua_scheduler` is all of it.")]
Level = Annotated[str | None, typer.Argument(help="debug, info, warning, error; `default`: as the settings have it.")]


def log_level(
    module: Module = None,
    level: Level = None,
    seconds: Annotated[float | None, typer.Option("--for", help="Only for so many seconds.")] = None,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """How much is written down of a module, on all instances. Without a level: how it is."""
    asked = operator(url, token)
    if level is None or module is None:
        found = asked.log_levels(module)
        rows = [
            (one["module"], one["level"], one.get("for_s") and f"{one['for_s']:.0f} s more") for one in found["modules"]
        ]
        show(found, ("module", "level", "for"), rows, as_json=as_json)
        return
    said = asked.set_log_level(module, level, seconds)
    number, while_ = len(said["instances"]), "" if seconds is None else f" for {seconds:g} s"
    say(said, f"{said['module']} is at {level}{while_} on {number} instance{'s' * (number != 1)}", as_json=as_json)
