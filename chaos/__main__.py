"""`./dev chaos`: see docs/chaos.md. Exit code: 0 nothing was broken, 1 something was, 130 Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Final

import uvloop

from chaos.plan import ENGINES
from chaos.report import figures, stories
from chaos.run import Run
from chaos.scale import FULL, SMALL

_INTERRUPTED: Final = 130


def main() -> int:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="./dev chaos", description="Break everything, and prove that it held.")
    parser.add_argument("--seed", type=int, help="which plan of faults; by default any")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long things go wrong (default: 1)")
    parser.add_argument("--engine", choices=ENGINES, default="embedded")
    parser.add_argument("--mode", choices=("safety", "liveness"), default="liveness")
    parser.add_argument("--small", action="store_true", help="2 instances, 6 nodes, 10 sessions, short times")
    parser.add_argument("--keep", type=Path, help="keep history and logs in this folder")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed}, {options.engine}, {options.mode}, {options.minutes:g} min", file=sys.stderr)
    run = Run(
        seed=seed,
        engine=options.engine,
        scale=SMALL if options.small else FULL,
        lasts_s=60 * options.minutes,
        mode=options.mode,
        say=lambda text: print(text, file=sys.stderr, flush=True),
        keep=options.keep,
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            outcome = runner.run(run.play())
    except KeyboardInterrupt:
        return _INTERRUPTED
    found = {"seed": seed, "engine": options.engine, "mode": options.mode} | figures(outcome)
    print(json.dumps(found) if options.json else json.dumps(found, indent=2, ensure_ascii=False))
    if outcome.violations:
        again = f"./dev chaos --seed {seed} --minutes {options.minutes:g} --engine {options.engine}"
        print("\n".join(("", f"BROKEN with seed {seed} ({again} --mode {options.mode})", *stories(outcome))))
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
