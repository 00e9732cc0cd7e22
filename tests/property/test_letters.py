"""Letters, in any order of events: every flow does what the model does, and no letter is ever forgotten (S12)."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.appear import Appeared, appear
from lingua_scheduler.flows.close_inbox import Closed, close_inbox
from lingua_scheduler.flows.collect import Letters, collect, collect_pending
from lingua_scheduler.flows.enlist import Enlisted, enlist
from lingua_scheduler.flows.post import Sent, post
from lingua_scheduler.flows.settle import Settled, settle
from lingua_scheduler.flows.strike import Struck, strike
from lingua_scheduler.flows.take_over import Alive, Inherited, take_over
from lingua_scheduler.flows.vanish import Vanished, vanish
from tests.property.machine import Arena
from tests.property.post_model import Lying, Town
from tests.support.mail import letter, listed, look, pending, presence_of, rest
from tests.support.stage import code_of

if TYPE_CHECKING:
    from tests.support.servers import Server

NAMES: Final = ("a", "b")
MOST: Final = 3
STEPS = (
    *("enlist", "enlist", "appear", "appear", "vanish", "look", "close", "close", "strike", "strike"),
    *("post", "post", "collect", "collect_pending", "take_over", "settle", "settle", "lapse", "wait"),
)
STORIES, EVENTS = 20, 200


class Story:
    """One town, in the engine and in the model. Nobody does what the loops would not do; all else is chance."""

    def __init__(self, arena: Arena, outcomes: Counter[str]) -> None:
        self.arena = arena
        self.engine = arena.engine
        self.town = Town(arena.now_ms, MOST)
        self.outcomes = outcomes
        #: The beat with which each will appear; the one that each saw of each, and whether he has closed that inbox.
        self.enlisted: dict[str, int] = {}
        self.seen: dict[tuple[str, str], int] = {}
        self.has_closed: set[tuple[str, str]] = set()
        self.told: list[tuple[str, str, str, int]] = []

    async def step(self, name: str, who: str, whom: str, limit: int) -> None:
        try:
            answer = await getattr(self, name)(who, whom, limit)
            await self.compare()
        except AssertionError as error:
            error.add_note(f"what happened so far: {self.told}")
            raise
        self.outcomes[f"{name} {answer}"] += 1

    async def enlist(self, who: str, _whom: str, _limit: int) -> str:
        answer = await enlist(self.engine, who)
        assert answer == Enlisted(self.town.enlist(who))
        self.enlisted[who] = answer.beat
        return ""

    async def appear(self, who: str, _whom: str, _limit: int) -> str:
        if who not in self.enlisted:
            return "too early"
        answer = await appear(self.engine, presence_of(who), beat := self.enlisted.pop(who))
        expected = self.town.appear(who, beat)
        said = ("was there" if answer.was_there else "was gone") if isinstance(answer, Appeared) else "CLOSED"
        assert said == expected
        return said

    async def vanish(self, who: str, _whom: str, _limit: int) -> str:
        """Or its time is over, which is the same."""
        assert await vanish(self.engine, presence_of(who)) == Vanished(self.town.vanish(who))
        return ""

    async def look(self, who: str, whom: str, _limit: int) -> str:
        """Who wants to clear up looks into the directory first."""
        if whom in self.town.beats:
            self.seen[who, whom] = self.town.beats[whom]
            self.has_closed.discard((who, whom))
        return ""

    async def close(self, who: str, whom: str, _limit: int) -> str:
        if (who, whom) not in self.seen:
            return "too early"
        beat = self.seen[who, whom]
        said = "CLOSED" if await close_inbox(self.engine, whom, beat) == Closed() else "OPEN"
        assert said == self.town.close(whom, beat)
        if said == "CLOSED":
            self.has_closed.add((who, whom))
        return said

    async def strike(self, who: str, whom: str, _limit: int) -> str:
        if (who, whom) not in self.has_closed:
            return "too early"
        self.has_closed.discard((who, whom))
        beat = self.seen.pop((who, whom))
        was_there = self.town.strike(whom, beat)
        assert await strike(self.engine, whom, beat) == Struck(was_there)
        return str(was_there)

    async def post(self, _who: str, whom: str, _limit: int) -> str:
        expected = self.town.post(whom)
        answer = await post(self.engine, whom, letter())
        assert code_of(answer) == expected
        if isinstance(answer, Sent):
            self.town.inboxes[whom][answer.number] = Lying()
        return expected

    async def collect(self, who: str, _whom: str, limit: int) -> str:
        answer = await collect(self.engine, who, who, limit)
        assert _told(answer) == self.town.collect(who, who, limit)
        return str(bool(_told(answer)))

    async def collect_pending(self, who: str, _whom: str, limit: int) -> str:
        answer = await collect_pending(self.engine, who, who, "", limit)
        assert _told(answer) == self.town.collect_pending(who, who, limit)
        return str(bool(_told(answer)))

    async def take_over(self, who: str, whom: str, limit: int) -> str:
        answer = await take_over(self.engine, whom, who, limit)
        expected = self.town.take_over(whom, who, limit)
        assert (None if answer == Alive() else _told(answer)) == expected
        return "ALIVE" if expected is None else f"{'own ' if who == whom else ''}{bool(expected)}"

    async def settle(self, _who: str, whom: str, limit: int) -> str:
        """Whoever it is: one that only slept still settles what another has taken over."""
        taken = [number for number, lying in self.town.inboxes.get(whom, {}).items() if lying.reader]
        number = taken[limit % len(taken)] if taken else "1-0"
        was_there = self.town.settle(whom, number)
        assert await settle(self.engine, whom, number) == Settled(was_there)
        return str(was_there)

    async def lapse(self, _who: str, whom: str, limit: int) -> str:
        taken = [(number, lying) for number, lying in self.town.inboxes.get(whom, {}).items() if lying.reader]
        if not taken:
            return "nothing"
        number, lying = taken[limit % len(taken)]
        lying.has_lapsed = True
        await rest(self.engine, whom, lying.reader, number, self.arena.rules.letter_lease_ms)
        return ""

    async def wait(self, _who: str, _whom: str, limit: int) -> str:
        self.arena.now_ms += limit - 2
        self.town.now_ms = self.arena.now_ms
        return ""

    async def compare(self) -> None:
        town = self.town
        assert await listed(self.arena) == town.beats
        for name in NAMES:
            inbox = town.inboxes.get(name, {})
            taken = {number: (lying.reader, lying.deliveries) for number, lying in inbox.items() if lying.reader}
            assert await look(self.engine, name) == (name in town.there, len(inbox), len(taken))
            if name in town.inboxes:
                assert await pending(self.engine, name) == taken
            assert not (name in town.there or inbox) or name in town.beats, f"S12: {name} stands in no directory"


def _told(answer: object) -> list[tuple[str, int]]:
    assert isinstance(answer, Letters | Inherited), answer
    return [(number, deliveries) for number, deliveries, _ in answer.letters]


def test_no_order_of_events_loses_a_letter_or_an_inbox(server: Server) -> None:
    outcomes: Counter[str] = Counter()

    async def live(seed: int) -> None:
        chance, arena = Random(seed), Arena()
        await arena.open(server.url, Rules(inbox_max=MOST))
        story = Story(arena, outcomes)
        for _ in range(EVENTS):
            step = (chance.choice(STEPS), chance.choice(NAMES), chance.choice(NAMES), chance.randint(1, 3))
            story.told.append(step)
            await story.step(*step)
        await arena.engine.close()

    for seed in range(STORIES):
        asyncio.run(live(seed))
    assert {outcome for outcome in REACHED if not outcomes[outcome]} == set()


#: A run that never saw one of these proves little.
REACHED: Final = {
    *("appear CLOSED", "appear was there", "appear was gone", "close OPEN", "close CLOSED", "strike True"),
    *("strike False", "post ", "post INSTANCE_GONE", "post INBOX_FULL", "collect True", "collect_pending True"),
    *("take_over ALIVE", "take_over True", "take_over own True", "settle True", "settle False", "lapse "),
}
