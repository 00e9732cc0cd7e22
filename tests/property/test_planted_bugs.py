"""The search is worth something: it finds what somebody could have got wrong."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from lingua_scheduler.store.scripts import compose, read_packaged
from tests.property.exhaustive import Broken, Search
from tests.property.scopes import CASES, DEFAULT_DEPTH

if TYPE_CHECKING:
    from tests.support.servers import Server


class Bug(NamedTuple):
    """One line of Lua that somebody got wrong, where to look for it, and the promise that it breaks."""

    file: str
    right: str
    wrong: str
    case: str
    breaks: str


BUGS: Final = {
    "an ack timeout frees the slot of a node that may be at work": Bug(
        "settle_job", "CAUSE.ack_timeout", "CAUSE.failed", "the life of a job", "S1 A is at"
    ),
    "an offer of which nobody heard any more frees the slot of a node that may be at work": Bug(
        "settle_job", "CAUSE.unsent", "CAUSE.failed", "the life of a job", "S1 A is at"
    ),
    "a run timeout frees the slot of a node that is at work": Bug(
        "settle_job", "CAUSE.run_timeout", "CAUSE.failed", "the life of a job", "S1 A is at"
    ),
    "a lost node's slots are free": Bug(
        "lose_node",
        "CAUSE.lost, limit",
        "CAUSE.died, limit",
        "nodes that die and come back, from a busy fleet",
        "S1 A is at",
    ),
    "a fenced attempt may still end its job": Bug(
        "attempt_of", "attempt == job[JOB.attempt] and", "", "nodes that die and come back, from a busy fleet", "S2"
    ),
    "a node that has gone may be chosen": Bug(
        "restand", "node[NODE.away_until_ms] > 0", "false", "nodes that die and come back", "S19"
    ),
    "a full node may be chosen": Bug(
        "by_load", "node[NODE.used] >= node[NODE.max]", "false", "the life of a job", "S1"
    ),
    "a slot is counted down that was not there": Bug(
        "end_limbo", "== 0 then", "== 2 then", "nodes that die and come back, from a busy fleet", "S3"
    ),
    "an end is not told": Bug("end_job", 'post("ended"', 'post("over"', "the life of a job", "S5"),
    "a node that could have told is given the benefit": Bug(
        "settle_limbo", "[NODE.tells] == 1", "[NODE.tells] == 2", "the life of a job", "S1 A is at"
    ),
    "a freed slot is not offered to those who wait": Bug(
        "put_node", "woken[#woken + 1] = node_id", "", "the life of a job", "L1"
    ),
    "a freed slot is not found again": Bug(
        "free_slot", "<= STANDING.suspect_full then", "<= STANDING.suspect then", "the life of a job", "S19"
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_the_search_finds_a_planted_bug(name: str, server: Server) -> None:
    bug = BUGS[name]
    case = CASES[bug.case]

    def read(path: str) -> str:
        text = read_packaged(path)
        if path == f"flows/shared/{bug.file}":
            assert bug.right in text
            return text.replace(bug.right, bug.wrong)
        return text

    search = Search(server.path, f"small:{secrets.token_hex(4)}", lambda path: compose(path, read))
    with pytest.raises(Broken, match=bug.breaks) as broken:
        search.run(case.scope, DEFAULT_DEPTH + case.deeper)
    print(f"\n{broken.value}")  # noqa: T201 - with -s
