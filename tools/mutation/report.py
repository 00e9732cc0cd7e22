"""The table by file, the survivors, and whether somebody has explained them."""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tools.mutation.mutants import Mutant

#: Of a hundred mistakes in the Lua the tests notice at least so many.
LEAST_RATE: Final = 0.95


class Explanation(msgspec.Struct, forbid_unknown_fields=True):
    """Why nobody notices these changes to a line: they change nothing, or nothing that anybody promised."""

    file: str
    source: str
    changes: list[str]
    why: str

    def named(self) -> list[tuple[str, str, str]]:
        """The mutants that it speaks of."""
        return [(self.file, self.source, change) for change in self.changes]


class _Explanations(msgspec.Struct, forbid_unknown_fields=True):
    survivor: list[Explanation] = []


def read_explanations(path: Path) -> list[Explanation]:
    """What is written in the file, in its order."""
    if not path.exists():
        return []
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _Explanations).survivor


@dataclass(frozen=True, slots=True)
class Outcome:
    """A mutant and the test that noticed it, or ""."""

    mutant: Mutant
    by: str
    why: str = ""


class Report:
    """What a run found out."""

    def __init__(
        self, outcomes: Iterable[Outcome], every: Iterable[Mutant], explanations: Sequence[Explanation]
    ) -> None:
        self.outcomes = sorted(outcomes, key=lambda outcome: (outcome.mutant.path, outcome.mutant.line))
        reasons = {key: explanation.why for explanation in explanations for key in explanation.named()}
        survivors = [outcome.mutant for outcome in self.outcomes if not outcome.by]
        self.unexplained = [mutant for mutant in survivors if mutant.key not in reasons]
        self.explained = [(mutant, reasons[mutant.key]) for mutant in survivors if mutant.key in reasons]
        there = {mutant.key for mutant in every}
        killed = {outcome.mutant.key: outcome.by for outcome in self.outcomes if outcome.by}
        self.stale = [f"{_named(key)}: there is no such line or change" for key in reasons if key not in there]
        self.stale += [f"{_named(key)}: noticed by {killed[key]}" for key in reasons if key in killed]

    @property
    def rate(self) -> float:
        """The share of the mutants that were noticed."""
        return sum(bool(outcome.by) for outcome in self.outcomes) / len(self.outcomes) if self.outcomes else 1.0

    @property
    def good(self) -> bool:
        """Whether enough were noticed and every other is explained."""
        return self.rate >= LEAST_RATE and not self.unexplained

    def lines(self) -> list[str]:
        """The report for people."""
        out = [f"{'file':<36} mutants  killed  survived    rate"]
        for path, group in itertools.groupby(self.outcomes, key=lambda outcome: outcome.mutant.path):
            out += [_row(path, [*group])]
        out.append(_row("all", self.outcomes))
        if self.unexplained:
            out += ["", "survived, and nobody has said why:"]
            out += [f"  {mutant}" for mutant in self.unexplained]
        if self.explained:
            out += ["", "survived, as explained:"]
            out += [f"  {mutant}\n      {why}" for mutant, why in self.explained]
        if self.stale:
            out += ["", "explanations that are out of date:"]
            out += [f"  {line}" for line in self.stale]
        return out

    def json(self) -> bytes:
        """The report for programs."""
        return msgspec.json.format(
            msgspec.json.encode(
                {
                    "mutants": len(self.outcomes),
                    "killed": sum(bool(outcome.by) for outcome in self.outcomes),
                    "rate": round(self.rate, 4),
                    "survivors": [
                        {"file": mutant.path, "line": mutant.line, "change": mutant.change, "source": mutant.source}
                        for mutant in self.unexplained
                    ],
                    "explained": [
                        {"file": mutant.path, "change": mutant.change, "source": mutant.source, "why": why}
                        for mutant, why in self.explained
                    ],
                    "stale": self.stale,
                }
            )
        )


def _row(name: str, outcomes: Sequence[Outcome]) -> str:
    killed = sum(bool(outcome.by) for outcome in outcomes)
    share = killed / len(outcomes) if outcomes else 1.0
    return f"{name:<36} {len(outcomes):>7} {killed:>7} {len(outcomes) - killed:>9} {share:>7.1%}"


def _named(key: tuple[str, str, str]) -> str:
    path, source, change = key
    return f"{path}.lua: {change}: {source}"
