from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tools import vendor

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return shutil.copytree(vendor.VENDOR, tmp_path / "vendor")


def test_everything_is_as_it_came() -> None:
    assert vendor.faults() == []
    assert vendor.main(["--check"]) == 0


def test_every_package_has_its_licence_beside_it_and_stands_on_the_page_of_dependencies() -> None:
    page = (vendor.VENDOR.parents[4] / "docs" / "dependencies.md").read_text(encoding="utf-8")
    for package in vendor.PACKAGES:
        assert (vendor.VENDOR / package.licence_file).stat().st_size > 1_000
        assert f"`{package.name}` {package.version}" in page


def test_a_changed_byte_a_missing_and_a_strange_file_are_named(copy: Path) -> None:
    (copy / "preact.js").write_bytes((copy / "preact.js").read_bytes() + b"\n")
    (copy / "htm.js").unlink()
    (copy / "more.js").write_text("")
    assert vendor.faults(copy) == ["htm.js: missing", "more.js: nobody asked for it", "preact.js: is another"]


def test_an_archive_that_is_another_is_not_unpacked() -> None:
    with pytest.raises(SystemExit, match="is not what it was"):
        vendor.taken(vendor.PACKAGES[0], b"something else")
