"""`python -m tools.mutate`: break the Lua of the flows line by line and see which tests notice."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.mutation.fleet import WorkerFailed, workers
from tools.mutation.memory import Memory
from tools.mutation.mutants import Mutant, mutants
from tools.mutation.plan import FOLDERS, NOT_ASKED, Plan
from tools.mutation.report import Outcome, Report, read_explanations
from tools.mutation.worker import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.mutation.fleet import Driver
    from tools.mutation.worker import Verdict

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "src" / "lingua_scheduler"
EXPLANATIONS: Final = ROOT / "tests" / "mutants.toml"

#: The searches are asked again for every mutant that the flow tests let through, so they go less deep here.
ENVIRONMENT: Final = {"LINGUA_EXHAUSTIVE_DEPTH": "3"}
_BASELINE_S: Final = 900.0
#: A run takes its time; what it has found out outlives it, however it ends.
_SAVED_EVERY: Final = 100


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev mutate", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="FLOW", help="files like flows/ack or shared")
    parser.add_argument("--sample", type=int, metavar="N", help="so many mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (0)")
    parser.add_argument("--time-limit", type=float, metavar="S", help="begin no mutant after so many seconds")
    parser.add_argument("--quick", action="store_true", help="ask only the tests of the flows, not the searches")
    parser.add_argument("--skip-red", action="store_true", help="leave out tests that fail without any mutant")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run found out")
    parser.add_argument("--workers", type=int, default=2, help="processes side by side (2)")
    parser.add_argument("--list", action="store_true", help="only name the mutants")
    parser.add_argument("--json", action="store_true", help="the report for programs")
    return parser.parse_args(arguments)


def all_mutants() -> list[Mutant]:
    """Every mutant of every flow."""
    return [
        mutant
        for path in sorted(PACKAGE.glob("flows/**/*.lua"))
        for mutant in mutants(path.relative_to(PACKAGE).with_suffix("").as_posix(), path.read_text(encoding="utf-8"))
    ]


def chosen(every: Sequence[Mutant], options: argparse.Namespace) -> list[Mutant]:
    """Those that the command line asks for."""
    only = [name.removesuffix(".lua") for name in options.only]
    wanted = [mutant for mutant in every if not only or any(_names(name, mutant.path) for name in only)]
    if options.sample is not None and options.sample < len(wanted):
        wanted = random.Random(options.seed).sample(wanted, options.sample)
    return wanted


def _names(name: str, path: str) -> bool:
    return path == name or path.endswith(f"/{name}") or f"/{name.strip('/')}/" in f"/{path}"


class Run:
    """One run over the chosen mutants."""

    def __init__(self, wanted: Sequence[Mutant], options: argparse.Namespace) -> None:
        self._options = options
        self._memory = Memory(ROOT)
        self._scope = "quick" if options.quick else str(ENVIRONMENT)
        self._began = time.monotonic()
        self._waiting: list[Mutant] = []
        self.outcomes: list[Outcome] = []
        for mutant in wanted:
            known = None if options.fresh else self._memory.verdict(mutant, self._scope)
            if known is None:
                self._waiting.append(mutant)
            else:
                self.outcomes.append(Outcome(mutant, known.by, known.why))
        self._remembered = len(self.outcomes)

    async def go(self) -> None:
        """Run what is not known yet, until it is done or the time is up."""
        if not self._waiting:
            return
        folders = [folder for folder in FOLDERS[: 1 if self._options.quick else None] if (ROOT / folder).exists()]
        try:
            # One engine is enough to see whether anybody notices.
            tests = [*folders, f"--ignore={NOT_ASKED}", "--engine=plain"]
            async with workers(ROOT, self._options.workers, tests, ENVIRONMENT) as drivers:
                plan = Plan(ROOT, await self._baseline(drivers[0]))
                queue = self._next_ones()
                await asyncio.gather(*(self._drive(driver, plan, queue) for driver in drivers))
        finally:
            self._memory.save()
            _say("")

    async def _baseline(self, driver: Driver) -> Verdict:
        """Without any mutant everything passes, or no verdict means anything."""
        _say(f"{len(driver.tests)} tests without a mutant …")
        verdict = await driver.ask(Request({}, list(driver.tests), _BASELINE_S, record=True))
        if verdict.by:
            raise WorkerFailed(f"no verdict without any mutant: {verdict.by} {verdict.why}")
        for test, why in verdict.failed.items():
            print(f"fails without any mutant: {test}: {why}", file=sys.stderr)
            del verdict.calls[test]
        if verdict.failed and not self._options.skip_red:
            raise WorkerFailed("put that right first, or --skip-red")
        return verdict

    def _next_ones(self) -> Iterator[Mutant]:
        limit = self._options.time_limit
        for mutant in self._waiting:
            if limit is not None and time.monotonic() - self._began > limit:
                return
            yield mutant

    async def _drive(self, driver: Driver, plan: Plan, queue: Iterator[Mutant]) -> None:
        for mutant in queue:
            tests = plan.tests_for(mutant, self._memory.hints(mutant))
            # Broken Lua may be slow; only one that does not end is worth the wait.
            timeout_s = 15.0 + 3 * plan.seconds(tests)
            request = Request({mutant.path: mutant.text}, tests, timeout_s)
            verdict = await driver.ask(request)
            if "OutcomeUnknown" in verdict.why:
                # A script that hangs, or a machine that is busy with something else: only the first does so again.
                verdict = await driver.ask(request)
            self._memory.note(mutant, self._scope, verdict.by, verdict.why)
            self.outcomes.append(Outcome(mutant, verdict.by, verdict.why))
            survived = sum(not outcome.by for outcome in self.outcomes)
            done, total = len(self.outcomes), self._remembered + len(self._waiting)
            if done % _SAVED_EVERY == 0:
                self._memory.save()
            _say(f"{done} of {total}, {survived} survived, {time.monotonic() - self._began:.0f} s")


def _say(text: str) -> None:
    """Progress, for whoever watches."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """0: enough were noticed and every survivor is explained; 1: not so; 2: there was no run."""
    options = parse(arguments)
    every = all_mutants()
    wanted = chosen(every, options)
    if options.list:
        print("\n".join(map(str, wanted)))
        print(f"{len(wanted)} mutants")
        return 0
    run = Run(wanted, options)
    try:
        asyncio.run(run.go())
    except WorkerFailed as failed:
        print(failed, file=sys.stderr)
        return 2
    report = Report(run.outcomes, every, read_explanations(EXPLANATIONS))
    if options.json:
        print(report.json().decode())
    else:
        print("\n".join(report.lines()))
        if len(run.outcomes) < len(wanted):
            print(f"\n{len(wanted) - len(run.outcomes)} of {len(wanted)} were not run: the time was up")
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
