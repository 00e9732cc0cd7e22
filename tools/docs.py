"""`python -m tools.docs [--check]`: write the pages of docs/ that follow from the code, or name the stale ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args, get_origin

from lingua_scheduler.config.load import FILE_VARIABLE, LEAVES, env_name
from lingua_scheduler.config.old_keys import OLD_KEYS
from lingua_scheduler.config.settings import ORDER, Settings
from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.job_state import ENDS, MOVES, STATES
from lingua_scheduler.core.notice import KEPT_MS, KINDS, MAX_KEPT
from lingua_scheduler.core.reasons import AGAINST, SPECIAL, WISHES
from lingua_scheduler.core.refusal import CODES, Breakdown
from lingua_scheduler.front.metrics import METRICS, SUCCESSORS
from lingua_scheduler.logs import FIELDS
from lingua_scheduler.protocol.errors import CLOSES, ON_SOCKETS, RESULT_CODES
from lingua_scheduler.store.keys import CELL_KEYS, OUTSIDE_KEYS, cell_key, request_tag
from tools.log_events import log_events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic.fields import FieldInfo

DOCS: Final = Path(__file__).parents[1] / "docs"
NOTE: Final = "<!-- Written by `./dev docs`. Change the code, not this page. -->"


CONFIG_INTRO: Final = f"""\
A setting can come from four places. A flag beats the environment, the environment beats the file, and the file beats
the default. The file is TOML; a flag or the variable `{FILE_VARIABLE}` names it. A key that nobody knows is refused,
and the message names the nearest one that exists. `_ms` at the end of a name means milliseconds. A list is written with
commas in a variable: `a, b`."""

OLD_FILE_INTRO: Final = """\
The file of the first scheduler loads as it is. Each old key gives one line of warning. Seconds become milliseconds, and
the list of cluster URLs becomes one URL. Old and new keys may stand in one file. Two keys that mean the same must not
differ. `[server]` is the same in both."""

KEYS_INTRO: Final = """\
This is all that the scheduler keeps in Redis or Valkey. A cell has a fixed set of keys. They share one hash tag, so
they live in one slot of a Cluster: `{example}` holds the jobs of the cell `{cell}`. A script declares every key that it
touches and never builds a name. On a Cluster it also declares `guard`, a key that never exists, so that it is refused
while its slot is handed over: see [ADR 9](adr/0009-any-engine.md)."""

REQUESTS_INTRO: Final = """\
What lives outside the cells has a slot of its own: a request id that came with a job, `{example}`, where `anyone` is
whoever sent it; a session, `{{sess:room-888}}`; a pairing code, `{{code:123456}}`; audio,
`{{audio:7f3a}}`; what is counted together, `{{rate:anyone}}`; a seat at a page, `{{seat:9f86…}}`; an instance,
`{{inst:web-7-1f}}`. The directory, `{{dir}}`, the dead letters, `{{dlq}}`, and the feed of notices, `{{feed}}`, have
one slot each for all."""

METRICS_INTRO: Final = """\
`GET /metrics` tells them in Prometheus' text format, to whoever has a token of the scope `metrics` or `admin`
([security.md](security.md)). A scrape looks at memory only: it costs the engine nothing, however often it comes.

What begins with `lingua_fleet_` is about all of the fleet, and is the same whichever instance is asked; take it once,
`max without (instance) (lingua_fleet_jobs_in_flight)`, and do not add it up. It is as old as
`lingua_snapshot_age_seconds` says. Everything else is of the instance that tells it, so each must be scraped by an
address of its own. The processes of `lingua serve --workers N` share a port, and whichever of them takes the call tells
its own numbers: they cannot be scraped one by one, and counters seem to begin anew at nearly every scrape. For
Prometheus start each instance on a port of its own, as [deploy](../deploy/README.md) does. A counter of the fleet
begins anew when the engine is emptied. No label ever names a session, a job, a node or a caller; of more than 200 pairs
the smallest are told together, as `others`."""

LOGS_INTRO: Final = """\
A scheduler writes to standard error: one JSON object on a line, or, where that is a terminal, words. Every line has
`ts` (UTC), `level`, `event` and `module`, and of the fields below those that are known; an exception has `exception`
besides, its way through the code without values. The event has the name of the flow that ran, or of the loop or door
that tells of something. Never is audio written down, or what was said, or a token, or what a node or a caller says in
words of his own: of that only a code. A test looks for all of these in the log of a whole fleet at `debug`. What
somebody else named is a value like any other: no newline in it begins a line."""

LEVELS_INTRO: Final = """\
The level is `logs.level` (`info`), and for some modules `logs.levels`; one that is not there is refused. SIGHUP reads
these two again (`systemctl reload`; not on a terminal, where it means that this is gone), from the same file and
environment, and ends what was set in between. Without a restart, for all instances at once, and only by an operator:

```
lingua log-level                         # how it is
lingua log-level front.door              # of one module, and of what is in it
lingua log-level front.door debug        # of one module; `loops` is all that is in it
lingua log-level lingua_scheduler debug --for 60
lingua log-level front.door default      # as the settings have it
```

Over HTTP it is `GET /v1/log-levels` and `POST /v1/log-level`. Each change is itself in the log (`log_level`), with
the name of the token, and among the events. Libraries are never let say more than warnings: at their own `debug` some
write down what travels. A line that is not wanted costs one look at a flag: `./dev bench guard` says how much that is
of a job."""

EVENTS_INTRO: Final = """\
What happened to a fleet, for people: `GET /api/v1/events`, `lingua events [--follow]`. The newest {most} are kept, for
{days} days after the last. They are written in the background and decide nothing: while the engine is away up to 1000
of each instance wait, and what is more is dropped and counted (`lingua_events_dropped_total`).

An event has an `id` (give the last one as `after`, and you get what came since), `at_ms` by the engine's clock, its
`kind`, what it is `about`, a `detail` in words, and the `instance_id` of the scheduler that wrote it. What an operator
did also has `who` (the name of his credential, never the token; empty if there are no tokens), `where` he came from
and the `outcome`: `ok` or the code of the refusal. Names come from nodes and callers: they are text, never markup.

What a script did is told by whoever got its answer, or took it out of the outbox: that a node is suspect, is trusted
again, rests, was lost or cut off is said by the script that decided it, with its reason, at the moment at which it was
so. That nodes are silent or have rested, and how pairs stand, is compared at every look at the fleet
(`loops.snapshot_interval_ms`): what came and went between two looks is not told. Of what several instances see one
event is kept. That a mark has ended is told by the instance that made it; if that has ended, it is not told: the mark
ends all the same.

Of more than ten of a kind within a second, of nodes or of pairs, the others are told together, a hundred at most in one
event: `each` names all of them, and what is said of each. `?about=` asks for what happened to one, alone or with
others."""

STATES_INTRO: Final = """\
A job begins as `{start}` and ends in exactly one of {ends}. An end is final. Any
move that is not in this table is refused."""

REFUSALS_INTRO: Final = """\
A refusal is a value, not an exception: nothing about what was asked was changed, and it says why. A refused word may
still be a sign of life of its node, or free a slot; a refused dispatch has settled what was due. A refusal has a code,
a sentence, and the answer to "shall I try again?". What breaks instead (the engine is away, a reply was lost) is an
exception inside: `DependencyDown` and `OutcomeUnknown`, told in [architecture.md](architecture.md). Whoever asked over
the wire is told `SCHEDULER_DEPENDENCY_DOWN`, `OUTCOME_UNKNOWN` or `INTERNAL`."""

BREAKDOWN_INTRO: Final = """\
`ALL_CANDIDATES_FULL_OR_FAILED` counts each node of the pool once, under the first reason for which it could not take
the job: {reasons}."""

ON_THE_WIRE_INTRO: Final = """\
Over HTTP a refusal has `error` (its code), `detail`, `retryable` and, where there is one, `retry_after_ms`, `trace_id`,
`breakdown` and `request_id`. A WebSocket `error` has the same fields, and `code`, `message` and `details` besides: they
repeat `error`, `detail` and `breakdown`. There {renamed}."""

RESULT_CODES_INTRO: Final = """\
These are no refusals: they tell how a job ended, or what a node said of it."""

CLOSES_INTRO: Final = """\
Before every close but the first two an `error` goes out, with the code in the last column."""

REASONS_INTRO: Final = """\
One list of words says why a node does not take a job, wherever that is told: in the verdicts of `explain_pair` and
`explain_job`, in the reasons of an attempt and of a wait, in `PREFERRED_NODE_UNAVAILABLE`, and as numbers in
`ALL_CANDIDATES_FULL_OR_FAILED`. [choosing.md](choosing.md) tells what to do about each."""

AGAINST_INTRO: Final = """\
The first that holds is given, in this order. A verdict that gives none means that the node could take the job. A node
that is `seen` or under suspicion could, too: the verdict says so beside it, and it comes last. A refusal counts a node
of the pool under the number in the last column; where there is none, the node is not in the pool, or in no number."""

CHOICE_INTRO: Final = """\
An attempt tells which wishes could not be met, as one of the first two words and a reason from above (`bound full`,
`preferred resting`), and what else was special."""

CAUSES_INTRO: Final = """\
*Released*: the slot is free at once. *Limbo*: the node may still be at work, so the slot stays taken until the node
says otherwise or `nodes.limbo_ttl_ms` is over. A job that has spent its tries fails."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [[*head], *([*row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def page(*parts: str) -> str:
    """A page of parts, with a blank line between them."""
    return "\n\n".join((NOTE, *parts)) + "\n"


def config() -> str:
    """Every setting, with what it means and where it can be given."""
    parts = [
        "# Settings",
        CONFIG_INTRO,
        '```toml\n[server]\nport = 5010\n\n[engine]\nurl = "redis://localhost:6379"\n```',
        "The same from the environment: `LINGUA_SERVER__PORT=5010`, with two underscores after the section.",
    ]
    for name in Settings.model_fields:
        rows = [
            (
                f"`{key}`",
                _type(field),
                _value(field.default),
                _bounds(field),
                f"`{env_name(key)}`",
                field.description or "",
            )
            for key, field in LEAVES.items()
            if key.split(".")[0] == name
        ]
        parts += [
            f"## [{name}]",
            type(getattr(Settings(), name)).__doc__ or "",
            table(("key", "type", "default", "bounds", "variable", "meaning"), rows),
        ]
    parts += [
        "## Settings that must fit together",
        "Settings that contradict each other are refused at the start.",
        "\n".join(f"- `{low.replace(' + ', '` + `')}` {sign} `{high}`" for low, sign, high in ORDER),
        "## The old `config.toml`",
        OLD_FILE_INTRO,
        table(
            ("old key", "now"),
            ((f"`{old.key}`", f"`{old.now}`" if old.now else f"no effect: {old.why}") for old in OLD_KEYS.values()),
        ),
    ]
    return page(*parts)


def _type(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(field.annotation))
    if isinstance(field.default, tuple):
        return "list of texts"
    return "whole number" if field.annotation is int else "text"


def _value(value: object) -> str:
    return "empty" if value in ("", ()) else f"`{value}`"


def _bounds(field: FieldInfo) -> str:
    found = {
        name: getattr(one, name) for one in field.metadata for name in _BOUNDS if getattr(one, name, None) is not None
    }
    if isinstance(field.default, tuple):
        return f"at most {found['max_length']}"
    if "ge" in found:
        return f"{found['ge']} … {found['le']}"
    return ", ".join(_BOUNDS[name].format(value) for name, value in found.items())


_BOUNDS: Final = {
    "ge": "",
    "le": "",
    "min_length": "at least {} character",
    "max_length": "at most {} characters",
    "pattern": "`{}`",
}


def keys() -> str:
    """Every key of the state engine."""
    prefix, cell = Settings().engine.key_prefix, Settings().cell.name
    return page(
        "# Keys",
        KEYS_INTRO.format(example=cell_key(prefix, cell, "jobs"), cell=cell),
        table(
            ("key", "type", "member or field", "value", "lives"),
            ((f"`{key.name}`", key.type, key.member, key.value, key.life) for key in CELL_KEYS),
        ),
        REQUESTS_INTRO.format(example=cell_key(prefix, request_tag("anyone", "r1"), "claim")),
        table(
            ("key", "type", "value", "lives"),
            ((f"`{key.name}`", key.type, key.value, key.life) for key in OUTSIDE_KEYS),
        ),
    )


def job_states() -> str:
    """The life of a job, as tables and as a picture."""
    moves = [(source, target, event) for source, targets in MOVES.items() for target, event in targets.items()]
    start = STATES[0]
    picture = [
        "stateDiagram-v2",
        f"  [*] --> {start}",
        *(f"  {source} --> {target}: {event}" for source, target, event in moves),
        *(f"  {end} --> [*]" for end in ENDS),
    ]
    return page(
        "# The life of a job",
        STATES_INTRO.format(start=start, ends=", ".join(f"`{end}`" for end in ENDS)),
        "```mermaid\n" + "\n".join(picture) + "\n```",
        table(("from", "to", "when"), ((f"`{source}`", f"`{target}`", event) for source, target, event in moves)),
        "## How an attempt ends without a result",
        CAUSES_INTRO,
        table(
            ("cause", "what happened", "its slot", "costs a try", "counts toward"),
            (
                (
                    f"`{cause.name}`",
                    cause.event,
                    cause.lease,
                    "yes" if cause.costs_try else "no",
                    f"`jobs.max_{cause.counts}`" if cause.counts else "",
                )
                for cause in CAUSES
            ),
        ),
    )


def refusals() -> str:
    """Every code of a refusal."""
    rows = (
        (
            f"`{name}`",
            str(code.status),
            (f"yes, after {code.retry_after_ms} ms" if code.retry_after_ms else "yes") if code.retryable else "no",
            code.detail.replace("{", "*").replace("}", "*"),
        )
        for name, code in CODES.items()
    )
    reasons = [f"`{name}`" for name in Breakdown.__struct_fields__ if name != "pool"]
    return page(
        "# Refusals",
        REFUSALS_INTRO,
        table(("code", "HTTP", "try again?", "what it says"), rows),
        BREAKDOWN_INTRO.format(reasons=", ".join(reasons)),
        "## On the wire",
        ON_THE_WIRE_INTRO.format(renamed="; ".join(f"`{code}` is `{name}`" for code, name in ON_SOCKETS.items())),
        "## Codes in results",
        RESULT_CODES_INTRO,
        table(("code", "what it means"), ((f"`{code}`", means) for code, means in RESULT_CODES.items())),
        "## Close codes",
        CLOSES_INTRO,
        table(
            ("code", "what it means", "`error`"),
            (
                (str(int(code)), close.meaning, f"`{close.error}`" if close.error else "")
                for code, close in CLOSES.items()
            ),
        ),
    )


def reasons() -> str:
    """Every word that says why a node does not take a job."""
    return page(
        "# Reasons",
        REASONS_INTRO,
        "## What stands against a node",
        AGAINST_INTRO,
        table(
            ("reason", "what it means", "counted as"),
            ((f"`{r.word}`", r.means, f"`{r.counted}`" if r.counted else "") for r in AGAINST),
        ),
        "## What is told of a choice",
        CHOICE_INTRO,
        table(("word", "what it means"), ((f"`{word}`", means) for word, means in (WISHES | SPECIAL).items())),
    )


def metrics() -> str:
    """docs/metrics.md, from the declarations."""
    rows = (
        (f"`{metric.name}`", metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.meaning)
        for metric in METRICS
    )
    successors = ((f"`{old}`", new) for old, new in SUCCESSORS)
    return page(
        "# Metrics",
        METRICS_INTRO,
        table(("name", "kind", "labels", "what it is"), rows),
        "Beside these there is what is usual of a Python process: `process_*` and `python_*`.",
        "## What became of the names of the first scheduler",
        table(("there", "here"), successors),
    )


def logs() -> str:
    """docs/logs.md, from every call."""
    events: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for one in log_events():
        events.setdefault((one.event, one.level, one.fields), []).append(one.module)
    rows = (
        (
            f"`{event}`" if event else "`drain`, `evict`, `resume`",
            level,
            ", ".join(f"`{module}`" for module in dict.fromkeys(modules)),
            ", ".join(f"`{name}`" for name in fields),
        )
        for (event, level, fields), modules in events.items()
    )
    return page(
        "# Logs",
        LOGS_INTRO,
        "## Levels",
        LEVELS_INTRO,
        "## Fields",
        table(("field", "what it is"), ((f"`{name}`", means) for name, means in FIELDS.items())),
        "## Events",
        table(("event", "level", "module", "fields"), rows),
    )


def events() -> str:
    """docs/events.md: what can happen."""
    rows = ((f"`{kind}`", about, means) for kind, (about, means) in KINDS.items())
    intro = EVENTS_INTRO.format(most=MAX_KEPT, days=KEPT_MS // 86_400_000)
    return page("# Events", intro, table(("kind", "about", "what it means"), rows))


PAGES: Final[dict[str, Callable[[], str]]] = {
    "config.md": config,
    "keys.md": keys,
    "job-states.md": job_states,
    "refusals.md": refusals,
    "metrics.md": metrics,
    "events.md": events,
    "reasons.md": reasons,
    "logs.md": logs,
}


def stale(folder: Path = DOCS) -> list[str]:
    """The pages that differ from what the code says now."""
    found = {name: folder / name for name in PAGES}
    return [
        name for name, path in found.items() if not path.exists() or path.read_text(encoding="utf-8") != PAGES[name]()
    ]


def main(arguments: list[str], folder: Path = DOCS) -> int:
    """Write what is stale, or with `--check` only name it."""
    if set(arguments) - {"--check"}:
        print("usage: python -m tools.docs [--check]", file=sys.stderr)
        return 2
    names = stale(folder)
    for name in names:
        if arguments:
            print(f"docs/{name} is stale: run ./dev docs")
        else:
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(PAGES[name](), encoding="utf-8")
            print(f"docs/{name} written")
    return 1 if names and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
