"""Which services there are, as a hub lists them, and how what a node has installed compares with that.

Only to be shown: no job goes anywhere else because of it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import msgspec

#: A list that is larger is not read, and one with more services not believed.
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_SERVICES: Final = 10_000
_MAX_TEXT: Final = 256

_Text = Annotated[str, msgspec.Meta(max_length=_MAX_TEXT)]


class NoCatalog(Exception):
    """Nothing was said that could be used; and why."""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service that a node may install. `version` is the newest there is; "" if the hub does not say."""

    service_id: Annotated[str, msgspec.Meta(min_length=1, max_length=_MAX_TEXT)]
    version: _Text = ""
    type: _Text = ""
    name: _Text = ""


class Comparison(StrEnum):
    """How what a node has compares with the catalog."""

    INSTALLED = "installed"
    OUTDATED = "outdated"
    #: There is no catalog, it does not list the service, or one of them does not say which version.
    UNKNOWN = "unknown"


class _Index(msgspec.Struct, frozen=True):
    services: Annotated[list[Service], msgspec.Meta(max_length=MAX_SERVICES)]


_read_index: Final = msgspec.json.Decoder(_Index).decode


class Catalog(msgspec.Struct, frozen=True):
    """Each service once, by its id."""

    services: dict[str, Service]

    def latest(self, service_id: str) -> str | None:
        """The newest version of a service; None: nobody knows."""
        known = self.services.get(service_id)
        return known.version or None if known is not None else None

    def compare(self, service_id: str, version: str) -> Comparison:
        """What to say of a service that a node has installed in this version."""
        latest = self.latest(service_id)
        if latest is None or not version:
            return Comparison.UNKNOWN
        return Comparison.OUTDATED if _rank(version) < _rank(latest) else Comparison.INSTALLED


def read_catalog(index: bytes) -> Catalog:
    """`{"services": [{"service_id", "version"?, "type"?, "name"?}…]}`, whatever else it says. Else `NoCatalog`.

    Of several versions of a service the newest counts.
    """
    if len(index) > MAX_BYTES:
        raise NoCatalog(f"it has more than {MAX_BYTES} bytes")
    try:
        services = _read_index(index).services
    except (ValueError, RecursionError) as error:
        raise NoCatalog(f"it lists no services: {error}") from None
    newest: dict[str, Service] = {}
    for service in services:
        known = newest.get(service.service_id)
        if known is None or _rank(known.version) < _rank(service.version):
            newest[service.service_id] = service
    return Catalog(newest)


def _rank(version: str) -> tuple[object, ...]:
    """`v1.10.0` comes after `1.9`, `2.0` after `2.0-rc1`, and what stands behind a `+` does not count."""
    release, _, early = version.lower().removeprefix("v").partition("+")[0].partition("-")
    parts = [_part(part) for part in release.split(".")]
    while len(parts) > 1 and parts[-1] == _part("0"):
        parts.pop()
    return parts, not early, [_part(part) for part in early.split(".")]


def _part(part: str) -> tuple[bool, int, str]:
    """Words come before numbers."""
    is_number = part.isascii() and part.isdecimal()
    return is_number, int(part) if is_number else 0, "" if is_number else part
