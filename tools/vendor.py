"""`python -m tools.vendor [--check]`: bring what the pages import from npm, or say what is not as it came.

Browsers load the published modules as they are, but for two things: what they import by a bare name they import by the
file beside them, and nobody is sent to look for source maps. `vendor/SHA256SUMS` says what that comes to.
"""

from __future__ import annotations

import hashlib
import io
import re
import sys
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VENDOR: Final = Path(__file__).parents[1] / "src" / "lingua_scheduler" / "front" / "pages" / "vendor"
SUMS: Final = "SHA256SUMS"
_SOURCE_MAP: Final = re.compile(rb"\n?//# sourceMappingURL=\S+\s*$")


@dataclass(frozen=True, slots=True)
class Package:
    """What is taken of a package, and under which name; `sha256` is that of its archive."""

    name: str
    version: str
    licence: str
    sha256: str
    files: dict[str, str]

    @property
    def url(self) -> str:
        """Where it is published."""
        return f"https://registry.npmjs.org/{self.name}/-/{self.name.rpartition('/')[2]}-{self.version}.tgz"

    @property
    def licence_file(self) -> str:
        """Beside what it allows."""
        return f"LICENSE-{self.name.rpartition('/')[2]}.txt"


PACKAGES: Final = (
    Package(
        "preact",
        "11.2.0",
        "MIT",
        "3c4456766bd32b6b534d52bf4e9c2a29b33e7eedf6e96ed479300ba1a7888ebf",
        {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "hooks.js"},
    ),
    Package(
        "htm",
        "3.1.1",
        "Apache-2.0",
        "2425b9bee11409177bcabc7f32e319926fc6690c1701c0b257c88bdff2d5ba90",
        {"dist/htm.mjs": "htm.js"},
    ),
    Package(
        "@preact/signals",
        "2.11.4",
        "MIT",
        "66ea8221dd8aaa0da2365d49c3f116b071d56cfb63b2e16c072c6b4e08a928b7",
        {"dist/signals.mjs": "signals.js"},
    ),
    Package(
        "@preact/signals-core",
        "1.14.5",
        "MIT",
        "94c421ac996214c94f532fb4c43d8ede048a16df0cd9538ffb965174dbe8daba",
        {"dist/signals-core.mjs": "signals-core.js"},
    ),
    Package(
        "uplot",
        "1.6.32",
        "MIT",
        "4b8a8191e425658e3ea8c8c1314b0fc679c861ee3a1af2b20c7b16ba50b5133d",
        {"dist/uPlot.esm.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"},
    ),
)
#: What they call each other, and where that is here.
_IMPORTS: Final = {
    b"preact": b"./preact.js",
    b"preact/hooks": b"./hooks.js",
    b"@preact/signals-core": b"./signals-core.js",
}


def taken(package: Package, archive: bytes) -> dict[str, bytes]:
    """The files of a package as browsers get them, by name, with the licence."""
    if hashlib.sha256(archive).hexdigest() != package.sha256:
        raise SystemExit(f"{package.url} is not what it was")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:

        def read(path: str) -> bytes:
            file = files.extractfile(f"package/{path}")
            assert file is not None, path  # noqa: S101 - what has this sum has these files
            return file.read()

        wanted = {name: _for_browsers(read(path)) for path, name in package.files.items()}
        return wanted | {package.licence_file: read("LICENSE")}


def _for_browsers(text: bytes) -> bytes:
    for name, file in _IMPORTS.items():
        text = text.replace(b'from"%b"' % name, b'from"%b"' % file)
    return _SOURCE_MAP.sub(b"\n", text)


def readme() -> str:
    """Where everything came from."""
    rows = (
        f"| [{one.name}]({one.url}) | {one.version} | {one.licence} | `{'`, `'.join(one.files.values())}`"
        f" | `{one.sha256}` |"
        for one in PACKAGES
    )
    return "\n".join(
        (
            "# What the pages import",
            "",
            "<!-- Written by `python -m tools.vendor`. -->",
            "",
            "The published modules, as they are but for the names by which they import each other. Licences lie beside",
            "them, sums in `SHA256SUMS` (`python -m tools.vendor --check`, or `sha256sum --check SHA256SUMS`).",
            "",
            "| package | version | licence | files | sha256 of the archive |",
            "|---|---|---|---|---|",
            *rows,
            "",
        )
    )


def sums(files: dict[str, bytes]) -> str:
    """As `sha256sum` writes them."""
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files))


def faults(folder: Path = VENDOR) -> list[str]:
    """What is there and should not be, is missing, or is another."""
    wanted = {name for one in PACKAGES for name in (*one.files.values(), one.licence_file)} | {"README.md"}
    lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    known = {name: sha256 for sha256, name in (line.split() for line in lines)}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.name != SUMS}
    return [
        *(f"{name}: missing" for name in sorted(wanted - found.keys())),
        *(f"{name}: nobody asked for it" for name in sorted(found.keys() - wanted)),
        *(f"{name}: is another" for name in sorted(wanted & found.keys()) if known.get(name) != found[name]),
        *(f"{SUMS}: tells of {name}" for name in sorted(known.keys() - wanted)),
        *(
            []
            if found.get("README.md") in {None, hashlib.sha256(readme().encode()).hexdigest()}
            else ["README.md: stale"]
        ),
    ]


def bring(folder: Path = VENDOR) -> None:
    """Everything anew."""
    files = {"README.md": readme().encode()}
    for package in PACKAGES:
        with urllib.request.urlopen(package.url, timeout=60) as answer:  # noqa: S310 - https, and its sum is known
            files |= taken(package, answer.read())
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, text in files.items():
        (folder / name).write_bytes(text)
    (folder / SUMS).write_text(sums(files), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Bring them, or check them."""
    if arguments not in ([], ["--check"]):
        raise SystemExit(__doc__)
    if not arguments:
        bring()
    wrong = faults()
    for fault in wrong:
        print(f"{VENDOR.name}/{fault}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
