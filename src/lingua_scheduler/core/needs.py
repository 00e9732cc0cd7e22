"""What a job needs of a node beside its pair, and what a node lacks, as bits that one `and` compares.

A group of nodes stands under each of its pairs as `LACKS × group + lacks`. A job can go to it if none of the bits that
the job needs is among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.capability import SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingua_scheduler.core.records import Profile

#: The node says that it has not got the service.
LACKING: Final = {name: 1 << number for number, name in enumerate(SERVICES)}
#: It has, but it was seen not to work a moment ago.
MARKED: Final = {name: 1 << number for number, name in enumerate(SERVICES, start=len(SERVICES))}
#: It does not speak the target's language.
MUTE: Final = 1 << 2 * len(SERVICES)
#: It takes only jobs that name it.
PRIVATE: Final = MUTE << 1
#: More than all of these together.
LACKS: Final = PRIVATE << 1

#: What the usual pipeline is made of.
USUAL: Final = ("asr", "nmt", "semantic")


def needs_of(services: Iterable[str]) -> int:
    """The bits that stop a job which needs these services, and names no node."""
    names = set(services)
    needs = sum(LACKING[name] | MARKED[name] for name in names) | PRIVATE
    return needs | MUTE if "tts" in names else needs


def lacks_of(profile: Profile, target: str) -> int:
    """What a node of this word lacks when it comes to a pair with this target; `*` is none that it speaks."""
    lacks = sum(LACKING[name] for name, ready in profile.services if not ready)
    for mark in profile.marks:
        lacks |= MARKED[mark.type] if mark.type else sum(MARKED.values())
    speaks = isinstance(profile.tts, list) and target in profile.tts
    return lacks + (0 if speaks else MUTE) + (0 if profile.public else PRIVATE)


def services_in(bits: int) -> list[str]:
    """The services that are lacking, by name."""
    return [name for name, lacking in LACKING.items() if bits & lacking]
