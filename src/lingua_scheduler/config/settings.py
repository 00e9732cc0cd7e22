"""The tree itself: every setting with its default, its bounds and one line that says what it is for.

A setting that the scripts obey has the same name here as in `Rules`, whatever its section.
"""

from __future__ import annotations

from typing import Final, Literal, Self

from msgspec.structs import fields
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from lingua_scheduler.config.catalog import Catalog
from lingua_scheduler.config.doors import Auth, Rates, Server
from lingua_scheduler.config.logs import Logs
from lingua_scheduler.config.section import DAY, HOUR, MINUTE, Section
from lingua_scheduler.config.talks import Sessions
from lingua_scheduler.config.traces import Traces
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.rules import Rules

#: Settings that would contradict each other in another order; on the left there may be a sum.
ORDER: Final[tuple[tuple[str, Literal["<", "≤"], str], ...]] = (
    ("nodes.socket_beat_ms", "<", "nodes.stale_ms"),
    ("nodes.stale_ms", "<", "nodes.offline_ms"),
    ("nodes.offline_ms", "<", "nodes.node_record_ttl_ms"),
    ("nodes.reconnect_grace_ms", "<", "nodes.offline_ms"),
    ("nodes.confirm_after_ms", "<", "nodes.limbo_ttl_ms"),
    ("nodes.rest_ms", "≤", "nodes.max_rest_ms"),
    ("jobs.reservation_ttl_ms", "≤", "jobs.run_timeout_ms"),
    ("jobs.run_timeout_ms", "≤", "jobs.timeout_ms"),
    ("jobs.result_ttl_ms", "≤", "jobs.job_record_ttl_ms"),
    ("jobs.released_ttl_ms", "≤", "jobs.job_record_ttl_ms"),
    ("loops.sweep_interval_ms", "≤", "jobs.reservation_ttl_ms"),
    ("loops.relay_lease_ms", "<", "jobs.reservation_ttl_ms"),
    ("instance.letter_pause_ms", "<", "instance.letter_lease_ms"),
    ("catalog.timeout_ms", "≤", "catalog.refresh_interval_ms"),
    ("catalog.refresh_interval_ms", "≤", "catalog.max_interval_ms"),
    ("instance.presence_beat_ms", "<", "instance.presence_ttl_ms"),
    # A node whose instance sleeps is missed by that, and has its grace, before it counts as silent.
    ("instance.presence_ttl_ms + nodes.handover_grace_ms + nodes.socket_beat_ms", "<", "nodes.offline_ms"),
)

URL_SCHEMES: Final = (
    *("redis", "rediss", "unix"),
    *("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"),
)

_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"


class Instance(Section):
    """This scheduler among the others that share its state engine."""

    id: str = Field(
        default="auto",
        pattern=_ID,
        description="Its name, which no other has. `auto`: host, process and chance, new at every start.",
    )
    presence_beat_ms: int = Field(
        default=3_000, ge=10, le=10 * MINUTE, description="How often it says that it is there."
    )
    presence_ttl_ms: int = Field(
        default=10_000,
        ge=100,
        le=HOUR,
        description="Without a word for so long, it is gone: nobody writes to it, and its letters go to others.",
    )
    inbox_max: int = Field(
        default=10_000, ge=1, le=1_000_000, description="How many letters its inbox takes; one more is refused."
    )
    inbox_block_ms: int = Field(
        default=1_000, ge=10, le=MINUTE, description="It looks into its inbox so often even if nobody rings."
    )
    letter_lease_ms: int = Field(
        default=60_000,
        ge=20_000,
        le=DAY,
        description="A letter that an instance took out of another's inbox and did not settle is free again.",
    )
    letter_pause_ms: int = Field(
        default=10_000,
        ge=1,
        le=MINUTE,
        description="The longest pause before a letter that was not handed over comes again; each one, if this release "
        "does not know its kind.",
    )


class Engine(Section):
    """The state engine: Redis or Valkey."""

    url: str = Field(
        default="",
        max_length=2_048,
        repr=False,  # it may hold a password
        description="`redis://host:6379/0`, `unix:///path`, `redis+sentinel://host:26379,host:26379/name` or "
        "`redis+cluster://host:6379,host:6379`; `rediss` for TLS. Empty: an engine of our own, embedded.",
    )
    data_dir: str = Field(
        default="",
        max_length=1_024,
        description="Where the embedded engine keeps its data. Empty: the user's state folder.",
    )
    durability: Literal["default", "fsync", "replicated"] = Field(
        default="default",
        description="Of the embedded engine: `default`: a killed process loses nothing, a power cut about a second; "
        "`fsync`: a power cut loses nothing either. Of an engine with replicas: `replicated`: what was acknowledged "
        "is on replicas, else it is `OUTCOME_UNKNOWN`.",
    )
    replicas: int = Field(
        default=1, ge=1, le=10, description="With `replicated`: how many replicas must have what is acknowledged."
    )
    replication_timeout_ms: int = Field(
        default=500,
        ge=10,
        le=10_000,
        description="With `replicated`: how long the replicas may take before the outcome is unknown.",
    )
    key_prefix: str = Field(
        default="lingua:v1",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$",
        description="What every key begins with.",
    )
    call_timeout_ms: int = Field(
        default=900,
        ge=50,
        le=1_000,
        description="How long a call may take before the engine counts as down: callers are told within a second.",
    )

    @field_validator("url")
    @classmethod
    def _scheme_is_known(cls, url: str) -> str:
        scheme, found, rest = url.partition("://")
        if url and not (found and rest and scheme in URL_SCHEMES):
            # The value itself is not shown: it may hold a password.
            raise ValueError(f"must be empty or begin with one of {', '.join(f'{name}://' for name in URL_SCHEMES)}")
        return url

    @model_validator(mode="after")
    def _replicas_are_elsewhere(self) -> Self:
        if self.durability == "replicated" and not self.url:
            raise ValueError('engine.durability "replicated" needs an engine with replicas: name one with engine.url')
        return self


class Cell(Section):
    """The part of the fleet that one hash slot serves."""

    name: str = Field(
        default="c0",
        pattern=r"^[a-z][a-z0-9]{0,15}$",
        description="The first cell; when it is full, others are opened that are named like it, c1, c2 and so on.",
    )
    cell_capacity: int = Field(
        default=1_000,
        ge=1,
        le=100_000,
        description="How many nodes a cell takes in; for more of them another cell is opened.",
    )
    max_groups: int = Field(
        default=256, ge=1, le=4_096, description="How many different capabilities its nodes may have."
    )
    max_waiting: int = Field(
        default=4_096, ge=0, le=100_000, description="How many jobs may wait for a node; one more is refused at once."
    )


class Nodes(Section):
    """When a node is chosen, rested, given up."""

    default_max_concurrent_jobs: int = Field(
        default=4, ge=1, le=1_024, description="Slots of a node that does not say how many it has."
    )
    heartbeat_interval_ms: int = Field(
        default=15_000, ge=100, le=HOUR, description="How often a node is asked to beat; it may beat less often."
    )
    socket_beat_ms: int = Field(
        default=10_000,
        ge=10,
        le=10 * MINUTE,
        description="How often an open socket or poll counts as a sign of life of its node.",
    )
    stale_ms: int = Field(
        default=35_000,
        ge=1_000,
        le=HOUR,
        description="Without any sign of life for so long, a node is not chosen.",
    )
    offline_ms: int = Field(
        default=45_000,
        ge=1_000,
        le=DAY,
        description="Silent for so long and without a live socket, a node is lost.",
    )
    node_record_ttl_ms: int = Field(
        default=3_600_000,
        ge=1_000,
        le=30 * DAY,
        description="How long a lost node is remembered, after it had to confirm what it ran.",
    )
    intent_ttl_ms: int = Field(
        default=7 * DAY,
        ge=1_000,
        le=365 * DAY,
        description="How long a drain, an eviction or a limit outlives its node, in case it comes back.",
    )
    reconnect_grace_ms: int = Field(
        default=500,
        ge=0,
        le=MINUTE,
        description="A closed socket may come back within this before its node is lost.",
    )
    handover_grace_ms: int = Field(
        default=10_000,
        ge=0,
        le=10 * MINUTE,
        description="The same when the scheduler itself closed the socket or died, or nobody answered its pings.",
    )
    limbo_ttl_ms: int = Field(
        default=60_000,
        ge=1_000,
        le=HOUR,
        description="How long a fenced attempt holds its slot if the node says nothing.",
    )
    confirm_after_ms: int = Field(
        default=2_000,
        ge=0,
        le=10 * MINUTE,
        description="A heartbeat that may have been said sooner than this after the fence does not prove that the node "
        "stopped; and for so long after an instance had lost the engine no job is late: it first tells what it could "
        "not.",
    )
    rest_ms: int = Field(
        default=1_000,
        ge=1,
        le=10 * MINUTE,
        description="How long an overloaded node rests if it does not say so itself.",
    )
    max_rest_ms: int = Field(
        default=60_000, ge=1, le=HOUR, description="The longest rest that a node is given, whatever it says."
    )
    probe_ms: int = Field(
        default=5_000,
        ge=1,
        le=HOUR,
        description="How long a node under suspicion waits for the next job that may clear it.",
    )
    flap_window_ms: int = Field(
        default=60_000,
        ge=1,
        le=DAY,
        description="A node that is gone and back three times within this rests, longer each time.",
    )
    mass_silence_nodes: int = Field(
        default=5,
        ge=2,
        le=10_000,
        description="In a fleet of so many nodes or more, more than half of them silent at once are not given up.",
    )
    pairing_ttl_ms: int = Field(
        default=300_000, ge=1_000, le=DAY, description="How long a pairing code stands for its node."
    )
    mark_ttl_ms: int = Field(
        default=60_000,
        ge=1,
        le=DAY,
        description="How long a node gets no job that needs a service which was seen not to work.",
    )
    mark_debounce_ms: int = Field(
        default=5_000, ge=0, le=HOUR, description="The same service of a node is marked at most once in this."
    )
    mark_window_ms: int = Field(
        default=10_000, ge=1, le=HOUR, description="Within this a node is marked at most `max_marked` times."
    )
    max_marked: int = Field(default=30, ge=1, le=10_000, description="How often a node is marked within that window.")
    mass_silence_ms: int = Field(
        default=600_000, ge=0, le=DAY, description="For so long, then they are given up all the same."
    )


class Jobs(Section):
    """How long a job may take, how often it is tried, how long it is remembered."""

    reservation_ttl_ms: int = Field(
        default=5_000, ge=10, le=10 * MINUTE, description="How long a node has to acknowledge a job."
    )
    run_timeout_ms: int = Field(default=30_000, ge=10, le=HOUR, description="How long one attempt may run.")
    timeout_ms: int = Field(default=60_000, ge=10, le=DAY, description="The job's deadline, over all attempts.")
    max_retry: int = Field(default=2, ge=0, le=10, description="Tries after the first one.")
    policy: Literal["random", "spread", "sticky_pool", "least_loaded"] = Field(
        default="random", description="How a node is chosen for jobs that do not say: docs/choosing.md."
    )
    binding_ttl_ms: int = Field(
        default=60_000,
        ge=1,
        le=DAY,
        description="How long it is remembered where a session's jobs went: its turns, its last node, its last pool.",
    )
    result_ttl_ms: int = Field(
        default=120_000,
        ge=1_000,
        le=DAY,
        description="How long text is kept after the end if nobody confirms it.",
    )
    job_record_ttl_ms: int = Field(
        default=3_600_000,
        ge=1_000,
        le=30 * DAY,
        description="How long an ended job is remembered that nobody confirmed.",
    )
    released_ttl_ms: int = Field(
        default=300_000,
        ge=1_000,
        le=30 * DAY,
        description="How long a job is remembered after its client confirmed it.",
    )
    elsewhere_ms: int = Field(
        default=200,
        ge=0,
        le=10_000,
        description="How long a retry hopes that another cell is asked for it, before a node that had it is taken.",
    )
    claim_lease_ms: int = Field(
        default=90_000,
        ge=1_000,
        le=HOUR,
        description="How much longer than the job may take a request id stands for it when its caller died half-way.",
    )
    max_undelivered: int = Field(
        default=10, ge=1, le=1_000, description="Attempts that never reached their node before the job fails."
    )
    max_overloaded: int = Field(
        default=10, ge=1, le=1_000, description="Refusals by overloaded nodes that cost a job no try."
    )
    max_lost: int = Field(default=2, ge=1, le=100, description="Nodes that a job may lose before it counts as poison.")


class Loops(Section):
    """What runs in the background."""

    sweep_interval_ms: int = Field(
        default=200, ge=10, le=10_000, description="How often an instance looks for what is due."
    )
    relay_interval_ms: int = Field(
        default=20, ge=1, le=10_000, description="How often an instance looks for news in the outbox."
    )
    inherit_interval_ms: int = Field(
        default=1_000,
        ge=10,
        le=MINUTE,
        description="How often an instance looks for the letters of those that are gone.",
    )
    watch_interval_ms: int = Field(
        default=1_000, ge=10, le=MINUTE, description="How often somebody looks whether the engine was emptied."
    )
    survey_interval_ms: int = Field(
        default=5_000,
        ge=10,
        le=MINUTE,
        description="How often an instance compares a part of the directory with the cells.",
    )
    audit_interval_ms: int = Field(
        default=30_000, ge=100, le=DAY, description="How often an instance looks whether the invariants hold."
    )
    snapshot_interval_ms: int = Field(
        default=5_000, ge=20, le=10 * MINUTE, description="How often an instance looks at the whole fleet, to show it."
    )
    live_interval_ms: int = Field(
        default=1_000,
        ge=20,
        le=MINUTE,
        description="How often whoever watches the fleet is told what has changed.",
    )
    relay_lease_ms: int = Field(
        default=1_000,
        ge=100,
        le=10 * MINUTE,
        description="An event that a relay took and did not hand over is free again.",
    )


class Settings(BaseModel):
    """All settings. `Settings()` is the defaults; `load` brings in file, environment and flags."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    server: Server = Server()
    auth: Auth = Auth()
    rates: Rates = Rates()
    sessions: Sessions = Sessions()
    instance: Instance = Instance()
    engine: Engine = Engine()
    cell: Cell = Cell()
    nodes: Nodes = Nodes()
    jobs: Jobs = Jobs()
    loops: Loops = Loops()
    catalog: Catalog = Catalog()
    logs: Logs = Logs()
    traces: Traces = Traces()

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        values = {f"{name}.{key}": value for name, section in self for key, value in section}
        for low, sign, high in ORDER:
            least = sum(values[name] for name in low.split(" + "))
            if least > values[high] or (sign == "<" and least == values[high]):
                need = "be less than" if sign == "<" else "not be greater than"
                raise ValueError(f"{low} ({least}) must {need} {high} ({values[high]})")
        return self

    def limits(self) -> Limits:
        """What a job is given that names no limits of its own."""
        jobs = self.jobs
        return Limits(jobs.reservation_ttl_ms, jobs.run_timeout_ms, jobs.timeout_ms, jobs.max_retry)

    def rules(self) -> Rules:
        """The settings that the scripts obey."""
        sections = (self.instance, self.server, self.cell, self.nodes, self.jobs, self.loops)
        values = {name: value for section in sections for name, value in section}
        return Rules(**{field.name: values[field.name] for field in fields(Rules)})
