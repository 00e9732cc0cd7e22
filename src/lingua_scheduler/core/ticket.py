"""What a job asks for, checked and put into the one form that the flows read."""

from __future__ import annotations

import functools
import random
from typing import Final, NamedTuple

from lingua_scheduler.core.ids import check_id, check_int, check_text
from lingua_scheduler.core.language import UnknownLanguage, reduce_language
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.needs import USUAL, needs_of
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.records import Ticket, Wishes
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.core.wanted import (
    NO_HINTS,
    USUAL_WANTED,
    Hints,
    Wanted,
    check_policy,
    check_services,
    wishes_of,
)

MAX_TIMEOUT_MS: Final = 86_400_000
#: A request id is held for an unfinished claim so long, and more.
MAX_WAIT_MS: Final = 60_000
#: The last index that somebody may give his utterance himself. Those that are given for him go on growing behind it: as
#: many as nobody ever says, before the engine would not count exactly any more.
MAX_INDEX: Final = 2**52
LAST_INDEX: Final = 2 * MAX_INDEX - 1
#: More often nobody goes on from cell to cell.
MAX_HOP: Final = 2**31
_SEED_BITS: Final = 32
SEEDS: Final = 2**_SEED_BITS
_USUAL_NEEDS: Final = needs_of(USUAL)


def check_language(field: str, tag: object) -> str:
    """The language of a tag, which is all that counts: for the node, and when the same request comes again."""
    return (_known_language if type(tag) is str else _language)(field, tag)


def _language(field: str, tag: object) -> str:
    try:
        return reduce_language(check_text(field, tag, 256))
    except UnknownLanguage as unknown:
        raise Invalid(f"{field}: {unknown}") from None


#: People speak a few languages, again and again.
_known_language: Final = functools.lru_cache(maxsize=4_096)(_language)


@functools.lru_cache(maxsize=4096)
def _pair(src_lang: str, tgt_lang: str) -> tuple[Pair, str, str]:
    """The pair of two languages, its name, and that of the pair that it falls back to; "": to none."""
    pair = Pair(check_language("src_lang", src_lang), check_language("tgt_lang", tgt_lang))
    fallback = pair.fallback()
    return pair, str(pair), "" if fallback is None else str(fallback)


class _Terms(NamedTuple):
    """What of a ticket is the same for all jobs that ask for the same."""

    pair: Pair
    named: str
    fallback: str
    ack_ms: int
    run_ms: int
    timeout_ms: int
    max_retry: int
    needs: int
    policy: int
    wait_ms: int
    wishes: list[Wishes]


#: Those of jobs that ask for what most ask for, by their languages, and under which limits.
_usual: Final[dict[tuple[str, str], tuple[Limits, _Terms]]] = {}
_MAX_USUAL: Final = 4_096


def _usual_terms(src_lang: str, tgt_lang: str, limits: Limits) -> _Terms:
    """The same again and again: an instance has a few pairs, and one kind of limits."""
    known = _usual.get((src_lang, tgt_lang))
    if known is not None and known[0] is limits:
        return known[1]
    terms = _terms(src_lang, tgt_lang, limits, USUAL_WANTED, NO_HINTS)
    if len(_usual) >= _MAX_USUAL:
        _usual.clear()
    _usual[src_lang, tgt_lang] = limits, terms
    return terms


def _terms(src_lang: str, tgt_lang: str, limits: Limits, wanted: Wanted, hints: Hints) -> _Terms:
    """The terms, checked."""
    pair, named, fallback = _pair(check_text("src_lang", src_lang, 256), check_text("tgt_lang", tgt_lang, 256))
    for value, kind in ((limits, Limits), (wanted, Wanted), (hints, Hints)):
        if not isinstance(value, kind):
            raise Invalid(f"{kind.__name__.lower()} must be {kind.__name__}")
    wait_ms = check_int("wait_ms", wanted.wait_ms, 0, MAX_WAIT_MS)
    timeout_ms = check_int("timeout_ms", limits.timeout_ms, 1, MAX_TIMEOUT_MS)
    return _Terms(
        pair,
        named,
        "" if wanted.two_way else fallback,
        check_int("ack_ms", limits.ack_ms, 1, MAX_TIMEOUT_MS),
        check_int("run_ms", limits.run_ms, 1, MAX_TIMEOUT_MS),
        timeout_ms,
        check_int("max_retry", limits.max_retry, 0, 10),
        _USUAL_NEEDS if wanted.services == USUAL else needs_of(check_services(wanted.services)),
        check_policy(wanted.policy),
        min(wait_ms, timeout_ms),
        wishes_of(wanted, hints, pair),
    )


def make_ticket(
    job_id: str,
    session_id: str,
    src_lang: str,
    tgt_lang: str,
    *,
    utterance_index: int = 0,
    trace_id: str = "",
    limits: Limits = Limits(),  # noqa: B008 - frozen
    wanted: Wanted,
    hints: Hints,
    seed: int | None = None,
    hop: int = 0,
) -> tuple[Pair, Ticket]:
    """What is asked for, checked; `Invalid` says what is wrong with it."""
    if wanted is USUAL_WANTED and hints is NO_HINTS and type(src_lang) is str and type(tgt_lang) is str:
        terms = _usual_terms(src_lang, tgt_lang, limits)
    else:
        terms = _terms(src_lang, tgt_lang, limits, wanted, hints)
    pair, named, fallback, ack_ms, run_ms, timeout_ms, max_retry, needs, policy, wait_ms, wishes = terms
    ticket = Ticket(
        job=job_id,
        session=check_id("session_id", session_id),
        utterance=check_int("utterance_index", utterance_index, 0, LAST_INDEX),
        pair=named,
        fallback=fallback,
        ack_ms=ack_ms,
        run_ms=run_ms,
        timeout_ms=timeout_ms,
        max_retry=max_retry,
        seed=random.getrandbits(_SEED_BITS) if seed is None else check_int("seed", seed, 0, SEEDS - 1),
        trace=check_text("trace_id", trace_id, 128),
        needs=needs,
        policy=policy,
        wait_ms=wait_ms,
        wishes=wishes,
        hop=check_int("hop", hop, 0, MAX_HOP),
    )
    return pair, ticket
