"""The import contracts of pyproject.toml name their modules by hand; nobody is to be forgotten."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def test_every_flow_with_a_script_is_in_the_contract_that_flows_never_call_each_other() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {contract["name"]: contract for contract in pyproject["tool"]["importlinter"]["contracts"]}
    flows = (ROOT / "src" / "lingua_scheduler" / "flows").glob("*.py")
    with_script = sorted(f"lingua_scheduler.flows.{path.stem}" for path in flows if path.with_suffix(".lua").exists())
    assert contracts["Flows never call each other"]["modules"] == with_script
