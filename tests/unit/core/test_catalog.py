"""The catalog of services: what counts as one, and when what a node has is outdated."""

from __future__ import annotations

import json

import pytest

from lingua_scheduler.core.catalog import MAX_BYTES, MAX_SERVICES, NoCatalog, read_catalog


def index(*services: dict[str, str]) -> bytes:
    return json.dumps({"services": services, "generated_by": "whoever"}).encode()


@pytest.mark.parametrize(
    ("installed", "newest", "status"),
    [
        ("1.0", "1.0", "installed"),
        ("1.0.0", "1.0", "installed"),
        ("v1.0", "1.0.0+build7", "installed"),
        ("2.0", "1.9", "installed"),
        ("1.9", "1.10", "outdated"),
        ("2.0-rc1", "2.0", "outdated"),
        ("2.0", "2.0-rc1", "installed"),
        ("2.0-rc1", "2.0-rc2", "outdated"),
        ("2024a", "1.0", "outdated"),
        ("", "1.0", "unknown"),
        ("1.0", "", "unknown"),
    ],
)
def test_a_version_is_older_by_its_numbers_and_not_by_its_letters(installed: str, newest: str, status: str) -> None:
    catalog = read_catalog(index({"service_id": "asr", "version": newest}))
    assert catalog.compare("asr", installed) == status
    assert catalog.compare("another", installed) == "unknown"


def test_of_several_versions_the_newest_counts() -> None:
    listed = [{"service_id": "asr", "version": version} for version in ("1.9", "1.10", "1.2")]
    assert read_catalog(index(*listed)).latest("asr") == "1.10"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"services": 7}',
        b'{"services": [{"version": "1"}]}',
        b'{"services": [{"service_id": ""}]}',
        b'{"services": [{"service_id": 7}]}',
        index({"service_id": "x" * 300}),
        index(*[{"service_id": "asr"}] * (MAX_SERVICES + 1)),
        b" " * (MAX_BYTES + 1),
        b"[" * 100_000,
    ],
)
def test_what_is_no_list_of_services_is_no_catalog(said: bytes) -> None:
    with pytest.raises(NoCatalog):
        read_catalog(said)
