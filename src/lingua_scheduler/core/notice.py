"""What happened to a fleet, for people: one small record for each thing, kept for a while."""

from __future__ import annotations

from typing import Final

from lingua_scheduler.core.ids import check_int, check_text
from lingua_scheduler.core.records import Record
from lingua_scheduler.core.refusal import Invalid

#: So many are kept, the newest, and none for longer than this after the last.
MAX_KEPT: Final = 2_000
KEPT_MS: Final = 7 * 86_400_000
#: Of what several instances see, each for itself, one notice is enough: the same again within this is not noted.
SAME_MS: Final = 60_000
#: These say how a node stands, though a script tells them and nobody looks: what is seen after one of them is news.
STANDS: Final = ("node_healed", "node_lost", "node_resting", "node_suspect")
#: So far it is looked back for that.
LOOKED_BACK: Final = 200
#: What it may say in words.
MAX_DETAIL_CHARS: Final = 300
_MAX_WORD_CHARS: Final = 256
_MAX_MS: Final = 2**53
#: So many that say the same are one notice at most, and so much is said of each of them.
MAX_EACH: Final = 100
MAX_EACH_CHARS: Final = 120

#: What can happen, and what its `about` names.
KINDS: Final[dict[str, tuple[str, str]]] = {
    "node_joined": ("node", "It registered for the first time, or as a new process."),
    "node_left": ("node", "It said that it goes."),
    "node_silent": ("node", "Without a sign of life for `nodes.stale_ms`: it is not chosen."),
    "node_lost": (
        "node",
        "It is given up: its socket stayed closed, or it was silent for too long. Its jobs moved on.",
    ),
    "node_jobs_moved": ("node", "How many jobs it took with it, and how soon others had them."),
    "node_fenced": ("node", "It did not accept a job in time, or gave no result in time: the job goes to another."),
    "node_cut_off": ("node", "It did not confirm that it stopped a job: it gets nothing until it registers again."),
    "node_forgiven": ("node", "It could not say whether it stopped a job; its slot is free again."),
    "node_suspect": (
        "node",
        "Too many of its last jobs failed: it is chosen when nobody else can. Told again when it rested, or was away.",
    ),
    "node_resting": (
        "node",
        "It said that it is overloaded, could not be sent a job, or comes and goes: it gets nothing for a while.",
    ),
    "node_healed": ("node", "It was silent, suspect, resting or lost, and is chosen again as any other."),
    "node_marked": ("node", "A service was seen not to work: no jobs that need it, for `nodes.mark_ttl_ms`."),
    "node_unmarked": ("node", "That is over."),
    "pair_empty": ("pair", "No node that lives serves it any more."),
    "pair_served": ("pair", "Somebody serves it again."),
    "pair_panic": ("pair", "More than half of its living nodes are suspect: suspicion does not count there."),
    "pair_calm": ("pair", "That is over."),
    "mass_silence": ("", "More than half of the nodes fell silent at once: nobody is given up for that."),
    "engine_back": ("instance", "This instance could not reach the state engine, and reaches it again."),
    "engine_emptied": ("instance", "The state engine came back empty: what this instance holds was entered again."),
    "engine_taken_over": ("instance", "Another server serves, or it was restarted: the same was done."),
    "instance_came": ("instance", "A scheduler is there."),
    "instance_went": ("instance", "It has ended, or was not heard of any more."),
    "dead_letter": ("letter", "A letter between schedulers that nobody could use: `/v1/dlq`."),
    "admin_drain": ("node", "An operator drained a node."),
    "admin_resume": ("node", "An operator resumed it."),
    "admin_evict": ("node", "An operator evicted it."),
    "admin_set_max": ("node", "An operator set how many jobs it may have."),
    "admin_pair": ("node", "An operator had a pairing code made."),
    "admin_cancel": ("job", "An operator cancelled a job."),
    "admin_replay": ("letter", "An operator sent a dead letter again."),
    "admin_delete": ("letter", "An operator deleted a dead letter."),
    "admin_log_level": ("module", "An operator set how much is written down of a module."),
    "admin_link": ("", "An operator had a link made that signs a browser in."),
    "admin_sign_in": ("", "Somebody signed in at a page by a link, or tried to (from one address once a minute)."),
    "admin_sign_out": ("", "He signed out."),
}
#: What a notice of an operator's act is called.
ADMIN: Final = "admin_"


class Notice(Record, frozen=True):
    """Something happened to what `about` names, at `at_ms`. What it does not tell is empty.

    `instance` is who noted it. Of an operator's act: `who` did it (his name, never his token), from `where`, and the
    `outcome`: `ok`, or the code of the refusal. `seen`: whoever looks can see it, so that several note the same.
    `each`: the same happened to all of these at once, and this is said of each.
    """

    kind: str
    about: str
    detail: str
    at_ms: int
    instance: str
    who: str = ""
    where: str = ""
    outcome: str = ""
    seen: bool = False
    each: tuple[tuple[str, str], ...] = ()


def check_notice(value: object) -> Notice:
    """A notice whose fields are what they should be, and not too long."""
    if not isinstance(value, Notice) or type(value.seen) is not bool:
        raise Invalid("notice must be a notice")
    if value.kind not in KINDS:
        raise Invalid("kind must be one that is known")
    for name in ("about", "instance", "who", "where", "outcome"):
        check_text(name, getattr(value, name), _MAX_WORD_CHARS)
    check_text("detail", value.detail, MAX_DETAIL_CHARS)
    check_int("at_ms", value.at_ms, 0, _MAX_MS)
    if len(value.each) > MAX_EACH:
        raise Invalid("each must not be more")
    for about, detail in value.each:
        check_text("about", about, _MAX_WORD_CHARS)
        check_text("detail", detail, MAX_EACH_CHARS)
    return value
