"""Which route a request means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import msgspec

from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.front.web import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lingua_scheduler.front.web import Query

    Fits = Callable[[str], re.Match[str] | None]

_MOST_PARAMETERS: Final = 100
_TRUE, _FALSE = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


class Found(msgspec.Struct):
    """A path that exists: what can be done there, and what stood in its braces."""

    by_method: dict[str, Route]
    named: Mapping[str, str] = {}

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
        #: By the number of their slashes, and how they are written.
        self._patterns: dict[int, dict[str, tuple[Fits, dict[str, Route]]]] = {}
        for route in self.routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        if "{" not in route.path:
            by_method = self._exact.setdefault(route.path, Found({})).by_method
        else:
            patterns = self._patterns.setdefault(route.path.count("/"), {})
            _, by_method = patterns.setdefault(route.path, (_pattern(route.path), {}))
        if by_method.setdefault(route.method, route) is not route:
            raise ValueError(f"two routes for {route.method} {route.path}")

    def find(self, path: str) -> Found | None:
        """What is at this path; None: nothing."""
        found = self._exact.get(path)
        if found is not None:
            return found
        patterns = self._patterns.get(path.count("/"))
        if patterns is not None:
            for fits, by_method in patterns.values():
                if (fit := fits(path)) is not None:
                    return Found(by_method, fit.groupdict())
        return None


def _pattern(path: str) -> Fits:
    """What fits a path with braces: something without a slash stands for each."""
    parts = [f"(?P<{part[1:-1]}>[^/]+)" if part[:1] == "{" else re.escape(part) for part in path.split("/")]
    return re.compile("/".join(parts)).fullmatch


def split_query(text: str) -> dict[str, str]:
    """What stands behind the question mark, by name; of several with a name the last."""
    if not text:
        return {}
    if text.count("&") >= _MOST_PARAMETERS:
        raise Invalid("There are too many parameters.")
    if "%" in text or "+" in text:
        return dict(parse_qsl(text, keep_blank_values=True))
    # Nothing in it stands for anything else, as in most.
    return {name: value for name, _, value in (part.partition("=") for part in text.split("&"))}


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
