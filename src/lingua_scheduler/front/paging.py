"""Lists in pages, by name: what every list over HTTP takes and gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from lingua_scheduler.front.web import Query

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

LIMIT: Final = Query("limit", "How many on a page at most.", int, least=1, most=1_000)
CURSOR: Final = Query("cursor", "What the last page gave.")


def asked_page(query: Mapping[str, str]) -> tuple[str, int]:
    """Behind which name a page begins, and how many are on it."""
    return query.get("cursor", ""), int(query.get("limit", "200"))


def page_of(named: Mapping[str, T], query: Mapping[str, str]) -> tuple[list[T], str | None]:
    """Those whose names come after the cursor, and the cursor of the next page: the last name, if there are more."""
    after, limit = asked_page(query)
    names = sorted(name for name in named if name > after)
    return [named[name] for name in names[:limit]], names[limit - 1] if len(names) > limit else None
