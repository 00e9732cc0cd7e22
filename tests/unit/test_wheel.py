from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_wheel_has_every_page_script_and_module(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        packed = set(files.namelist())
    source = ROOT / "src"
    wanted = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    missing = {path for path in wanted - packed if "__pycache__" not in path}
    assert missing == set()
    assert "lingua_scheduler/front/pages/vendor/LICENSE-preact.txt" in packed
    assert not any("__pycache__" in path for path in packed)
