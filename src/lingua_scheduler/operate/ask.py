"""What the operator's commands ask of a running scheduler, over HTTP as anybody would."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.sdk._address import address_of
from lingua_scheduler.sdk._connect import headers_of, token_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_S: Final = 20.0


class NotAnswered(LinguaError):
    """Nobody is there, or somebody refused; the message says which, and why."""


class Operator:
    """Whoever has the operator's token. Address and token may come from LINGUA_URL and LINGUA_TOKEN."""

    def __init__(self, url: str | None, token: str | None) -> None:
        try:
            self._address = address_of(url)
        except ValueError as error:
            raise NotAnswered(str(error)) from None
        self._headers = headers_of(token_of(token))

    def instances(self) -> list[dict[str, Any]]:
        """Every instance in numbers, and where each is."""
        where = {one["instance_id"]: one for one in self._pages("/v1/instances", "instances")}
        numbers = self._ask("GET", "/api/v1/cluster")["instances"]
        return [one | {name: where.get(one["instance_id"], {}).get(name) for name in ("url", "pid")} for one in numbers]

    def dead_letters(self) -> list[dict[str, Any]]:
        """All of them, the oldest first."""
        return list(self._pages("/v1/dlq", "letters"))

    def replay(self, letter_id: str) -> dict[str, Any]:
        """Send a dead letter again."""
        return self._ask("POST", f"/v1/dlq/{quote(letter_id, safe='')}/replay")

    def delete(self, letter_id: str) -> dict[str, Any]:
        """Forget a dead letter."""
        return self._ask("DELETE", f"/v1/dlq/{quote(letter_id, safe='')}")

    def _pages(self, path: str, name: str) -> Iterator[dict[str, Any]]:
        cursor: str | None = ""
        while cursor is not None:
            page = self._ask("GET", f"{path}?{urlencode({'limit': 1_000, 'cursor': cursor})}")
            yield from page[name]
            cursor = page.get("cursor")

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        proxies = [urllib.request.ProxyHandler({})] if self._address.is_loopback else []
        url, _, query = path.partition("?")
        request = urllib.request.Request(  # noqa: S310 - an Address is http or https
            self._address.http(url) + (f"?{query}" if query else ""), headers=self._headers, method=method
        )
        try:
            with urllib.request.build_opener(*proxies).open(request, timeout=_PATIENCE_S) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            raise NotAnswered(f"{self._address} refused: {_detail(error)}") from None
        except (OSError, HTTPException, ValueError) as error:
            why = error.reason if isinstance(error, urllib.error.URLError) else error
            raise NotAnswered(f"no scheduler answers at {self._address}: {why}") from None
        return found


def _detail(error: urllib.error.HTTPError) -> str:
    with error:
        try:
            said = json.load(error)
            return f"{said['error']}: {said['detail']}"
        except (ValueError, KeyError, TypeError):
            return f"{error.code} {error.reason}"
