"""What the operator's commands ask of a running scheduler, over HTTP as anybody would."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.sdk._address import address_of
from lingua_scheduler.sdk._connect import SentAway, headers_of, opener_of, token_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_S: Final = 20.0
#: So many are asked for at once.
PAGE: Final = "1000"


class NotAnswered(LinguaError):
    """Nobody is there, or no scheduler is, or somebody refused with this code; the message says which, and why.

    `is_final`: a scheduler said it, and will say it again. Anything else may pass, as when one is started anew.
    """

    def __init__(self, message: str, code: str = "", *, is_final: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.is_final = is_final


class Operator:
    """Whoever has the operator's token. Address and token may come from LINGUA_URL and LINGUA_TOKEN."""

    def __init__(self, url: str | None, token: str | None) -> None:
        try:
            self._address = address_of(url)
            self._headers = headers_of(token_of(token))
        except ValueError as error:
            raise NotAnswered(str(error)) from None

    @property
    def where(self) -> str:
        """Whom we ask."""
        return str(self._address)

    def cluster(self) -> dict[str, Any]:
        """Every instance in numbers, and where each is; and how many letters nobody could use."""
        where = {one["instance_id"]: one for one in self._pages("/v1/instances", "instances")}
        seen = self._ask("GET", "/api/v1/cluster", instances=list, dead_letters=int)
        found = [(one, where.get(one["instance_id"], {})) for one in seen["instances"]]
        instances = [one | {name: there.get(name) for name in ("url", "pid")} for one, there in found]
        return {"instances": instances, "dead_letters": seen["dead_letters"]}

    def nodes(self, standing: str | None = None) -> list[dict[str, Any]]:
        """All nodes at a glance, by name; perhaps only those that stand so."""
        return list(self._pages("/v1/nodes", "nodes", standing=standing))

    def node(self, node_id: str) -> dict[str, Any]:
        """Everything known of a node."""
        return self._ask("GET", f"/v1/nodes/{quote(node_id, safe='')}", node_id=str)

    def intend(self, node_id: str, action: str) -> dict[str, Any]:
        """`drain`, `resume` or `evict` a node."""
        return self._ask("POST", f"/v1/nodes/{quote(node_id, safe='')}/{action}", intent=str)

    def set_max(self, node_id: str, slots: int | None) -> dict[str, Any]:
        """How many jobs a node may have at once; None: as many as it says."""
        path = f"/v1/nodes/{quote(node_id, safe='')}/max"
        return self._ask("POST", path, {"max_concurrent_jobs": slots}, max_concurrent_jobs=int)

    def pairing(self, node_id: str) -> dict[str, Any]:
        """A code that stands for a node."""
        return self._ask("POST", f"/v1/nodes/{quote(node_id, safe='')}/pairing", pairing_code=str, expires_in_ms=int)

    def jobs(self, limit: int, **wanted: str | None) -> list[dict[str, Any]]:
        """The newest jobs that are wanted, at most so many."""
        found = dict[str, dict[str, Any]]()
        for page in self._each("/v1/jobs", "jobs", min(limit, int(PAGE)), **wanted):
            # One that ends meanwhile is on two of them.
            found |= {one["job_id"]: one for one in page["jobs"]}
            if len(found) >= limit:
                break
        return list(found.values())[:limit]

    def job(self, job_id: str) -> dict[str, Any]:
        """Everything known of a job."""
        return self._ask("GET", f"/v1/job/{quote(job_id, safe='')}", job_id=str, state=str)

    def cancel(self, job_id: str, reason: str) -> dict[str, Any]:
        """Nobody wants its result any more."""
        return self._ask("POST", "/v1/job/cancel", {"job_id": job_id, "reason": reason}, state=str)

    def stats(self) -> dict[str, Any]:
        """The fleet in numbers."""
        return self._ask("GET", "/api/v1/stats", health=dict, nodes=dict, pools=list)

    def ready(self) -> dict[str, Any]:
        """That it can serve; else it refuses."""
        return self._ask("GET", "/readyz", ok=bool)

    def config(self) -> dict[str, Any]:
        """The settings of whoever answers, and where each came from."""
        return self._ask("GET", "/v1/config", settings=list)

    def link(self, *, read_only: bool) -> dict[str, Any]:
        """A link that signs a browser in, by the address at which we ask."""
        said = self._ask("POST", "/api/v1/link", {"read_only": read_only}, path=str, expires_in_ms=int)
        return said | {"url": self._address.http(said["path"])}

    def events(self, after: str, limit: int, about: str | None = None) -> dict[str, Any]:
        """What happened to the fleet, or to one, after that event; after none: the last."""
        asked = {"after": after, "limit": str(limit)} | ({} if about is None else {"about": about})
        return self._ask("GET", f"/api/v1/events?{urlencode(asked)}", events=list, last=str)

    def explain_pair(self, src: str, tgt: str, *, tts: bool) -> dict[str, Any]:
        """Who could take such a job now: all of the fleet."""
        asked = {"src": src, "tgt": tgt, "require_tts": "true" if tts else "false"}
        return self._whole("/v1/explain", **asked)

    def explain_job(self, job_id: str, *, nodes: bool) -> dict[str, Any]:
        """Why a job went where it went, and perhaps who could take it now."""
        return self._whole(f"/v1/job/{quote(job_id, safe='')}/explain", nodes="true" if nodes else "false")

    def log_levels(self, module: str | None) -> dict[str, Any]:
        """How much whoever answers writes down, by module; perhaps only of one and what is in it."""
        asked = "" if module is None else f"?{urlencode({'module': module})}"
        return self._ask("GET", f"/v1/log-levels{asked}", modules=list)

    def set_log_level(self, module: str, level: str, seconds: float | None) -> dict[str, Any]:
        """How much all write down of a module."""
        message = {"module": module, "level": level, "for_s": seconds}
        return self._ask("POST", "/v1/log-level", message, module=str, instances=list)

    def dead_letters(self) -> list[dict[str, Any]]:
        """All of them, the oldest first."""
        return list(self._pages("/v1/dlq", "letters"))

    def replay(self, letter_id: str) -> dict[str, Any]:
        """Send a dead letter again."""
        return self._ask("POST", f"/v1/dlq/{quote(letter_id, safe='')}/replay", instance_id=str)

    def delete(self, letter_id: str) -> dict[str, Any]:
        """Forget a dead letter."""
        return self._ask("DELETE", f"/v1/dlq/{quote(letter_id, safe='')}", ok=bool)

    def _pages(self, path: str, name: str, **query: str | None) -> Iterator[dict[str, Any]]:
        for page in self._each(path, name, int(PAGE), **query):
            yield from page[name]

    def _each(self, path: str, name: str, limit: int, **query: str | None) -> Iterator[dict[str, Any]]:
        """Page by page, until there are no more."""
        given = {key: value for key, value in query.items() if value is not None} | {"limit": str(limit)}
        cursor: str | None = ""
        while cursor is not None:
            page = self._ask("GET", f"{path}?{urlencode(given | {'cursor': cursor})}", None, **{name: list})
            yield page
            cursor = page.get("cursor")

    def _whole(self, path: str, **query: str) -> dict[str, Any]:
        """An explanation with the nodes of all its pages."""
        said = self._ask("GET", f"{path}?{urlencode(query | {'limit': PAGE})}", cursor=str, pair=str)
        while said["cursor"]:
            more = urlencode(query | {"limit": PAGE, "cursor": said["cursor"]})
            page = self._ask("GET", f"{path}?{more}", cursor=str, nodes=list)
            said |= {"nodes": said["nodes"] + page["nodes"], "cursor": page["cursor"]}
        return said

    def _ask(self, method: str, path: str, message: dict[str, Any] | None = None, /, **has: type) -> dict[str, Any]:
        """The answer, which has at least this: somebody else may answer with an object, too."""
        url, _, query = path.partition("?")
        request = urllib.request.Request(  # noqa: S310 - an Address is http or https
            self._address.http(url) + (f"?{query}" if query else ""),
            data=None if message is None else json.dumps(message).encode(),
            headers=self._headers | ({} if message is None else {"content-type": "application/json"}),
            method=method,
        )
        try:
            with opener_of(is_loopback=self._address.is_loopback).open(request, timeout=_PATIENCE_S) as answer:
                found = json.load(answer)
        except SentAway as sent:
            raise NotAnswered(f"{self._address} sends us to {_other(sent.url, url)}") from None
        except urllib.error.HTTPError as error:
            code, detail, is_final = _detail(error)
            if error.code == HTTPStatus.UNAUTHORIZED:
                detail += " The operator's is given by --token or LINGUA_TOKEN."
            raise NotAnswered(f"{self._address} refused: {detail}", code, is_final=is_final) from None
        except (OSError, HTTPException, ValueError) as error:
            why = error.reason if isinstance(error, urllib.error.URLError) else error
            raise NotAnswered(f"no scheduler answers at {self._address}: {why}") from None
        if not (isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in has.items())):
            raise NotAnswered(f"whoever answers at {self._address} is no scheduler")
        return found


def _other(url: str, path: str) -> str:
    """Who is named instead of the one we asked for this path, and what to do about it."""
    place = re.sub(r"[?#].*", "", url)
    is_same = place.endswith(path)
    return f"{place.removesuffix(path)}: give that as --url (LINGUA_URL)" if is_same else f"{place}: is it a scheduler?"


def _detail(error: urllib.error.HTTPError) -> tuple[str, str, bool]:
    """The code of a refusal, all of it, and whether it is the last word; of somebody else's only how HTTP names it."""
    with error:
        try:
            said = json.load(error)
            return str(said["error"]), f"{said['error']}: {said['detail']}", not said["retryable"]
        except (ValueError, KeyError, TypeError):
            return "", f"{error.code} {error.reason}", False
