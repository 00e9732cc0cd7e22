"""What 100 000 nodes and 1 000 000 sessions would take: `./dev bench scale [--json] [--nodes N] [--sessions N] …`.

Measures what one of each costs the engine, in a few seconds, and multiplies. docs/scale.md says what it means.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import fields, replace
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.scale.costs import measure
from bench.scale.model import World, compute
from lingua_scheduler.config import load


def main() -> int:
    """Measure, compute, show."""
    parser = argparse.ArgumentParser(prog="./dev bench scale", description="What a very large fleet would take.")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    for field in fields(World):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=float, help=f"{field.default} unless you say so")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another setting than usual")
    arguments = parser.parse_args()
    said = {field.name: getattr(arguments, field.name) for field in fields(World)}
    world = replace(World(), **{name: value for name, value in said.items() if value is not None})
    flags: dict[str, Any] = dict(pair.split("=", 1) for pair in arguments.set)
    found = compute(world, asyncio.run(measure(world.utterance_bytes)), load(env={}, flags=flags).settings)
    console = Console(stderr=arguments.json)
    table = Table("what", "")
    for name, value in found.items():
        table.add_row(name.replace("_", " "), _text(value))
    console.print(table)
    if arguments.json:
        print(json.dumps(found))
    return 0


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, dict):
        return "\n".join(f"{name.replace('_', ' ')}: {_text(part)}" for name, part in value.items())
    return value if isinstance(value, str) else f"{value:,}"


if __name__ == "__main__":
    sys.exit(main())
