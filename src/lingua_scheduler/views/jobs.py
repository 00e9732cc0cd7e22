"""jobs: those that are under way and those that have ended, over all cells, a page at a time.

There is no index of jobs by time: every dispatch would pay for it. But each job has an entry in the due-list of its
cell, and for each kind of them that is nearly the order of their times. So each kind is walked backwards in every cell
from the same moment on, and what they find is put together down to where the slowest of them came. A cursor is a
moment and a name; no cell keeps anything of whoever looks.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.ids import MAX_ID_LENGTH, cell_of, check_cell, check_id, check_int, check_text
from lingua_scheduler.core.job_state import ENDS, STATES
from lingua_scheduler.core.language import UnknownLanguage
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.records import JobRecord, Record, Ticket
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.views.job import Job, read_job

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingua_scheduler.store.engine import Engine

#: So many entries of the due-list one run looks at: of each that is a job its record is read.
ENTRIES_PER_RUN: Final = 100
#: So many runs for each kind in each cell: then a page is told as it is, though it may not be full.
RUNS_PER_PAGE: Final = 10
#: What is under way comes first, then what has ended, of whichever kind.
_STEPS: Final = (("under_way",), ("ended", "released", "erased"))
_CURSOR: Final = re.compile(r"([01])(?:\.(\d{1,16})\.([a-z]:.{1,300}))?").fullmatch
_MAX_CURSOR: Final = 512
_MAX_WORDS: Final = 8
_MAX_TEXT: Final = 256

Spot = tuple[int, str]
Wish = tuple[str, str]


class SeenJob(Record, frozen=True):
    """A job on a page. `at_ms` is where it stands in its kind."""

    at_ms: int
    job_id: str
    record: JobRecord
    ticket: Ticket

    @property
    def spot(self) -> Spot:
        """Its place: those at the same moment stand by their names, as in the due-list."""
        return self.at_ms, f"j:{self.job_id}"


class _Jobs(Answer, frozen=True, tag="JOBS"):
    found: list[SeenJob]
    #: How far this went; -1: to the end.
    last_ms: int
    last: str


_JOBS: Final = Face("views/jobs", _Jobs)


class JobsWanted(msgspec.Struct, frozen=True):
    """Which jobs: all that is not "" must be so.

    `job` is the beginning of an id, `node` one that has it or had it. Each of the `words` is either of these, or the
    session, the pair or the state.
    """

    job: str = ""
    session: str = ""
    node: str = ""
    pair: str = ""
    state: str = ""
    words: str = ""


class Jobs(msgspec.Struct, frozen=True):
    """A page: first those under way, then those that have ended, the newest of each first, to within some seconds.

    Without a cursor there are no more; with one there may be, also if nothing was found.
    """

    jobs: list[SeenJob]
    cursor: str | None


async def read_jobs(
    engine: Engine,
    cells: Sequence[str],
    wanted: JobsWanted = JobsWanted(),  # noqa: B008 - frozen
    *,
    text_ttl_ms: int,
    cursor: str = "",
    limit: int = 50,
) -> Jobs | Refusal:
    """Look at jobs from `cursor` on; `text_ttl_ms` is how long the text of one stays that finishes here."""
    try:
        cells = [check_cell(cell) for cell in cells]
        wishes = list(_wishes(wanted))
        limit = check_int("limit", limit, 1, 1_000)
        text_ttl_ms = check_int("text_ttl_ms", text_ttl_ms, 1, 2**53)
        step, spot = _read_cursor(cursor)
    except Invalid as invalid:
        return invalid.refusal
    if one := await _whole(engine, wishes):
        return Jobs([one], None)
    states = {text for what, text in wishes if what == "state"}
    steps = range(1 if states & set(ENDS) else 0, 1 if states - set(ENDS) else 2)
    walk = _Walk(engine, [cell for cell in cells if _may_be_in(cell, wishes)], wishes, text_ttl_ms, limit)
    step = max(step, steps.start)
    while walk.is_going and step in steps:
        step, spot = await walk.go_on(step, spot)
    return Jobs(walk.found, _cursor(step, spot) if step in steps else None)


def _may_be_in(cell: str, wishes: list[Wish]) -> bool:
    """The beginning of an id may name the cell."""
    return all("." not in text or text.startswith(f"{cell}.") for what, text in wishes if what == "job")


class _Walk:
    """What was found so far on the way through the cells."""

    def __init__(self, engine: Engine, cells: Sequence[str], wishes: list[Wish], text_ttl_ms: int, limit: int) -> None:
        self._engine = engine
        self._cells = cells
        self._wishes = wishes
        self._text_ttl_ms = text_ttl_ms
        self._limit = limit
        self._runs = 0
        self.found: list[SeenJob] = []

    @property
    def is_going(self) -> bool:
        """Whether there is room for more, and it was not long yet."""
        return len(self.found) < self._limit and self._runs < RUNS_PER_PAGE

    async def go_on(self, step: int, spot: Spot | None) -> tuple[int, Spot | None]:
        """One run in every cell for every kind of this step; where the next one begins."""
        self._runs += 1
        begin = (-1, "") if spot is None else spot
        item = (*begin, self._text_ttl_ms, ENTRIES_PER_RUN, self._limit, self._wishes)
        runs = [_JOBS(self._engine, cell, pack((kind, *item))) for cell in self._cells for kind in _STEPS[step]]
        answers = [answer for answer in await asyncio.gather(*runs) if isinstance(answer, _Jobs)]
        # Whoever has not come as far as the others may yet find something between.
        far = max(((answer.last_ms, answer.last) for answer in answers if answer.last), default=None)
        seen = [one for answer in answers for one in answer.found if _is_between(one, spot, far)]
        fresh = sorted(seen, key=lambda one: one.spot, reverse=True)
        room = self._limit - len(self.found)
        self.found += sorted(fresh[:room], key=_newest, reverse=True)
        if len(fresh) > room:
            return step, fresh[room - 1].spot
        return (step + 1, None) if far is None else (step, far)


def _is_between(one: SeenJob, spot: Spot | None, far: Spot | None) -> bool:
    return (spot is None or one.spot < spot) and (far is None or one.spot >= far)


def _newest(one: SeenJob) -> int:
    return one.record.ended_at_ms or one.record.created_at_ms


async def _whole(engine: Engine, wishes: list[Wish]) -> SeenJob | None:
    """The one job that is named by its whole id, and by nothing else; it may have gone on to another cell."""
    if len(wishes) != 1 or wishes[0][0] not in {"job", "name"}:
        return None
    try:
        cell_of(wishes[0][1])
    except Invalid:
        return None
    job = await read_job(engine, wishes[0][1])
    return SeenJob(0, job.ticket.job, job.record, job.ticket) if isinstance(job, Job) else None


def _wishes(wanted: JobsWanted) -> Iterable[Wish]:
    """What must be so, checked."""
    if not isinstance(wanted, JobsWanted):
        raise Invalid("wanted must be JobsWanted")
    for what in ("job", "session", "node"):
        if text := check_text(what, getattr(wanted, what), _MAX_TEXT):
            yield what, check_id(what, text)
    if pair := check_text("pair", wanted.pair, _MAX_TEXT):
        yield "pair", _pair(pair)
    if state := check_text("state", wanted.state, _MAX_TEXT):
        yield "state", _state(state)
    words = check_text("q", wanted.words, _MAX_WORDS * MAX_ID_LENGTH).split()
    if len(words) > _MAX_WORDS:
        raise Invalid(f"q must have at most {_MAX_WORDS} words")
    for word in words:
        if word.upper() in STATES:
            yield "state", word.upper()
        elif ":" in word:
            yield "pair", _pair(word)
        else:
            yield "name", check_id("q", word)


def _pair(text: str) -> str:
    try:
        return str(Pair.parse(text))
    except UnknownLanguage as unknown:
        raise Invalid(f"pair: {unknown}") from None


def _state(text: str) -> str:
    if text.upper() not in STATES:
        raise Invalid(f"state must be one of {', '.join(STATES)}")
    return text.upper()


def _read_cursor(cursor: str) -> tuple[int, Spot | None]:
    """In which step, and behind which place there; None: from its beginning."""
    if not check_text("cursor", cursor, _MAX_CURSOR):
        return 0, None
    found = _CURSOR(cursor)
    if found is None:
        raise Invalid("cursor must be one that an earlier page gave")
    return int(found[1]), (int(found[2]), found[3]) if found[2] else None


def _cursor(step: int, spot: Spot | None) -> str:
    return f"{step}" if spot is None else f"{step}.{spot[0]}.{spot[1]}"
