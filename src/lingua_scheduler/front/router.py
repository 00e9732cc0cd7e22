"""Which route a request means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lingua_scheduler.core.refusal import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lingua_scheduler.front.web import Query, Route

_TRUE, _FALSE = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


@dataclass(slots=True)
class Found:
    """A path that exists: what can be done there, and what stood in its braces."""

    by_method: dict[str, Route]
    named: Mapping[str, str] = field(default_factory=dict)

    @property
    def methods(self) -> list[str]:
        """What the path takes, for `Allow`."""
        known = set(self.by_method) | {"OPTIONS"}
        return sorted(known | {"HEAD"} if "GET" in known else known)


class Router:
    """Paths without braces are looked up; the others are tried one after the other, among those of equal length."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._exact: dict[str, Found] = {}
        self._patterns: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
        for route in self.routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        if "{" not in route.path:
            by_method = self._exact.setdefault(route.path, Found({})).by_method
        else:
            parts = tuple(route.path.split("/"))
            patterns = self._patterns.setdefault(len(parts), [])
            known = [methods for pattern, methods in patterns if pattern == parts]
            by_method = known[0] if known else {}
            if not known:
                patterns.append((parts, by_method))
        if by_method.setdefault(route.method, route) is not route:
            raise ValueError(f"two routes for {route.method} {route.path}")

    def find(self, path: str) -> Found | None:
        """What is at this path; None: nothing."""
        found = self._exact.get(path)
        if found is not None:
            return found
        parts = path.split("/")
        for pattern, by_method in self._patterns.get(len(parts), ()):
            named = _fit(pattern, parts)
            if named is not None:
                return Found(by_method, named)
        return None


def _fit(pattern: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    named = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted[:1] == "{":
            if not part:
                return None
            named[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return named


def read_query(known: Iterable[Query], given: Mapping[str, str]) -> dict[str, str]:
    """The parameters, each as it is written best: a number in digits, `true` or `false`. Unknown ones are ignored."""
    read = {}
    for query in known:
        text = given.get(query.name)
        if text is not None:
            read[query.name] = _read(query, text)
        elif query.required:
            raise Invalid(f"{query.name}: missing")
    return read


def _read(query: Query, text: str) -> str:
    if query.kind is int:
        # No more digits than the largest number has: the rest is not worth reading.
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(query.most))):
            raise Invalid(f"{query.name}: expected a whole number from {query.least} to {query.most}")
        if not query.least <= int(text) <= query.most:
            raise Invalid(f"{query.name}: expected a whole number from {query.least} to {query.most}")
        return str(int(text))
    if query.kind is bool:
        if text.lower() not in _TRUE | _FALSE:
            raise Invalid(f"{query.name}: expected true or false")
        return "true" if text.lower() in _TRUE else "false"
    return text
