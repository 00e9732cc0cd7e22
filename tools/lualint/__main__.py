"""`python -m tools.lualint [paths]`: one line for each complaint, exit status 1 if there are any."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.lualint import lint

ROOT = Path(__file__).parents[2] / "src" / "lingua_scheduler"


def main(arguments: list[str]) -> int:
    """Lint the files and folders named, or all."""
    paths = [Path(argument).resolve() for argument in arguments]
    if missing := [path for path in paths if not path.exists()]:
        print(f"there is no {missing[0]}", file=sys.stderr)
        return 2
    files = [file for path in paths for file in (path.rglob("*.lua") if path.is_dir() else [path])]
    if outside := [file for file in files if not file.is_relative_to(ROOT)]:
        print(f"{outside[0]} is not under {ROOT}", file=sys.stderr)
        return 2
    complaints = lint(ROOT, files if paths else None)
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
